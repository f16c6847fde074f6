"""When an apply may be left out: its intent was acknowledged, and it still holds."""

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import msgspec
from attrs import define, field, frozen

from informers import Key, Resource, Snapshot
from reconcile.diffing import contains

REMEMBERED = 10_000


@frozen
class _Acknowledged:
    intent: bytes
    uid: str
    version: int


@define
class AppliedIntents:
    """The last intent that the server acknowledged for each object; the oldest are forgotten.

    An apply is left out only if its whole encoded intent is the last one acknowledged for that uid,
    and the cached object is that acknowledgement or has everything the intent says. So drift in an
    intended field is always repaired, and a field dropped from the intent is always sent.
    """

    _known: OrderedDict[tuple[Resource, Key], _Acknowledged] = field(factory=OrderedDict, init=False)

    def acknowledged(self, resource: Resource, intent: Mapping[str, Any], written: Snapshot) -> None:
        """The server took `intent` and answered with `written`."""
        place = (resource, written.key)
        self._known[place] = _Acknowledged(_encoded(intent), written.uid, written.version)
        self._known.move_to_end(place)
        if len(self._known) > REMEMBERED:
            self._known.popitem(last=False)

    def remembers(self, resource: Resource, key: Key) -> bool:
        """Whether an intent was acknowledged for that object."""
        return (resource, key) in self._known

    def holds(self, resource: Resource, intent: Mapping[str, Any], cached: Snapshot) -> bool:
        """Whether sending `intent` would change nothing, as far as `cached` can tell."""
        last = self._known.get((resource, cached.key))
        if last is None or last.uid != cached.uid or last.intent != _encoded(intent):
            return False
        if cached.version == last.version:
            return True
        body = {name: value for name, value in intent.items() if name not in ("apiVersion", "kind")}
        if not contains(cached.to_dict(), body):
            return False
        self._known[resource, cached.key] = _Acknowledged(last.intent, last.uid, cached.version)
        return True


def _encoded(intent: Mapping[str, Any]) -> bytes:
    return msgspec.json.encode(intent, order="deterministic")
