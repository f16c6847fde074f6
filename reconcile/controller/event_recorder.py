"""Events, which `kubectl describe` shows: recorded by runs, written in a task of their own."""

import datetime
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import anyio
from anyio.abc import TaskGroup
from attrs import define, field

from informers import Clock, Key, NotFound, get_logger
from informers.apimachinery.name_rules import subdomain_faults
from informers.logs import is_worth_a_line
from reconcile.client.client import Client
from reconcile.controller.declaration import Controller
from reconcile.controller.event_series import EventContent, EventLedger, EventSeries, EventSubject
from reconcile.controller.run_output import PendingEvent
from reconcile.models import Object, decode, kind_of, unstructured_kind
from reconcile.runs.tenure import within

WAITING = 1000
"""How many series may wait to be written; events of further ones are dropped, as in client-go."""

FLUSH_SECONDS = 2.0
"""How long the end of a controller waits until its last events are written."""

_log = get_logger("reconcile.events")
_NEW = unstructured_kind("events.k8s.io/v1", "Event", plural="events")
_CORE = unstructured_kind("v1", "Event", plural="events")


@define(eq=False)
class Recorder:
    """Writes Events of events.k8s.io about objects, reported by `component`.

    `record` never waits and never fails, so no reconcile depends on an Event; a task writes the notes
    (`writing_in`). The same event counts up one Event (`series`). The writes about one object are limited;
    events held back are counted in with the next write (`event_series` has the numbers). A failed write is
    logged and dropped. On a server without events.k8s.io the Events are those of the core group.
    """

    client: Client
    component: str
    instance: str = field(factory=platform.node)
    _model: Any = field(default=_NEW, init=False)
    _ledger: EventLedger = field(factory=EventLedger, init=False)
    _due: dict[EventSeries, None] = field(factory=dict, init=False)
    _group: TaskGroup | None = field(default=None, init=False)
    _writing: anyio.Lock = field(factory=anyio.Lock, init=False)
    _dropped: int = field(default=0, init=False)

    @property
    def clock(self) -> Clock:
        return self.client.clock

    def record(self, obj: Object, event: PendingEvent) -> None:
        content = EventContent(_subject(obj), event.type, event.reason, event.message, event.action)
        series = self._ledger.count(content, self.clock.now(), anyio.current_time())
        if series in self._due:
            return
        if len(self._due) >= WAITING:
            self._drop()
            return
        self._due[series] = None
        if len(self._due) == 1:  # otherwise a task is about to write already
            self._write_soon()

    @contextmanager
    def writing_in(self, group: TaskGroup) -> Iterator[None]:
        """While inside, noted events are written by tasks of that group."""
        self._group = group
        self._write_soon()
        try:
            yield
        finally:
            self._group = None

    def _write_soon(self) -> None:
        if self._group is not None and self._due:
            with within(None):  # it writes Events of other runs too
                self._group.start_soon(self.flush)

    async def flush(self) -> None:
        async with self._writing:
            while self._due:
                series = next(iter(self._due))
                del self._due[series]
                if self._ledger.may_write(series.content.subject, anyio.current_time()):
                    await self._write(series)

    async def _write(self, series: EventSeries) -> None:
        try:
            if series.name and await self._count_up(series):
                return
            await self._begin(series)
        except Exception as error:
            content = series.content
            key = Key(content.subject.namespace, content.subject.name)
            _log.warning(
                "an event could not be written",
                kind=content.subject.kind,
                key=str(key),
                reason=content.reason,
                error=str(error),
            )

    async def _begin(self, series: EventSeries) -> None:
        try:
            await self._create(series)
        except NotFound as error:
            if self._model is _CORE or error.details.get("kind") == "namespaces":
                raise
            self._model = _CORE
            await self._create(series)

    async def _create(self, series: EventSeries) -> None:
        unique = self.clock.uuid()
        name = f"{series.content.subject.name[:236]}.{unique.hex[:16]}"
        # RBAC has names such as `system:node`, which no Event may have.
        series.name = str(unique) if subdomain_faults(name) else name
        body = _core_event(series) if self._model is _CORE else _event(series)
        reporter = "reportingComponent" if self._model is _CORE else "reportingController"
        body |= {reporter: self.component, "reportingInstance": self.instance[:128] or self.component}
        count = series.count
        await self.client.create(decode(self._model, body))
        series.written = count

    async def _count_up(self, series: EventSeries) -> bool:
        """Update the count of the Event; false if the Event is gone."""
        count, last = series.count, series.last
        patch: dict[str, Any] = {"series": {"count": count, "lastObservedTime": _micro(last)}}
        if self._model is _CORE:
            patch |= {"count": count, "lastTimestamp": _second(last)}
        key = Key(_namespace(series.content.subject), series.name)
        try:
            await self.client.raw.patch(kind_of(self._model).resource, key, patch, guard={})
        except NotFound:
            return False
        series.written = count
        return True

    def _drop(self) -> None:
        self._dropped += 1
        if is_worth_a_line(self._dropped):
            _log.warning("events come faster than they can be written", dropped=self._dropped)


def recorder_of(controller: Controller[Any], client: Client) -> Recorder:
    """The recorder of a controller; its writes bypass the rate limit and the cache of `client`."""
    writer = Client(client.transport, field_manager=controller.field_manager, clock=client.clock)
    return Recorder(writer, controller.name)


def _subject(obj: Object) -> EventSubject:
    resource = kind_of(obj).resource
    return EventSubject(resource.api_version, resource.kind, obj.namespace, obj.name, obj.uid)


def _event(series: EventSeries) -> dict[str, Any]:
    content = series.content
    body = {
        "metadata": {"name": series.name, "namespace": _namespace(content.subject)},
        "eventTime": _micro(series.first),
        "action": content.action,
        "reason": content.reason,
        "type": content.type,
        "note": content.note,
        "regarding": _reference(content.subject),
    }
    if series.count > 1:
        body["series"] = {"count": series.count, "lastObservedTime": _micro(series.last)}
    return body


def _core_event(series: EventSeries) -> dict[str, Any]:
    body = _event(series)
    body["message"] = body.pop("note")
    body["involvedObject"] = body.pop("regarding")
    first, last = _second(series.first), _second(series.last)
    return {**body, "count": series.count, "firstTimestamp": first, "lastTimestamp": last}


def _reference(subject: EventSubject) -> dict[str, str]:
    named = {
        "apiVersion": subject.api_version,
        "kind": subject.kind,
        "name": subject.name,
        "namespace": subject.namespace,
        "uid": subject.uid,
    }
    return {name: value for name, value in named.items() if value}


def _namespace(subject: EventSubject) -> str:
    return subject.namespace or "default"


def _micro(time: datetime.datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _second(time: datetime.datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")
