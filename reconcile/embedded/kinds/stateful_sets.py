"""Defaults and rules of StatefulSets."""

from collections.abc import Iterator
from typing import Any, Final

from informers.apimachinery.name_rules import label_faults
from reconcile.embedded.kinds.built_in_kind import Object, fill, fill_empty, not_negative
from reconcile.embedded.kinds.claim_rules import claim_spec_causes
from reconcile.embedded.kinds.int_or_percent import above_all_causes, amount_causes, is_nothing
from reconcile.embedded.kinds.label_selectors import is_parsable
from reconcile.embedded.kinds.pod_kinds import complete_template
from reconcile.embedded.kinds.workload_checks import (
    lasting_template_causes,
    selector_and_label_causes,
)
from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.protocol.field_causes import (
    value_forbidden,
    value_invalid,
    value_not_supported,
)

_CHANGEABLE: Final = frozenset(
    {
        "minReadySeconds", "ordinals", "persistentVolumeClaimRetentionPolicy", "replicas",
        "revisionHistoryLimit", "template", "updateStrategy",
    }
)  # fmt: skip
_KEPT: Final = ("Retain", "Delete")
_CLAIM: Final = {"status": {"phase": "Pending"}, "spec": {"volumeMode": "Filesystem"}}


def default_stateful_set(stateful_set: Object) -> None:
    """Set in place what SetDefaults_StatefulSet sets."""
    spec = stateful_set["spec"]
    fill_empty(spec, podManagementPolicy="OrderedReady")
    strategy = spec["updateStrategy"] = spec.get("updateStrategy") or {}
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
        fill(strategy, {"rollingUpdate": {}})
    if strategy["type"] == "RollingUpdate" and strategy.get("rollingUpdate") is not None:
        fill(strategy, {"rollingUpdate": {"partition": 0}})
    fill(spec, {"persistentVolumeClaimRetentionPolicy": {}, "volumeClaimTemplates": [_CLAIM]})
    for claim in spec.get("volumeClaimTemplates") or ():
        claim |= {"kind": "PersistentVolumeClaim", "apiVersion": "v1"}  # whatever was written
    fill_empty(spec["persistentVolumeClaimRetentionPolicy"], whenDeleted="Retain", whenScaled="Retain")
    complete_template(spec)


def prepare_stateful_set(stateful_set: Object, old: Object | None) -> None:
    """Drop in place the field of the feature gate MaxUnavailableStatefulSet, which is off by default."""
    (stateful_set["spec"]["updateStrategy"].get("rollingUpdate") or {}).pop("maxUnavailable", None)


def stateful_set_causes(stateful_set: Object, old: Object | None) -> Iterator[FieldCause]:
    """The faults of a StatefulSet, or of a change to one."""
    spec = stateful_set["spec"]
    if old is None:
        yield from _spec_causes(spec)
        yield from _service_causes(spec)
        yield from _template_causes(spec)
        for index, claim in enumerate(spec.get("volumeClaimTemplates") or ()):
            yield from claim_spec_causes(claim.get("spec") or {}, f"spec.volumeClaimTemplates[{index}].spec")
        return
    before = old["spec"]
    yield from _spec_causes(spec)
    if not any(_spec_causes(before)) and not any(_template_causes(before)):
        # Sets from before the template was checked can still be changed.
        yield from _template_causes(spec)
    changed = {name for name in {*spec, *before} if spec.get(name) != before.get(name)}
    if not changed <= _CHANGEABLE:
        why = (
            "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', "
            "'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and "
            "'minReadySeconds' are forbidden"
        )
        yield value_forbidden("spec", why)


def stateful_set_warnings(stateful_set: Object, old: Object | None) -> list[str]:
    """The warning for a limit that keeps every revision."""
    limit = stateful_set["spec"].get("revisionHistoryLimit")
    if limit is None or limit >= 0:
        return []
    why = "a negative value retains all historical revisions; a value >= 0 is recommended"
    return [f"spec.revisionHistoryLimit: {why}"]


def _spec_causes(spec: Object) -> Iterator[FieldCause]:
    policy = spec["podManagementPolicy"]
    if policy not in ("OrderedReady", "Parallel"):
        yield value_invalid("spec.podManagementPolicy", policy, "must be 'OrderedReady' or 'Parallel'")
    yield from _strategy_causes(spec["updateStrategy"], "spec.updateStrategy")
    for name, value in spec["persistentVolumeClaimRetentionPolicy"].items():
        if value not in _KEPT:
            path = f"spec.persistentVolumeClaimRetentionPolicy.{name}"
            yield value_not_supported(path, value, _KEPT)
    yield from not_negative(spec, "spec", "replicas", "minReadySeconds")
    yield from not_negative(spec.get("ordinals") or {}, "spec.ordinals", "start")
    yield from selector_and_label_causes(spec)


def _strategy_causes(strategy: Object, path: str) -> Iterator[FieldCause]:
    kind, rolling = strategy["type"], strategy.get("rollingUpdate")
    if kind not in ("RollingUpdate", "OnDelete"):
        yield value_invalid(path, strategy, "must be 'RollingUpdate' or 'OnDelete'")
    elif rolling is None:
        return
    elif kind == "OnDelete":
        why = "only allowed for updateStrategy 'RollingUpdate'"
        yield value_invalid(f"{path}.rollingUpdate", rolling, why)
    else:
        yield from _rolling_causes(rolling, f"{path}.rollingUpdate")


def _rolling_causes(rolling: Object, path: str) -> Iterator[FieldCause]:
    yield from not_negative(rolling, path, "partition")
    unavailable, where = rolling.get("maxUnavailable"), f"{path}.maxUnavailable"
    if unavailable is None:
        return
    yield from amount_causes(unavailable, where)
    if is_nothing(unavailable):
        yield value_invalid(where, unavailable, "cannot be 0")
    yield from above_all_causes(unavailable, where)


def _service_causes(spec: Object) -> Iterator[FieldCause]:
    """The service becomes the subdomain of the pods, which is a label of a domain name."""
    if name := spec.get("serviceName"):
        yield from (value_invalid("spec.serviceName", name, fault) for fault in label_faults(name))


def _template_causes(spec: Object) -> Iterator[FieldCause]:
    if is_parsable(spec.get("selector")):
        yield from lasting_template_causes({**spec["template"], "spec": _with_claims(spec)})


def _with_claims(spec: Object) -> Object:
    """The pod spec with the volumes that the controller adds; they replace those of the same name."""
    pod: Object = spec["template"].get("spec") or {}
    names = [
        (claim.get("metadata") or {}).get("name") or "" for claim in spec.get("volumeClaimTemplates") or ()
    ]
    if not names:
        return pod
    claims: list[Any] = [
        {"name": name, "persistentVolumeClaim": {"claimName": name}} for name in dict.fromkeys(names)
    ]
    others = [volume for volume in pod.get("volumes") or () if volume.get("name") not in names]
    return {**pod, "volumes": claims + others}
