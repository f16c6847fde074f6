"""Hands the objects of a cluster back to an operator on kopf, one guarded write for each.

All state is in the cluster: an object that was handed back is `KEPT` the next time, so a command that was
killed after any write is run again.
"""

from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any, Final

import anyio
import msgspec
from attrs import define, field, frozen

from informers import ApiError, Conflict, Forbidden, Key, NotFound, Unauthorized
from informers.apimachinery.envelopes import decode_list_page
from reconcile.adoption.kopf_return import Decision, Fate, ReturnedKind, decision_for
from reconcile.client.patch_types import MERGE
from reconcile.client.sender import Sender, json_object
from reconcile.runs.supervision import without_groups

PAGE: Final = 500
STRANDS: Final = 8
"""Writes at a time."""
ATTEMPTS: Final = 5
"""How often an object is read and decided anew that others write to meanwhile."""
NAMED: Final = 5
"""Objects of a fate, and failures, that are named; all are counted."""
FIELD_MANAGER: Final = "reconcile-adopt-kopf"


@define
class Fates:
    """How many objects of a kind have which fate, and the first of each. `failures` have the errors."""

    kind: ReturnedKind
    counts: Counter[Fate] = field(factory=Counter)
    first: dict[Fate, list[str]] = field(factory=dict)
    failed: int = 0
    failures: list[str] = field(factory=list)

    def add(self, fate: Fate, name: str) -> None:
        self.counts[fate] += 1
        named = self.first.setdefault(fate, [])
        if len(named) < NAMED:
            named.append(name)

    def add_failure(self, text: str) -> None:
        self.failed += 1
        if len(self.failures) < NAMED:
            self.failures.append(text)

    def lines(self) -> Iterator[str]:
        """One line for each fate that some object has, and for the failures."""
        name = self.kind.resource.name
        for fate in Fate:
            if count := self.counts[fate]:
                more = f" and {count - NAMED:,} more" if count > NAMED else ""
                yield f"{name}: {count:,} {fate.value} ({', '.join(self.first[fate])}{more})"
        if self.failed:
            yield f"{name}: {self.failed:,} not written: {'; '.join(self.failures)}"

    @property
    def complete(self) -> bool:
        """Whether the new operator holds none of them any more."""
        return not (self.failed or self.counts[Fate.DELETING])


@frozen
class HandingBack:
    """Reads and writes through `sender`. With `untraced`, objects without any trace are written too."""

    sender: Sender
    untraced: bool = False

    async def look(self, kind: ReturnedKind) -> Fates:
        """The fate of each object; nothing is written. Raises ApiError."""
        fates = Fates(kind)
        async for page in self._pages(kind):
            for obj in page:
                fates.add(self._decided(obj, kind).fate, _name(obj))
        return fates

    async def run(self, kind: ReturnedKind) -> Fates:
        """Write what each object needs. What is refused for one does not keep the others back.

        Raises ApiError where reading fails, or the rights to write are missing.
        """
        fates = Fates(kind)
        async for page in self._pages(kind):
            rest = iter(page)
            with without_groups():
                async with anyio.create_task_group() as strands:
                    for _ in range(min(STRANDS, len(page))):
                        strands.start_soon(self._strand, rest, fates)
        return fates

    def _decided(self, obj: Mapping[str, Any], kind: ReturnedKind) -> Decision:
        return decision_for(obj, kind, untraced=self.untraced)

    async def _strand(self, objects: Iterator[Mapping[str, Any]], fates: Fates) -> None:
        for obj in objects:
            try:
                fate = await self._hand_back(obj, fates.kind)
            except (Forbidden, Unauthorized):
                raise
            except ApiError as error:
                fates.add_failure(f"{_name(obj)}: {error}")
            else:
                if fate is not None:
                    fates.add(fate, _name(obj))

    async def _hand_back(self, obj: Mapping[str, Any], kind: ReturnedKind) -> Fate | None:
        """Its fate; None if it has gone. Raises ApiError."""
        metadata = obj["metadata"]
        path = kind.resource.path(metadata.get("namespace", ""), metadata["name"])
        for attempt in range(1, ATTEMPTS + 1):
            decision = self._decided(obj, kind)
            if not decision.patch:
                return decision.fate
            try:
                await self._write(path, obj["metadata"], decision.patch)
                return decision.fate
            except NotFound:
                return None
            except Conflict:
                if attempt == ATTEMPTS:
                    raise
                try:
                    obj = await self.sender.send("GET", path, json_object)
                except NotFound:
                    return None
        raise AssertionError("the last attempt returns or raises")

    async def _write(self, path: str, metadata: Mapping[str, Any], patch: Mapping[str, Any]) -> None:
        guard = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
        body = msgspec.json.encode(MERGE.guarded(patch, guard))
        query = {"fieldManager": FIELD_MANAGER}
        await self.sender.send("PATCH", path, bytes, query, MERGE.headers, body)

    async def _pages(self, kind: ReturnedKind) -> AsyncIterator[Sequence[Mapping[str, Any]]]:
        for path in kind.paths:
            after = ""
            while True:
                query = {"limit": str(PAGE), **({"continue": after} if after else {})}
                try:
                    page = await self.sender.send("GET", path, decode_list_page, query)
                except NotFound:
                    break
                typed = {"apiVersion": kind.resource.api_version, "kind": kind.resource.kind}
                yield [{**typed, **json_object(item)} for item in page.items or ()]
                after = page.metadata.continue_
                if not after:
                    break


def _name(obj: Mapping[str, Any]) -> str:
    return str(Key(obj["metadata"].get("namespace", ""), obj["metadata"]["name"]))
