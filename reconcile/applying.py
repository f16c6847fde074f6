"""What is applied, and when an apply may be left out: it was acknowledged before, and still holds."""

import hashlib
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
from attrs import define, field, frozen

from informers import Key, Resource, Snapshot
from reconcile.diffing import projected
from reconcile.models import Object, encode

REMEMBERED = 10_000
LIFETIME = 1800.0
"""Seconds after which an acknowledgement is forgotten, and the intent is sent once more."""

SERVER_SET = (
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "managedFields",
)


class Place(NamedTuple):
    """Whose intent it is, and for which part of which object."""

    resource: Resource
    key: Key
    field_manager: str
    subresource: str = ""


@frozen
class _Acknowledged:
    intent: bytes
    answer: bytes
    uid: str
    version: int
    until: float


@define
class AppliedIntents:
    """The last intent that the server acknowledged at each place; old ones are forgotten.

    An apply is left out only if its whole encoded intent is the last one acknowledged for that uid,
    and the cached object is that acknowledgement or has, in the fields of the intent, just what the
    acknowledgement had. So drift in an intended field is always repaired, and a field dropped from
    the intent is always sent. Only digests are kept. `now` is the time of the event loop (s).
    """

    _known: OrderedDict[Place, _Acknowledged] = field(factory=OrderedDict, init=False)

    def acknowledged(self, place: Place, intent: Mapping[str, Any], written: Snapshot, now: float) -> None:
        """The server took `intent` and answered with `written`."""
        answer = _digest(projected(written.to_dict(), _fields(intent)))
        self._known[place] = _Acknowledged(
            _digest(intent), answer, written.uid, written.version, now + LIFETIME
        )
        self._known.move_to_end(place)
        if len(self._known) > REMEMBERED:
            self._known.popitem(last=False)

    def remembers(self, place: Place, now: float) -> bool:
        """Whether an intent was acknowledged there, not too long ago."""
        last = self._known.get(place)
        if last is not None and last.until <= now:
            del self._known[place]
            return False
        return last is not None

    def holds(self, place: Place, intent: Mapping[str, Any], cached: Snapshot) -> bool:
        """Whether sending `intent` would change nothing, as far as `cached` can tell."""
        last = self._known.get(place)
        if last is None or last.uid != cached.uid or last.intent != _digest(intent):
            return False
        if cached.version == last.version:
            return True
        if last.answer != _digest(projected(cached.to_dict(), _fields(intent))):
            return False
        self._known[place] = _Acknowledged(last.intent, last.answer, last.uid, cached.version, last.until)
        return True


def intent_of(obj: Object, subresource: str) -> dict[str, Any]:
    """What is applied for `obj`: what it says of everything but its status, or of its status alone.

    Raises TypeError for an object that was read: applying it would claim every field it has, those of
    other writers too.
    """
    body = encode(obj)
    metadata = body["metadata"]
    read_back = [name for name in SERVER_SET if metadata.get(name)]
    if read_back:
        raise TypeError(
            f"apply takes an intent, and {type(obj).__name__} {str(obj.key)!r} was read from a server (it "
            f"has {', '.join(read_back)}): applying it would claim the fields of every other writer. Build "
            f"an object of the fields that you want, or change what is there with modify() or editing()"
        )
    if subresource == "status":
        name = {part: metadata[part] for part in ("name", "namespace") if part in metadata}
        head = {"apiVersion": body["apiVersion"], "kind": body["kind"], "metadata": name}
        return {**head, "status": body.get("status") or {}}
    body.pop("status", None)
    return without_server_set(body)


def without_server_set(body: dict[str, Any]) -> dict[str, Any]:
    """An object's JSON without the metadata that only the server sets."""
    kept = {name: value for name, value in body["metadata"].items() if name not in SERVER_SET}
    return {**body, "metadata": kept}


def _fields(intent: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: value for name, value in intent.items() if name not in ("apiVersion", "kind")}


def _digest(value: Any) -> bytes:
    encoded = msgspec.json.encode(value, order="deterministic")
    return hashlib.blake2b(encoded, digest_size=16).digest()
