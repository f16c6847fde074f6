"""Decoded objects, kept so that a state that is read twice is decoded once."""

from typing import Any, TypeVar

from attrs import define, field

from informers import Key, Snapshot
from reconcile.models import Object, Unstructured, decode

O = TypeVar("O", bound=Object)  # noqa: E741

BUDGET = 2 << 20
"""Bytes of JSON whose decoded objects are kept; the objects take about ten times as much memory."""


@define(eq=False)
class DecodedObjects:
    """The objects decoded last, by model and key; all are dropped when the budget is spent.

    An object is reused only for the state it was decoded from, which may be the answer to a write or come
    from the cache. A kind without a model is decoded each time, since its objects are dicts.
    """

    _kept: dict[tuple[type[Object], Key], tuple[Snapshot, Any]] = field(factory=dict, init=False)
    _spent: int = field(default=0, init=False)

    def of(self, model: type[O], snapshot: Snapshot, *, keep: bool = True) -> O:
        """The object of a snapshot; kept for the next reader if `keep`. Raises DecodeError."""
        if issubclass(model, Unstructured):
            return decode(model, snapshot.raw)
        place = (model, snapshot.key)
        kept = self._kept.get(place)
        if kept is not None and kept[0].same_as(snapshot):
            known: O = kept[1]
            if kept[0] is not snapshot:
                # The watch brought what a write had answered: readers after this one need not compare them,
                # and one of two bodies is let go.
                self._kept[place] = (snapshot, known)
            return known
        raw = snapshot.raw
        obj = decode(model, raw)
        if not keep:
            return obj
        if self._spent + len(raw) > BUDGET:
            # All at once: keeping track of which object was used last would cost each read of the cache.
            self._kept.clear()
            self._spent = 0
        self._kept[place] = (snapshot, obj)
        self._spent += len(raw)
        return obj
