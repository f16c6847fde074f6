"""Events: what people read under `kubectl describe`, one object per series."""

from collections import OrderedDict

from attrs import define, field, frozen

from informers import ApiError, Clock, NotFound, get_logger
from reconcile.client import Client
from reconcile.context import PendingEvent
from reconcile.kinds import Event, ObjectReference
from reconcile.models import Object, ObjectMeta, kind_of

REMEMBERED = 4096

_log = get_logger("reconcile.events")


@frozen
class _Series:
    name: str
    count: int


@define
class Recorder:
    """Writes events. The same news of the same object counts up one Event instead of making more.

    Events are a courtesy: a failure to write one is logged and never fails a reconcile.
    """

    client: Client
    component: str
    _series: OrderedDict[tuple[str, str, str, str], _Series] = field(factory=OrderedDict, init=False)

    @property
    def clock(self) -> Clock:
        """Where the times of events come from."""
        return self.client.clock

    async def record(self, obj: Object, event: PendingEvent) -> None:
        """Write one event about `obj`."""
        try:
            await self._record(obj, event)
        except ApiError as error:
            _log.warning(
                "an event could not be written", key=str(obj.key), reason=event.reason, error=str(error)
            )

    async def _record(self, obj: Object, event: PendingEvent) -> None:
        place = (obj.uid, event.type, event.reason, event.message)
        series = self._series.pop(place, None)
        if series is not None:
            series = await self._count_up(obj, series)
        if series is None:
            series = await self._create(obj, event)
        self._series[place] = series
        if len(self._series) > REMEMBERED:
            self._series.popitem(last=False)

    async def _count_up(self, obj: Object, series: _Series) -> _Series | None:
        reference = Event(
            metadata=ObjectMeta(series.name, _namespace(obj)), involved_object=ObjectReference()
        )
        now = self.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        try:
            await self.client.merge(reference, {"count": series.count + 1, "lastTimestamp": now}, guard={})
        except NotFound:
            return None
        return _Series(series.name, series.count + 1)

    async def _create(self, obj: Object, event: PendingEvent) -> _Series:
        resource = kind_of(obj).resource
        now = self.clock.now()
        name = f"{obj.name}.{self.clock.uuid().hex[:16]}"
        await self.client.create(
            Event(
                metadata=ObjectMeta(name, _namespace(obj)),
                involved_object=ObjectReference(
                    resource.api_version, resource.kind, obj.name, obj.namespace, obj.uid
                ),
                reason=event.reason,
                message=event.message[:1024],
                type=event.type,
                first_timestamp=now,
                last_timestamp=now,
                source={"component": self.component},
                reporting_component=self.component,
            )
        )
        return _Series(name, 1)


def _namespace(obj: Object) -> str:
    return obj.namespace or "default"
