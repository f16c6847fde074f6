"""What a store keeps of an object: what is dropped, changed or compressed on the way in."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from itertools import count as count_from
from typing import Any

import msgspec
from attrs import field, frozen

from informers.apimachinery import json_pointers
from informers.cancellation import FAILURES
from informers.compression import Compression
from informers.functions import name_of
from informers.logs import get_logger, is_worth_a_line

Transform = Callable[[dict[str, Any]], Mapping[str, Any]]
"""Maps an object to what is kept of it. Name, namespace, uid and resourceVersion must stay."""

MANAGED_FIELDS = "/metadata/managedFields"
_MANAGED_FIELDS_NAME = b'"managedFields":'
_KEPT_BY_METADATA_ONLY = ("apiVersion", "kind", "metadata")

_members = msgspec.json.Decoder(dict[str, msgspec.Raw])
_object = msgspec.json.Decoder(dict[str, Any])
_log = get_logger("informers")
_IDENTITY = ("name", "namespace", "uid", "resourceVersion")


@frozen(eq=False)
class StoredShape:
    """How the objects of one store are kept.

    `drop` are JSON pointers (RFC 6901) of what is left out. `transform` changes the rest, under the pointers
    in `transformed`; the default is the whole object. `metadata_only`: the server is asked for metadata only.
    Without a `compression` bodies are never compressed.
    `type_meta` is how an object of the resource begins (`"kind":"Pod","apiVersion":"v1",`), which items of
    lists leave out.
    """

    drop: Sequence[str] = (MANAGED_FIELDS,)
    transform: Transform | None = None
    transformed: Sequence[str] = ("",)
    metadata_only: bool = False
    compression: Compression | None = None
    type_meta: bytes = b""
    keeps_all: bool = field(init=False)
    """Whether the object is stored as the server has it, except for managedFields."""
    _paths: tuple[tuple[str, ...], ...] = field(init=False)
    _failures: Iterator[int] = field(factory=partial(count_from, 1), init=False, repr=False)

    @keeps_all.default
    def _judge(self) -> bool:
        return self.transform is None and not self.metadata_only and set(self.drop) <= {MANAGED_FIELDS}

    @property
    def needs_managed_fields(self) -> bool:
        """Whether managedFields are kept, or may be read by `transform`."""
        return MANAGED_FIELDS not in self.drop or self.transform is not None

    @_paths.default
    def _split(self) -> tuple[tuple[str, ...], ...]:
        return tuple(pointer_steps(pointer) for pointer in self.drop if pointer != MANAGED_FIELDS)

    def lacks(self, pointer: str) -> bool:
        """Whether the stored object may differ from the server's at, above or below that JSON pointer."""
        asked = pointer_steps(pointer)
        if self.metadata_only and (not asked or asked[0] not in _KEPT_BY_METADATA_ONLY):
            return True
        changed = (*self.drop, *(self.transformed if self.transform is not None else ()))
        return any(_overlap(asked, pointer_steps(other)) for other in changed)

    def before(self, raw: bytes) -> bytes:
        """The object after `transform`, from which its metadata is read.

        If the transform fails, the object is kept whole and the failure is logged: a list has to be read to
        its end, so the failure would block all other objects of the resource.
        """
        if self.transform is None:
            return raw
        decoded = _object.decode(raw)
        identity = _identity(decoded)
        try:
            result = self.transform(decoded)
            if not isinstance(result, Mapping) or _identity(result) != identity:
                odd = type(result).__name__
                raise TypeError(f"it returned {odd}: expected the object, with its name, uid and version")
            return msgspec.json.encode(result)
        except FAILURES as error:
            count = next(self._failures)
            if is_worth_a_line(count):
                name = name_of(self.transform)
                _log.error(
                    "a transform failed; the object is kept whole",
                    function=name,
                    object=identity[0],
                    times=count,
                    exc_info=error,
                )
            return raw

    def keep(self, body: bytes, managed_fields: bytes) -> bytes:
        """The JSON to keep of an object with these `metadata.managedFields` (empty: none)."""
        if managed_fields and MANAGED_FIELDS in self.drop:
            body = without_managed_fields(body, managed_fields)
        for path in self._paths:
            body = without(body, path)
        return body


# The pointers of a server's clients are not remembered, as they may be as long as a request.
pointer_steps = lru_cache(maxsize=1024)(json_pointers.pointer_steps)

EVERYTHING_BUT_MANAGED_FIELDS = StoredShape()


def _identity(content: Mapping[str, Any]) -> Sequence[Any]:
    metadata = content.get("metadata")
    return [metadata.get(name) for name in _IDENTITY] if isinstance(metadata, Mapping) else [None] * 4


def _overlap(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    return one[: len(other)] == other[: len(one)]


def without_managed_fields(body: bytes, value: bytes) -> bytes:
    """The object without `metadata.managedFields`, whose text within `body` is `value`.

    The text is cut out if it occurs once with its name before it; no string can contain it, as its quotes
    would be escaped there. Otherwise the object is decoded.
    """
    member = _MANAGED_FIELDS_NAME + value
    # The name first: a short text is found sooner than a long one.
    start = body.find(_MANAGED_FIELDS_NAME)
    if body.rfind(member) == start >= 0:
        end = start + len(member)
        if body.startswith(b",", start - 1):
            return body[: start - 1] + body[end:]
        if body.startswith(b",", end):
            return body[:start] + body[end + 1 :]
    return without(body, ("metadata", "managedFields"))


def without(body: bytes | msgspec.Raw, path: tuple[str, ...]) -> bytes:
    """The JSON object without the member at `path`; unchanged if there is none."""
    try:
        members = _members.decode(body)
    except msgspec.ValidationError:
        return bytes(body)
    first, *rest = path
    if first not in members:
        return bytes(body)
    if rest:
        members[first] = msgspec.Raw(without(members[first], tuple(rest)))
    else:
        del members[first]
    return msgspec.json.encode(members)
