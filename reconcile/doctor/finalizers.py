"""Finalizers that nothing removes: objects that are terminating for long, and what mends each."""

import datetime
import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
from attrs import field, frozen

from reconcile.doctor.declared import Declared
from reconcile.doctor.findings import Finding
from reconcile.doctor.leases import seconds_since
from reconcile.doctor.objects import Head, Namespace, Pod
from reconcile.shipping.finalizers import Held, Owner, held_of, owners_of_finalizers

CHECK: Final = "finalizers"
STUCK_SECONDS: Final = 300.0
"""Most cleanups take seconds, and back-off repeats those that fail within minutes."""
_SERVER: Final = ("foregroundDeletion", "orphan", "kubernetes")
"""Finalizers that the API server and its controllers handle."""


@frozen
class Stuck:
    """An object of `resource` (`sites.example.com`) that has been terminating for `seconds`."""

    resource: str
    namespace: str
    name: str
    seconds: float
    finalizers: Sequence[str]

    @property
    def subject(self) -> str:
        return f"{self.resource} {f'{self.namespace}/' if self.namespace else ''}{self.name}"


@frozen
class FinalizerFacts:
    """What has been terminating for long, and which operator handles which finalizer of which resource."""

    stuck: Sequence[Stuck] = field(factory=tuple)
    namespaces: Sequence[Namespace] = field(factory=tuple)
    owners: Mapping[tuple[str, str], Owner] = field(factory=dict)


def owners_of(definitions: Iterable[Head], deployments: Iterable[Head]) -> Mapping[tuple[str, str], Owner]:
    return owners_of_finalizers(map(_document, definitions), map(_document, deployments))


def held_resources(declared: Declared, marked: Iterable[Head]) -> Sequence[tuple[str, str, str]]:
    """Group, version and plural of each kind whose objects operators may hold, those of `declared` first."""
    own = [(one.group, one.version, one.plural) for one in declared.resources]
    held = [held for head in marked for held in held_of(_document(head))]
    return list(dict.fromkeys([*own, *((one.group, one.version, one.plural) for one in held)]))


def stuck_among(group: str, plural: str, heads: Iterable[Head], now: datetime.datetime) -> Iterable[Stuck]:
    resource = Held(group, "", plural, "").resource
    for head in heads:
        metadata = head.metadata
        seconds = seconds_since(metadata.deletion_timestamp, now)
        if seconds is not None and seconds > STUCK_SECONDS and metadata.finalizers:
            yield Stuck(resource, metadata.namespace, metadata.name, seconds, metadata.finalizers)


def stuck_namespaces(namespaces: Iterable[Namespace], now: datetime.datetime) -> Sequence[Namespace]:
    ages = [(one, seconds_since(one.metadata.deletion_timestamp, now)) for one in namespaces]
    return [one for one, age in ages if age is not None and age > STUCK_SECONDS]


def check_finalizers(declared: Declared, facts: FinalizerFacts, pods: Sequence[Pod]) -> Iterable[Finding]:
    for namespace in facts.namespaces:
        yield _of_namespace(namespace)
    runs = any(pod.is_ready for pod in pods)
    for stuck in facts.stuck:
        for finalizer in stuck.finalizers:
            owner = facts.owners.get((stuck.resource, finalizer))
            if finalizer in declared.finalizers:
                owner = Owner(declared.name, declared.namespace)
            if finalizer not in _SERVER and "kubernetes.io/" not in finalizer:
                yield _finding(declared, stuck, finalizer, owner, runs)


def _of_namespace(namespace: Namespace) -> Finding:
    """The conditions of a namespace name what is left in it, and the API groups that do not answer."""
    name = namespace.metadata.name
    reasons = [one for one in namespace.status.conditions or () if one.status == "True"]
    why = "; ".join(one.message for one in reasons if one.message) or "its conditions do not say why"
    step = f"let go what is left in it: kubectl get namespace {shlex.quote(name)} -o yaml, and the lines here"
    if any("Discovery" in one.type for one in reasons):
        step = "delete the APIService that does not answer: kubectl get apiservices"
    return Finding(CHECK, "warning", f"namespace {name}", f"does not end: {why}", step)


def _finding(declared: Declared, stuck: Stuck, finalizer: str, owner: Owner | None, runs: bool) -> Finding:
    waits = f"has been terminating for {stuck.seconds / 60:.0f} min and waits for the finalizer {finalizer}"
    if owner is None:
        step = f"start its operator, or, if that is gone for good, {mend(stuck, finalizer)}"
        return Finding(CHECK, "warning", stuck.subject, f"{waits}, whose operator is not known", step)
    if owner.is_gone:
        step = f"install {owner.name} again, or, if it is gone for good, {mend(stuck, finalizer)}"
        return Finding(CHECK, "error", stuck.subject, f"{waits} of {owner}", step)
    if (owner.name, owner.namespace) != (declared.name, declared.namespace):
        step = f"reconcile doctor --name {owner.name} --namespace {owner.namespace}"
        return Finding(CHECK, "warning", stuck.subject, f"{waits} of {owner}", step)
    if not runs:
        step = f"start it, or, if it is gone for good, {mend(stuck, finalizer)}"
        return Finding(CHECK, "error", stuck.subject, f"{waits} of {owner}, which is not running", step)
    kind, _, name = stuck.subject.partition(" ")
    step = f"see why its cleanup does not end: reconcile explain {shlex.quote(kind)} {shlex.quote(name)}"
    return Finding(CHECK, "warning", stuck.subject, f"{waits} of {owner}", step)


def mend(stuck: Stuck, finalizer: str) -> str:
    """The command that takes this one finalizer away, and fails if the object has changed meanwhile."""
    path = f"/metadata/finalizers/{list(stuck.finalizers).index(finalizer)}"
    patch = [{"op": "test", "path": path, "value": finalizer}, {"op": "remove", "path": path}]
    where = ["-n", stuck.namespace] if stuck.namespace else []
    text = json.dumps(patch, separators=(",", ":"))
    return shlex.join(["kubectl", "patch", stuck.resource, stuck.name, *where, "--type=json", "-p", text])


def _document(head: Head) -> Mapping[str, Any]:
    return {"metadata": {**msgspec.to_builtins(head.metadata)}}
