"""The types of patches that a client sends: the media type, and how each names the state that it is for.

A further type is one more `PatchType` here, and its name in `PatchName`.
"""

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias

from attrs import frozen

Guard = Mapping[str, str]
"""The uid, and the resourceVersion if need be, of the state that a patch is for."""


@frozen
class PatchType:
    """A media type of patches, and how a patch of it is `guarded` by a uid and a resourceVersion."""

    media_type: str
    guarded: Callable[[Any, Guard], Any]

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers of a request with such a patch."""
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
"""What `client.raw.patch` takes; an apply has a verb of its own."""
