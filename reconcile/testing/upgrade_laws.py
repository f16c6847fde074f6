"""What must hold while one version of an operator replaces another, judged on what a cluster had at rest."""

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec
from attrs import evolve, frozen

from informers.apimachinery.server_fields import SET_BY_SERVER
from reconcile.client.buckets import BUCKET_LABEL
from reconcile.client.redaction import HIDDEN
from reconcile.embedded.log import StoredChange
from reconcile.testing.cluster_actor import TOUCHED
from reconcile.testing.end_state import EndState, ExpectedEndState, differences
from reconcile.testing.recorded_requests import UNCOUNTED
from reconcile.testing.redactor import Redactor

LivingObject: TypeAlias = tuple[str, str, str]
"""The version in which it was read (`example.com/v1`), its plural, and its key as text."""
Fields: TypeAlias = Mapping[str, Any]
"""The values of an object by their paths; items of a list by their `type` or `name`, if they have one."""

_KEYS: Final = ("type", "name")
_IN_BRACKETS: Final = re.compile(r"\[[^]]*\]")
_OF_METADATA: Final = ("labels", "annotations")
_PASSING: Final = frozenset({f".metadata.labels.{BUCKET_LABEL}", f".metadata.annotations.{TOUCHED}"})
_TIME_OF_CONDITION: Final = ".lastTransitionTime"
_LONGEST: Final = 60
_ROUNDS: Final = 2
"""How often two versions may each undo what the other wrote: hand-overs do so once."""
_ABSENT: Final = "<nothing>"


@frozen
class UpgradeFault:
    """What does not hold: in which `combination` of code and definition, of which object, at which field."""

    combination: str
    law: str
    subject: str
    field: str
    text: str

    @property
    def identity(self) -> tuple[str, ...]:
        """The same for one fault in several combinations."""
        return self.law, self.subject, self.field, "" if self.subject else self.text

    def __str__(self) -> str:
        where = " ".join(part for part in (self.subject, self.field.lstrip(".")) if part)
        return f"{self.combination}: {where}: {self.text}" if where else f"{self.combination}: {self.text}"


@frozen
class Finding:
    """What a law finds: the object as text, the path of the field, and what is wrong with it."""

    law: str
    plural: str
    subject: str
    field: str
    text: str

    def because(self, why: str) -> "Finding":
        """The same, with a cause."""
        return evolve(self, text=f"{self.text}: {why}")

    def within(self, combination: str) -> UpgradeFault:
        """The fault that it is in a combination of code and definition."""
        return UpgradeFault(combination, self.law, self.subject, self.field, self.text)


@frozen
class VersionWrite:
    """A change of an object, and the version of the code that made it."""

    author: str
    change: StoredChange


# --- objects that users wrote -----------------------------------------------------------------------


def fields_of_object(body: Mapping[str, Any]) -> Fields:
    """What users and operators say in an object: of its metadata only labels and annotations."""
    metadata = body.get("metadata") or {}
    said = {name: metadata[name] for name in _OF_METADATA if name in metadata}
    rest = {name: value for name, value in body.items() if name not in ("apiVersion", "kind", "metadata")}
    paths = dict(_paths({"metadata": said, **rest}))
    return {path: value for path, value in paths.items() if path not in _PASSING}


def _paths(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping) and value:
        for name, item in value.items():
            yield from _paths(item, f"{path}.{name}")
    elif (keyed := _keyed(value)) is not None:
        for name, item in keyed.items():
            yield from _paths(item, f"{path}[{name}]")
    else:
        yield path, value


def _keyed(value: Any) -> Mapping[str, Any] | None:
    """A list of objects by what tells them apart; None if nothing does."""
    if not (isinstance(value, list) and value and all(isinstance(item, Mapping) for item in value)):
        return None
    for key in _KEYS:
        names = [item.get(key) for item in value]
        if all(isinstance(name, str) for name in names) and len(set(names)) == len(names):
            return dict(zip(names, value, strict=True))
    return None


def losses(
    before: Mapping[LivingObject, Fields], after: Mapping[LivingObject, Fields], redactor: Redactor
) -> Iterator[Finding]:
    """Objects and fields that were there before, and values of specs that have changed since.

    A version of the kind that is not served any more counts only if no other one shows the object.
    """
    shown = {(plural, key) for _, plural, key in after}
    served = {version for version, _, _ in after}
    for (version, plural, key), fields in before.items():
        now = after.get((version, plural, key))
        if now is not None:
            yield from _losses_of(plural, key, fields, now, redactor)
        elif (plural, key) not in shown or version in served:
            yield Finding("keeps", plural, f"{plural} {key}", "", "the object is lost")


def _losses_of(plural: str, key: str, before: Fields, after: Fields, redactor: Redactor) -> Iterator[Finding]:
    for path, value in before.items():
        if not _is_in(path, after):
            was = _shown(plural, path, value, redactor)
            yield Finding("keeps", plural, f"{plural} {key}", path, f"is lost, it was {was}")
        elif path.startswith(".spec") and path in after and after[path] != value:
            was, now = (_shown(plural, path, one, redactor) for one in (value, after[path]))
            yield Finding("keeps", plural, f"{plural} {key}", path, f"is {now}, a user wrote {was}")


def _is_in(path: str, fields: Fields) -> bool:
    return any(_is_below(one, path) for one in fields)


