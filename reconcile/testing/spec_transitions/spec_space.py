"""The specs of one kind: which values of which fields the server admits, which it refuses."""

import fnmatch
import itertools
import textwrap
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from time import perf_counter
from typing import Any

from attrs import define, field, frozen

from reconcile.testing.spec_transitions.covering_rows import Row
from reconcile.testing.spec_transitions.left_worlds import shortened
from reconcile.testing.spec_transitions.sample_values import JsonSchema, full_of, least_of
from reconcile.testing.spec_transitions.spec_slots import SpecSlot, slots_of, value_at, with_value
from reconcile.testing.spec_transitions.transition_player import InvalidSpec, SpecManifest
from reconcile.testing.spec_transitions.trial_server import TrialServer
from reconcile.testing.spec_transitions.value_classes import (
    ABSENT,
    ValueClass,
    classes_of,
    identity_of,
    refused_of,
)

_MOST_REPAIRS = 60
"""Values of neighbouring fields with which a refused value is tried again."""
_MOST_MENDINGS = 2_000
"""Values of fields with which a refused object is tried again."""


@frozen
class UnplayedValue:
    """A value that could not be made valid: of a field, of a class, and why the server refuses it."""

    field: str
    name: str
    refusal: str

    def __str__(self) -> str:
        return (
            f"{self.field} ({self.name}): {textwrap.shorten(shortened(self.refusal), 300, placeholder='…')}"
        )


@frozen
class SlotSpecs:
    """One field, and a whole object for each of its classes that the server admits."""

    slot: SpecSlot
    classes: Sequence[ValueClass]
    manifests: Sequence[SpecManifest]

    @property
    def identity(self) -> frozenset[bytes]:
        """Equal for fields whose values make the same objects."""
        return frozenset(map(identity_of, self.manifests))

    def walk(self) -> Sequence[SpecManifest]:
        """A way through all changes from one class to another, each there and back."""
        way = list(self.manifests[:1])
        for number, one in enumerate(self.manifests):
            if number > 0:
                way.append(one)
            for other in self.manifests[number + 1 :]:
                way += [other, one]
        return way


@define(eq=False)
class SpecSpace:
    """What can be made of one `base`: an object that the server admits.

    At `until`, by `perf_counter`, the remaining fields are left `untried`, except the first that has values.
    """

    base: SpecManifest
    schema: JsonSchema
    trial: TrialServer
    until: float
    only: str = "*"
    skip: Sequence[str] = ()
    known: Container[frozenset[bytes]] = ()
    """Identities of fields that are varied elsewhere in the same way."""
    slots: Sequence[SpecSlot] = field(init=False)
    kept: Sequence[SpecSlot] = field(init=False)
    """Fields to skip: in each object they are as in the base, whatever is varied around them."""
    fields: list[SlotSpecs] = field(factory=list, init=False)
    invalid: list[InvalidSpec] = field(factory=list, init=False)
    unplayed: list[UnplayedValue] = field(factory=list, init=False)
    untried: list[str] = field(factory=list, init=False)

    def __attrs_post_init__(self) -> None:
        every = slots_of(self.schema, self.base)
        self.kept = [slot for slot in every if any(is_chosen(slot, one) for one in self.skip)]
        self.slots = [slot for slot in every if slot not in self.kept]
        for slot in self.slots:
            if not is_chosen(slot, self.only):
                continue
            if self.fields and perf_counter() >= self.until:
                self.untried.append(slot.name)
            else:
                self._try(slot)

    def _try(self, slot: SpecSlot) -> None:
        base = self._base_of(slot)
        if base is None:
            return
        sample = value_at(base, slot.path)
        admitted: dict[bytes, tuple[ValueClass, SpecManifest]] = {}
        for one in classes_of(slot.schema, required=slot.required, sample=sample):
            manifest = self._admitted(base, slot, one)
            if manifest is not None:
                admitted[one.identity] = one, manifest
        for one in refused_of(slot.schema, required=slot.required):
            manifest = self._with(base, slot, one)
            if one.identity in admitted:
                continue
            if self.trial.admits(manifest):  # a webhook has made it valid
                admitted[one.identity] = one, manifest
            else:
                self.invalid.append(InvalidSpec(manifest, str(slot.path[-1])))
        if len(admitted) > 1:
            classes, manifests = zip(*admitted.values(), strict=True)
            self.fields.append(SlotSpecs(slot, classes, manifests))

    def _base_of(self, slot: SpecSlot) -> SpecManifest | None:
        """The base with what has to be above the field; None if the server does not admit that."""
        if len(slot.path) < 3 or value_at(self.base, slot.path[:-1]) is not ABSENT:
            return self.base
        sample = classes_of(slot.schema, required=True)
        for one in sample:
            made = self._with(self.base, slot, one)
            if self.trial.admits(made):
                return made
        why = self.trial.refusal_of(self._with(self.base, slot, sample[0])) if sample else "no value is known"
        self.unplayed.append(UnplayedValue(slot.name, "any", why))
        return None

    def _with(self, base: SpecManifest, slot: SpecSlot, one: ValueClass) -> SpecManifest:
        manifest = with_value(base, self.schema, slot.path, one.value)
        for kept in self.kept:
            if kept.is_below(slot) and value_at(manifest, kept.path[:-1]) not in (ABSENT, None):
                manifest = with_value(manifest, self.schema, kept.path, value_at(base, kept.path))
        return manifest

    def _admitted(self, base: SpecManifest, slot: SpecSlot, one: ValueClass) -> SpecManifest | None:
        """The object with that value, and with another value of a neighbouring field if that is needed."""
        manifest = self._with(base, slot, one)
        refusal = self.trial.refusal_of(manifest)
        if not refusal:
            return manifest
        for repaired in itertools.islice(self._repairs(manifest, slot), _MOST_REPAIRS):
            if self.trial.admits(repaired):
                return repaired
        self.unplayed.append(UnplayedValue(slot.name, one.name, refusal))
        self.invalid.append(InvalidSpec(manifest, ""))
        return None

    def _repairs(self, manifest: SpecManifest, slot: SpecSlot) -> Iterator[SpecManifest]:
        """The same with one other value among the fields beside or inside this one."""
        for other in self.slots:
            beside = other.path[:-1] == slot.path[:-1] and other.path != slot.path
            inside = other.is_below(slot) and len(other.path) <= len(slot.path) + 2
            if not (beside or inside) or other.path[0] == "metadata":
                continue
            for one in classes_of(other.schema, required=other.required):
                yield self._with(manifest, other, one)

    # --- combinations -----------------------------------------------------------------------------

    def alone(self) -> Sequence[SlotSpecs]:
        """The fields to vary one by one, as far up as possible, as those matter most if the time is short.

        Parts come before what they are part of, which blames the part. Labels are last.
        """
        return [one for one in sorted(self.fields, key=self._turn) if one.identity not in self.known]

    def _turn(self, one: SlotSpecs) -> tuple[bool, bool, int]:
        depth, has_parts = len(one.slot.path), self._has_parts(one)
        return one.slot.path[0] == "metadata", has_parts, -depth if has_parts else depth

    def leaves(self) -> Sequence[SlotSpecs]:
        """The fields of which no part is a field too: their values can be combined freely."""
        return [one for one in self.fields if not self._has_parts(one)]

    def _has_parts(self, one: SlotSpecs) -> bool:
        return any(other.slot.is_below(one.slot) for other in self.fields)

    def combined(self, leaves: Sequence[SlotSpecs], row: Row) -> SpecManifest:
        """The base with the values of a row."""
        manifest = self.base
        for number, value in row.items():
            leaf = leaves[number]
            manifest = self._with(manifest, leaf.slot, leaf.classes[value])
        return manifest


