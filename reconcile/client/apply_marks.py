"""Intents that were applied, and whether applying one again would change its object."""

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, NamedTuple

from attrs import define, field

from informers import APIResource, Informer, Key, Snapshot
from informers.apimachinery.server_fields import SET_BY_SERVER
from informers.applied import MARK, NOTHING, mark_in, mark_of_intent, same_manager
from reconcile.models import Object, encode

REMEMBERED = 10_000
"""How many applies to objects outside of caches are remembered. Older ones are sent again."""


class ApplyKey(NamedTuple):
    """The part of an object that an intent is for, and the field manager that applies it."""

    resource: APIResource
    key: Key
    field_manager: str
    subresource: str = ""

    def mark(self, intent: Mapping[str, Any]) -> bytes:
        """The mark of an object on which this manager owns exactly the fields of `intent`."""
        return mark_of_intent(self.field_manager, self.subresource, intent)

    def of(self, field_manager: str) -> "ApplyKey":
        return self._replace(field_manager=field_manager)

    def owns_in(self, stored: Snapshot) -> bool:
        return not mark_in(stored.applied, self.mark({})).endswith(NOTHING)


@define
class AppliedIntents:
    """Decides when an apply can be left out: when the manager owns exactly the fields of the intent.

    The mark of the object shows that (`informers.applied`), so it takes no memory and survives a restart.
    Where a server stores a value in another form (`1000m` as `1`), the marks differ. Then the mark of the
    answer is kept together with that of the intent, beside the object in the store; for objects outside of
    caches, the last REMEMBERED pairs are kept here.
    """

    _elsewhere: OrderedDict[ApplyKey, bytes] = field(factory=OrderedDict, init=False)

    def holds(self, mark: bytes, stored: Snapshot, learned: bytes = b"", *, saw_all: bool = True) -> bool:
        """Whether applying the intent of `mark` would leave `stored` as it is.

        `learned` are pairs of marks from earlier answers. `saw_all`: a manager without a mark owns nothing.
        """
        marks = stored.applied
        if marks == mark:
            return True
        here = mark_in(marks, mark)
        if here == mark and (saw_all or not mark.endswith(NOTHING)):
            return True
        return learned != b"" and mark + here in _pairs(learned)

    def remembers(self, place: ApplyKey, mark: bytes) -> bytes:
        """The pair of marks from the answer, if this intent was the last one applied there."""
        learned = self._elsewhere.get(place, b"")
        return learned if learned.startswith(mark) else b""

    def applied(
        self, place: ApplyKey, intent: Mapping[str, Any], written: Snapshot, informer: Informer | None
    ) -> None:
        """Note that the server accepted an intent and answered `written`; `informer` holds the object.

        An answer without a mark counts only where the intent owns no field: otherwise the server, or a proxy
        before it, sends no managedFields, and drift would never be noticed.
        """
        mark = place.mark(intent)
        here = mark_in(written.applied, mark)
        pair = b"" if here.endswith(NOTHING) and _claims(intent) else mark + here
        if informer is None:
            self._remember(place, pair)
            return
        store = informer.store
        store.mark(written)
        known = store.noted(place.key)
        pairs = [other for other in _pairs(known) if not same_manager(other, mark)]
        if here != mark or here.endswith(NOTHING):
            pairs.append(pair)
        learned = b"".join(pairs)
        if learned != known:
            store.note(place.key, learned)

    def _remember(self, place: ApplyKey, pair: bytes) -> None:
        self._elsewhere.pop(place, None)
        if pair:
            self._elsewhere[place] = pair
        if len(self._elsewhere) > REMEMBERED:
            self._elsewhere.popitem(last=False)


def _claims(intent: Mapping[str, Any]) -> bool:
    """Whether the intent owns any field: an empty list does not, as it may be a set or a keyed list."""
    metadata = intent.get("metadata") or {}
    fields = [value for name, value in intent.items() if name not in ("apiVersion", "kind", "metadata")]
    fields += [value for name, value in metadata.items() if name not in ("name", "namespace")]
    return any(map(_is_claimed, fields))


def _is_claimed(value: Any) -> bool:
    if isinstance(value, Mapping):
        return not value or any(map(_is_claimed, value.values()))
    return not isinstance(value, list) or bool(value)


def intent_of(obj: Object, subresource: str) -> dict[str, Any]:
    """The JSON to apply for `obj`: all but its status, or the status alone.

    Raises TypeError for an object that was read: applying it would claim the fields of other writers.
    """
    body = encode(obj)
    metadata = body["metadata"]
    read_back = [name for name in SET_BY_SERVER if metadata.get(name)]
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
    kept = {name: value for name, value in body["metadata"].items() if name not in SET_BY_SERVER}
    return {**body, "metadata": kept}


def _pairs(learned: bytes) -> list[bytes]:
    """For each manager, the mark of an intent followed by the mark to which it led."""
    return [learned[start : start + 2 * MARK] for start in range(0, len(learned), 2 * MARK)]
