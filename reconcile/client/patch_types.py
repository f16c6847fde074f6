"""The types of patches that a client sends: media types, and how each names the state that it is for."""

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias

from attrs import frozen

Guard = Mapping[str, str]
"""The uid, and the resourceVersion if needed, of the state that a patch is for."""


@frozen
class PatchType:
    """A media type of patches; `guarded` adds a uid and a resourceVersion to a patch of it."""

    media_type: str
    guarded: Callable[[Any, Guard], Any]

    @property
    def headers(self) -> Mapping[str, str]:
        return {"content-type": self.media_type, "accept": "application/json"}


def _in_metadata(patch: Mapping[str, Any], guard: Guard) -> dict[str, Any]:
    return {**patch, "metadata": {**(patch.get("metadata") or {}), **guard}}


def _in_operations(operations: list[dict[str, Any]], guard: Guard) -> list[dict[str, Any]]:
    # To add a uid that differs is Invalid, and to add an old resourceVersion a Conflict, as in a merge
    # patch. A `test` would be Invalid in both cases.
    named = [{"op": "add", "path": f"/metadata/{name}", "value": value} for name, value in guard.items()]
    return [*named, *operations]


MERGE = PatchType("application/merge-patch+json", _in_metadata)
STRATEGIC = PatchType("application/strategic-merge-patch+json", _in_metadata)
JSON_PATCH = PatchType("application/json-patch+json", _in_operations)
APPLY = PatchType("application/apply-patch+yaml", _in_metadata)

PatchName: TypeAlias = Literal["merge", "strategic", "json"]
BY_NAME: Mapping[PatchName, PatchType] = {"merge": MERGE, "strategic": STRATEGIC, "json": JSON_PATCH}
"""The patch types of `client.raw.patch`; an apply has a verb of its own."""