def is_chosen(slot: SpecSlot, only: str) -> bool:
    """Whether a pattern names the field, or what it is a part of."""
    pattern = only.replace("[", "[[]")  # the number of an item, not a set of characters
    return any(fnmatch.fnmatchcase(slot.name, one) for one in (pattern, f"{pattern}.*", f"{pattern}[[]*"))


def made_bases(head: Mapping[str, Any], schema: JsonSchema, trial: TrialServer) -> Sequence[SpecManifest]:
    """The least object, and one in which all that is optional is set, as far as the server admits them.

    If it admits neither, the least one, to ask why.
    """
    made: list[SpecManifest] = []
    least = {**_users_part(least_of(schema)), **head}
    for fill in (least_of, full_of):
        manifest = {**_users_part(fill(schema)), **head}
        if not trial.admits(manifest):
            manifest = _mended(manifest, schema, trial, fill)
        if trial.admits(manifest) and manifest not in made:
            made.append(manifest)
    return made or [least]


def _users_part(body: Any) -> dict[str, Any]:
    names = ("apiVersion", "kind", "metadata", "status")
    return {name: value for name, value in body.items() if name not in names}


def _mended(
    manifest: dict[str, Any], schema: JsonSchema, trial: TrialServer, fill: Callable[[JsonSchema], Any]
) -> dict[str, Any]:
    """The manifest with another value of one field, or, where all is filled in, without some of them."""
    slots = [slot for slot in slots_of(schema, manifest) if slot.path[0] != "metadata"]
    others = (
        with_value(manifest, schema, slot.path, one.value)
        for slot in slots
        for one in classes_of(slot.schema, required=slot.required)
    )
    for tried in itertools.islice(others, _MOST_MENDINGS):
        if trial.admits(tried):
            return tried
    if fill is full_of:
        return _grown(manifest, schema, trial, slots)
    return manifest


def _grown(
    manifest: dict[str, Any], schema: JsonSchema, trial: TrialServer, slots: Sequence[SpecSlot]
) -> dict[str, Any]:
    """From the least, with each optional field of the manifest that can be added."""
    grown = {**_users_part(least_of(schema)), **{k: manifest[k] for k in ("apiVersion", "kind", "metadata")}}
    for slot in slots:
        value = value_at(manifest, slot.path)
        if value is ABSENT or value_at(grown, slot.path) is not ABSENT:
            continue
        tried = with_value(grown, schema, slot.path, value)
        if trial.admits(tried):
            grown = tried
    return grown
