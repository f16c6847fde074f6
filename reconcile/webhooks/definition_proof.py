"""Proves that the stored objects of a kind fit the definition that it is about to get.

Where the comparison of the two definitions does not decide, the objects decide. They are listed in pages and
judged one at a time, so that memory is that of a page. Lists of metadata would not do: `managedFields` of an
object need not name all its fields.
"""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec
from attrs import define, evolve, field, frozen

from informers import Expired
from informers.apimachinery.envelopes import decode_list_page
from informers.loop_slices import LoopSlice
from reconcile.client.sender import Sender
from reconcile.models.definition_changes import (
    DefinitionChange,
    ReadingPlan,
    definition_changes,
    readings,
    schema_of,
)
from reconcile.webhooks.object_fit import Misfit, ObjectFit
from reconcile.webhooks.stored_objects import NAMED, PAGE, RESTARTS

Definition: TypeAlias = Mapping[str, Any]

TOLD: Final = 3
"""How many of them an error names: an Event has room for 1024 characters."""
_decode = msgspec.json.Decoder(dict[str, Any]).decode


@frozen
class DefinitionProof:
    """The `changes` of a definition, and what the stored objects say of them.

    Of the objects `read`, `unfit` do not fit; `misfits` are the first NAMED of these. What this process could
    not judge is `unproven`.
    """

    definition: str
    changes: Sequence[DefinitionChange]
    read: int = 0
    unfit: int = 0
    misfits: Sequence[Misfit] = ()
    unproven: Sequence[str] = ()
    refused: str = ""
    """Why an API server would not take the new schema, as far as that was found."""

    @property
    def impossible(self) -> Sequence[DefinitionChange]:
        return [change for change in self.changes if change.proof == "impossible"]

    @property
    def is_safe(self) -> bool:
        """Whether the definition may be changed: nothing that is stored is lost or becomes invalid."""
        return not (self.impossible or self.unfit or self.unproven or self.refused)

    @property
    def problem(self) -> str:
        """Why it may not, with the next step; empty if it may."""
        if self.refused:
            return (
                f"{self.definition} cannot be changed as the classes say: an API server refuses their "
                f"schema: {self.refused}: see reconcile check"
            )
        if self.impossible:
            said = "; ".join(map(str, self.impossible[:TOLD]))
            return f"{self.definition} cannot be changed as the classes say: {said}: undo this in the classes"
        if self.unfit:
            named = "; ".join(map(str, self.misfits[:TOLD]))
            more = f"; and {self.unfit - TOLD} more" if self.unfit > TOLD else ""
            return (
                f"{self.unfit} of {self.read} stored objects of {self.definition} do not fit the classes: "
                f"{named}{more}: change these objects, run the release that fits them, or, if the fields may "
                "be lost, apply the definition that `reconcile crds` prints"
            )
        if self.unproven:
            return (
                f"the stored objects of {self.definition} cannot be judged here: {self.unproven[0]}: "
                "install reconcile-runtime[embedded], or apply the definition that `reconcile crds` prints"
            )
        return ""


@define
class _Tally:
    read: int = 0
    unfit: int = 0
    misfits: list[Misfit] = field(factory=list)


async def prove(sender: Sender, old: Definition, new: Definition) -> DefinitionProof:
    """Compare the definition `old`, as its server has it, with `new`, and read objects where they decide.

    Raises ApiError.
    """
    name = old["metadata"]["name"]
    changes = definition_changes(old, new)
    proof = DefinitionProof(name, changes)
    if proof.impossible or not _is_established(old):
        return proof
    if not (plans := readings(old, new, changes)):
        return proof
    # The validation of the embedded server costs an import that a manager rarely needs.
    from reconcile.embedded.schema import SchemaError

    try:
        return await _judged(sender, old, new, proof, plans)
    except SchemaError as error:
        return evolve(proof, refused=str(error))


async def _judged(
    sender: Sender,
    old: Definition,
    new: Definition,
    proof: DefinitionProof,
    plans: Iterable[ReadingPlan],
) -> DefinitionProof:
    """What the stored objects say. Raises ApiError, and SchemaError for a schema that no server takes."""
    tally, unproven = _Tally(), list[str]()
    for plan in plans:
        judge = ObjectFit(schema_of(old, plan.read_as), schema_of(new, plan.version), plan.changes)
        found = await _read(sender, old, plan, judge)
        unproven += judge.unproven if found.read else ()
        tally.read = max(tally.read, found.read)
        tally.unfit = max(tally.unfit, found.unfit)
        tally.misfits += [one for one in found.misfits if one not in tally.misfits]
    misfits = tally.misfits[:NAMED]
    return evolve(proof, read=tally.read, unfit=tally.unfit, misfits=misfits, unproven=unproven)


def _is_established(definition: Definition) -> bool:
    """A server that has not established a definition has no objects of it, and lists none."""
    conditions = (definition.get("status") or {}).get("conditions") or ()
    return any((one.get("type"), one.get("status")) == ("Established", "True") for one in conditions)


async def _read(sender: Sender, old: Definition, plan: ReadingPlan, judge: ObjectFit) -> _Tally:
    for restart in range(RESTARTS):
        tally, work = _Tally(), LoopSlice()
        try:
            async for item in _objects(sender, old["spec"], plan.read_as):
                tally.read += 1
                misfit = judge.misfit(item)
                if misfit is not None:
                    tally.unfit += 1
                    tally.misfits = [*tally.misfits, misfit][:NAMED]
                if work.due():
                    await work.pause()
            return tally
        except Expired:
            if restart == RESTARTS - 1:
                raise
    raise AssertionError("unreachable")


async def _objects(sender: Sender, spec: Mapping[str, Any], version: str) -> AsyncIterator[Mapping[str, Any]]:
    path, after = f"/apis/{spec['group']}/{version}/{spec['names']['plural']}", ""
    while True:
        query = {"limit": str(PAGE), **({"continue": after} if after else {})}
        page = await sender.send("GET", path, decode_list_page, query)
        for item in page.items or ():
            yield _decode(item)
        after = page.metadata.continue_
        if not after:
            return