def resets(before: Mapping[LivingObject, Fields], after: Mapping[LivingObject, Fields]) -> Iterator[Finding]:
    """Conditions that say the same as before, and claim to say it only since a later time."""
    for (version, plural, key), fields in before.items():
        now = after.get((version, plural, key), {})
        for path, since in fields.items():
            condition, status = (
                path.removesuffix(_TIME_OF_CONDITION),
                path.replace(_TIME_OF_CONDITION, ".status"),
            )
            if condition == path or path not in now or now[path] == since:
                continue
            if now.get(status) == fields.get(status):
                text = f"is {now[path]}, it was {since}, and its status is {now.get(status)} as before"
                yield Finding("resets", plural, f"{plural} {key}", path, text)


# --- what a version leaves --------------------------------------------------------------------------


def unlike_fresh(
    end: EndState, fresh: ExpectedEndState, uncounted: Collection[str], redactor: Redactor
) -> Iterator[Finding]:
    """Where a cluster is not as a fresh install of the version leaves it.

    Further fields may be there, but no further objects. `uncounted` are plurals that are not compared.
    """
    reference = fresh.end.objects
    for subject in sorted(reference.keys() | end.objects.keys()):
        plural = subject[0]
        if plural in uncounted:
            continue
        here, there = end.objects.get(subject, ()), reference.get(subject, ())
        if plural not in fresh.uncertain and len(here) != len(there):
            yield Finding("reconciles", plural, _name(subject), "", _number_text(len(here), len(there)))
        elif plural not in fresh.uncertain:
            for one, other in zip(there, here, strict=True):
                yield from _unlike(plural, _name(subject), one, other, fresh.differing, redactor)
    for plural in sorted(fresh.uncertain.difference(uncounted)):
        count, usual = (
            sum(len(left) for subject, left in objects.items() if subject[0] == plural)
            for objects in (end.objects, reference)
        )
        if count != usual:
            yield Finding("reconciles", plural, plural, "", _number_text(count, usual))


def _number_text(here: int, fresh: int) -> str:
    if here > fresh:
        return f"{here} left, a fresh install of this version has {fresh}"
    return f"{here} there, a fresh install of this version has {fresh}"


def _unlike(
    plural: str, name: str, fresh: Any, found: Any, differing: Collection[str], redactor: Redactor
) -> Iterator[Finding]:
    now = dict(_paths(found))
    for path, value in _paths(fresh):
        plain = _IN_BRACKETS.sub("[]", path)
        if any(_is_below(f"{plural}{plain}", one) for one in differing):
            continue
        if (path not in now and value in ({}, [])) or (path in now and _holds(now[path], value)):
            continue
        is_now = _shown(plural, path, now.get(path, _ABSENT), redactor)
        text = f"is {is_now}, a fresh install of this version has {_shown(plural, path, value, redactor)}"
        yield Finding("reconciles", plural, name, path, text)


def _is_below(path: str, field: str) -> bool:
    return path == field or path.startswith((f"{field}.", f"{field}["))


def _holds(found: Any, wanted: Any) -> bool:
    if isinstance(found, list) and isinstance(wanted, list):
        return all(item in found for item in wanted)
    return bool(found == wanted)


# --- versions side by side --------------------------------------------------------------------------


def fights(writes: Iterable[VersionWrite], redactor: Redactor) -> Iterator[Finding]:
    """Fields, and objects, that two versions of the code set in turns."""
    values: dict[tuple[str, str, str], list[tuple[str, Any]]] = defaultdict(list)
    for write in writes:
        change = write.change
        if change.resource in UNCOUNTED:
            continue
        subject = f"{change.resource[1]} {change.key}"
        for path, value in _changed(change):
            values[change.resource[1], subject, path].append((write.author, value))
    for (plural, subject, path), history in values.items():
        authors = _in_turns(history)
        if authors is not None:
            told = [f"{author} writes {_shown(plural, path, value, redactor)}" for author, value in authors]
            yield Finding("fights", plural, subject, path, " and ".join(told) + ", in turns")


def _changed(change: StoredChange) -> Iterator[tuple[str, Any]]:
    if change.old is None or change.new is None:
        yield "", "the object" if change.old is None else _ABSENT
        return
    old, new = change.old.decode(), change.new.decode()
    for path, _, value in differences(_lasting(old), _lasting(new)):
        yield path, value


def _lasting(body: Mapping[str, Any]) -> Mapping[str, Any]:
    metadata = {name: value for name, value in body["metadata"].items() if name not in SET_BY_SERVER}
    return {**body, "metadata": metadata}


def _in_turns(history: Sequence[tuple[str, Any]]) -> Sequence[tuple[str, Any]] | None:
    """Two writes that undo each other, if each has been undone more often than a hand-over explains."""
    rounds = 0
    for before, one, after in zip(history, history[1:], history[2:], strict=False):
        if before[0] != one[0] and before == after and before[1] != one[1]:
            rounds += 1
            if rounds > _ROUNDS:
                return before, one
    return None


# --- text -------------------------------------------------------------------------------------------


def _shown(plural: str, path: str, value: Any, redactor: Redactor) -> str:
    if redactor.hides(plural, _IN_BRACKETS.sub("[]", path)):
        return HIDDEN
    text = value if value == _ABSENT else msgspec.json.encode(value, order="deterministic").decode()
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _name(subject: Sequence[str]) -> str:
    plural, namespace, name = subject
    return f"{plural} {namespace}/{name}" if namespace else f"{plural} {name}"


def counted_without(ignoring: Collection[str]) -> Callable[[Finding], bool]:
    """Whether a finding counts: none of the `ignoring` fields (`sites.status.history`) has its field."""

    def counts(finding: Finding) -> bool:
        path = _IN_BRACKETS.sub("", f"{finding.plural}{finding.field}")
        return not any(_is_below(path, one) for one in ignoring)

    return counts
