"""Decides the next step of a definition, and of the objects of its kind, to the versions of the classes.

Pure. Whether stored objects fit a change of a schema is proven before it is made (`definition_proof`).
All state is in the definition: its versions, `status.storedVersions`, its conditions, and one annotation with
the generation under which all objects were last rewritten. So a process that is killed after any step goes on
where it was. The order never makes an object unreadable:

1. serve new versions beside the stored one, with the conversion;
2. when the conversion answers, store the newest version;
3. rewrite all objects, then take the old versions out of `storedVersions`;
4. stop serving the versions that have no class any more, rewrite the objects without their `managedFields`
   (kubernetes#111937: with them every later apply fails), and drop these versions.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import frozen

from reconcile.models.versions import preference
from reconcile.webhooks.schema_losses import lost_field
from reconcile.webhooks.wanted_definitions import WantedDefinition

Spec = Mapping[str, Any]


@frozen
class Create:
    """Create the definition, which the server does not have."""

    body: Mapping[str, Any]


@frozen
class Change:
    """Change `spec` at the version that was read; `what` says it for the log.

    `serves` if it only lets more be served, and nothing is stored otherwise.
    """

    what: str
    spec: Spec
    serves: bool = False


@frozen
class Await:
    """Read the definition again soon: the server is about to act on it; `what` says what is missing."""

    what: str


@frozen
class Probe:
    """Find out whether objects are readable in `version`, which is not the stored one."""

    version: str


@frozen
class Migrate:
    """Rewrite all objects in the storage version, without managedFields of the versions `drop`."""

    version: str
    drop: Sequence[str] = ()


@frozen
class Record:
    """Set `status.storedVersions` to the one version in which all objects are stored now."""

    version: str


@frozen
class Finished:
    """The definition is as the classes want it."""


@frozen
class Refused:
    """The step would lose data; the text says why, and what to do."""

    problem: str


Step = Create | Change | Await | Probe | Migrate | Record | Finished | Refused


@frozen
class Seen:
    """What one process found out about a generation of the definition.

    `converts` is the generation in which a probe succeeded; `equal` one in which a change of `spec` changed
    nothing, since the server writes the same definition in another way.
    """

    converts: int = 0
    equal: int = 0


_NOTHING_SEEN = Seen()


def next_step(
    wanted: WantedDefinition, installed: Mapping[str, Any] | None, seen: Seen = _NOTHING_SEEN
) -> Step:
    """The next step for a kind whose definition is `installed`; None: it has none."""
    if installed is None:
        return _first(wanted)
    now = Installed(installed)
    if problem := _problem(wanted, now):
        return Refused(problem)
    served = _serving(wanted, now)
    if served != now.spec and seen.equal != now.generation:
        return Change(f"serve {_listed(wanted.versions)}", served, serves=True)
    if not now.is_established:
        return Await(f"the server has not established the definition: {now.complaint}")
    return _to_storage(wanted, now, seen) or _to_the_end(wanted, now)


class Installed:
    """A definition as the server has it."""

    def __init__(self, body: Mapping[str, Any]) -> None:
        self.body = body
        self.spec: Spec = body["spec"]
        self.versions: Mapping[str, Mapping[str, Any]] = {
            version["name"]: version for version in self.spec["versions"]
        }
        self.stored = next(name for name, version in self.versions.items() if version["storage"])
        self.generation: int = body["metadata"].get("generation", 1)

    @property
    def stored_versions(self) -> Sequence[str]:
        """Versions in which objects may be stored."""
        return self._status.get("storedVersions") or (self.stored,)

    @property
    def is_clean(self) -> bool:
        """Whether all objects are stored in the storage version."""
        return list(self.stored_versions) == [self.stored]

    @property
    def is_established(self) -> bool:
        return any(
            condition.get("type") == "Established" and condition.get("status") == "True"
            for condition in self._status.get("conditions") or ()
        )

    @property
    def complaint(self) -> str:
        """Why the server does not take the names of the kind, or that it has not looked at them yet."""
        for condition in self._status.get("conditions") or ():
            if condition.get("type") == "NamesAccepted" and condition.get("status") == "False":
                return str(condition.get("message"))
        return "it has not looked at the names yet"

    @property
    def is_migrated(self) -> bool:
        """Whether all objects were rewritten since the last change of the definition."""
        annotations = self.body["metadata"].get("annotations") or {}
        return bool(annotations.get(marker_of(self.body)) == str(self.generation))

    @property
    def converts(self) -> bool:
        return bool(self.conversion.get("strategy") == "Webhook")

    @property
    def conversion(self) -> Mapping[str, Any]:
        return self.spec.get("conversion") or {}

    @property
    def _status(self) -> Mapping[str, Any]:
        return self.body.get("status") or {}


def marker_of(definition: Mapping[str, Any]) -> str:
    """The annotation with the generation of a definition under which all objects were rewritten."""
    return f"{definition['spec']['group']}/migrated-generation"


def _first(wanted: WantedDefinition) -> Step:
    if wanted.convertible and wanted.webhook is None:
        return Refused(_no_webhook(wanted))
    return Create(wanted.body)


# --- 1. serve ---------------------------------------------------------------------------------------


def _serving(wanted: WantedDefinition, now: Installed) -> Spec:
    """`spec` with all versions of the classes; what is stored stays, and so do versions of others."""
    kept = [
        {**wanted.versions[name], "storage": version["storage"]} if name in wanted.versions else version
        for name, version in now.versions.items()
    ]
    added = [
        {**version, "storage": False} for name, version in wanted.versions.items() if name not in now.versions
    ]
    spec = {**now.spec, "versions": [*kept, *added]}
    if wanted.webhook is None:
        return spec
    return {**spec, "conversion": {"strategy": "Webhook", "webhook": _webhook(wanted.webhook, now)}}


def _webhook(wanted: Mapping[str, Any], now: Installed) -> Mapping[str, Any]:
    """The wanted webhook with the CA bundle that is installed, which the rotation of certificates sets."""
    before = (now.conversion.get("webhook") or {}).get("clientConfig") or {}
    config = wanted["clientConfig"]
    bundle = config.get("caBundle") or before.get("caBundle")
    kept = {**config, **({"caBundle": bundle} if bundle else {})}
    if "service" in config:
        kept["service"] = {"port": 443, **config["service"]}  # as the server writes it
    return {**wanted, "clientConfig": kept}


# --- 2. store ---------------------------------------------------------------------------------------


def _to_storage(wanted: WantedDefinition, now: Installed, seen: Seen) -> Step | None:
    if now.stored == wanted.newest or preference(now.stored) > preference(wanted.newest):
        return None
    if now.converts and seen.converts != now.generation:
        return Probe(wanted.newest)
    versions = [{**version, "storage": name == wanted.newest} for name, version in now.versions.items()]
    return Change(f"store {wanted.newest} in place of {now.stored}", {**now.spec, "versions": versions})


# --- 3. and 4. migrate and drop -----------------------------------------------------------------------


def _to_the_end(wanted: WantedDefinition, now: Installed) -> Step:
    newer = preference(now.stored) > preference(wanted.newest)
    gone = [] if newer else [name for name in now.versions if _is_gone(name, wanted)]
    if not now.is_clean:
        return Record(now.stored) if now.is_migrated else Migrate(now.stored)
    if served := [name for name in gone if now.versions[name]["served"]]:
        stopped = [{**v, "served": v["served"] and n not in served} for n, v in now.versions.items()]
        return Change(f"stop serving {_listed(served)}", _without_webhook(now, stopped))
    if gone and not now.is_migrated:
        return Migrate(now.stored, gone)
    if gone:
        left = [version for name, version in now.versions.items() if name not in gone]
        return Change(f"drop {_listed(gone)}", _without_webhook(now, left))
    if now.converts and len(now.versions) == 1:
        return Change("end the conversion", _without_webhook(now, [*now.versions.values()]))
    return Finished()


def _is_gone(name: str, wanted: WantedDefinition) -> bool:
    """Whether the classes had a version once; a newer one belongs to a later release."""
    return name not in wanted.versions and preference(name) < preference(wanted.newest)


def _without_webhook(now: Installed, versions: Sequence[Mapping[str, Any]]) -> Spec:
    """`spec` with these versions, and without a webhook that has nothing left to convert."""
    spec = {**now.spec, "versions": versions}
    served = [version for version in versions if version["served"]]
    return {**spec, "conversion": {"strategy": "None"}} if len(served) == 1 else spec


# --- refusals ---------------------------------------------------------------------------------------


def _problem(wanted: WantedDefinition, now: Installed) -> str:
    """Why nothing may be changed, with the next step; empty if it may."""
    return _other_kind(wanted, now) or _other_release(wanted, now) or _unconvertible(wanted, now)


def _other_kind(wanted: WantedDefinition, now: Installed) -> str:
    mine = wanted.body["spec"]
    pairs = (
        ("kind", mine["names"]["kind"], now.spec["names"]["kind"]),
        ("scope", mine["scope"], now.spec["scope"]),
    )
    for what, wanted_value, installed in pairs:
        if wanted_value != installed:
            return (
                f"the definition {wanted.name} has the {what} {installed}, and the class has {wanted_value}, "
                "which cannot be changed: give the class another plural or group"
            )
    return ""


def _other_release(wanted: WantedDefinition, now: Installed) -> str:
    """The objects are stored in a version for which this release has no class."""
    for name in dict.fromkeys((now.stored, *now.stored_versions)):
        if name in wanted.versions:
            continue
        if now.converts:
            return (
                f"objects of {wanted.name} are stored as {name}, which this release cannot convert: it has "
                f"{_listed(wanted.versions)}. Run a release with the classes of all these versions until "
                f"storedVersions of the definition no longer has {name}"
            )
        loss = _loss(now.versions[name], wanted.versions[wanted.newest]) if name in now.versions else ""
        if loss:
            return (
                f"objects of {wanted.name} are stored as {name}, and {wanted.newest} has no field {loss}, so "
                f"it would be lost: add the class of {name} and the functions between the two (@converts)"
            )
    return ""


def _loss(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    return lost_field(before["schema"]["openAPIV3Schema"], after["schema"]["openAPIV3Schema"])


def _unconvertible(wanted: WantedDefinition, now: Installed) -> str:
    if wanted.convertible and wanted.webhook is None and not now.converts:
        return _no_webhook(wanted)
    return ""


def _no_webhook(wanted: WantedDefinition) -> str:
    return (
        f"the versions {_listed(wanted.versions)} of {wanted.name} are converted by functions, and no "
        "webhook is set up that would call them: serve webhooks, or keep one version"
    )


def _listed(names: Any) -> str:
    return ", ".join(names)
