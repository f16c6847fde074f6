"""The logs of an operator's pods, read through the API server as `kubectl logs` does."""

import datetime
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from typing import Final, TypeAlias

import anyio
from anyio.abc import TaskGroup
from attrs import define, field, frozen

from informers import ApiError, BadRequest, HttpRequest, NotFound, ServerError, Transport
from informers.api_errors import is_unreachable
from informers.cancellation import leaf_errors
from informers.transport import raise_refusal
from reconcile.commands.log_lines import LineSplitter, stamped
from reconcile.commands.problems import Problem
from reconcile.doctor.findings import Unread
from reconcile.doctor.gathering import installed
from reconcile.doctor.objects import Deployment, Pod
from reconcile.doctor.reading import Reader

PERIOD: Final = 2.0
"""Seconds between two looks for new pods, and until a log that has ended is asked for again."""

TakeLine: TypeAlias = Callable[[str, bytes], None]
"""Gets the name of a pod and a line of it."""


@frozen
class PodLogs:
    """The logs of all pods of the Deployment `namespace`/`name`.

    `previous`: those of the containers before the present ones. `since` leaves out what is older. `report`
    gets a line about each log that cannot be read while the others can, as on a node that is down.
    """

    transport: Transport
    namespace: str
    name: str
    previous: bool = False
    since: datetime.datetime | None = None
    report: Callable[[str], None] = lambda line: None

    async def read(self, take: TakeLine) -> None:
        """Pass on the lines so far, one pod after the other. Raises Problem and ApiError."""
        operator = await self._operator()
        was_read, refused = False, ""
        for pod in await self._pods(operator):
            try:
                async with aclosing(self._lines(_query(operator, self), pod)) as lines:
                    async for line in lines:
                        take(pod, stamped(line)[1])
                was_read = True
            except (BadRequest, NotFound) as error:  # it has not begun, has no previous container, or is gone
                refused = str(error)
            except ServerError as error:
                refused = str(error)
                self.report(_unread(pod, error))
        if not was_read:
            why = refused or f"the Deployment {self.namespace}/{self.name} has no pods"
            raise Problem(f"there is no log to read: {why}", "see kubectl get pods")

    async def follow(self, take: TakeLine) -> None:
        """Pass on lines as they are written, also of pods that come later, until it is cancelled."""
        operator = await self._operator()
        try:
            async with anyio.create_task_group() as group:
                await self._follow_all(operator, take, group)
        except ExceptionGroup as errors:
            raise next(leaf_errors(errors)) from None

    async def _follow_all(self, operator: Deployment, take: TakeLine, group: TaskGroup) -> None:
        followed: dict[str, _Followed] = {}
        while True:
            with _surviving_outages():
                pods = await self._pods(operator)
                followed = {name: followed.get(name) or _Followed(name) for name in pods}
            for pod in followed.values():
                if not pod.reading:
                    pod.reading = True
                    group.start_soon(self._follow_once, operator, pod, take)
            await anyio.sleep(PERIOD)

    async def _follow_once(self, operator: Deployment, pod: "_Followed", take: TakeLine) -> None:
        """Read the log of a pod until it ends: with its container, or as the connection is cut."""
        known, query = pod.last, {**_query(operator, self, pod.last), "follow": "true"}
        try:
            with _surviving_outages():
                async with aclosing(self._lines(query, pod.name)) as lines:
                    async for line in lines:
                        stamp, text = stamped(line)
                        if stamp and stamp <= known:
                            continue  # the server counts whole seconds, so the last ones come again
                        pod.last = stamp or pod.last
                        take(pod.name, text)
        except (BadRequest, NotFound):
            pass  # its container has not begun, or it is gone
        except ServerError as error:
            if not pod.reported:
                self.report(_unread(pod.name, error))
            pod.reported = True
        finally:
            pod.reading = False

    async def _lines(self, query: dict[str, str], pod: str) -> AsyncGenerator[bytes, None]:
        request = HttpRequest("GET", f"/api/v1/namespaces/{self.namespace}/pods/{pod}/log", query)
        splitter = LineSplitter()
        async with self.transport.stream(request) as stream:
            await raise_refusal(stream, str(request))
            async for chunk in stream.chunks:
                for line in splitter.feed(chunk):
                    yield line
        for line in splitter.last():
            yield line

    async def _operator(self) -> Deployment:
        found = (await installed(self.transport, self.namespace, self.name)).deployment
        name = f"{self.namespace}/{self.name}"
        if isinstance(found, Unread):
            raise Problem(f"the Deployment {name} cannot be read: {found.why}", found.next_step)
        if found is None:
            raise Problem(f"there is no Deployment {name}", "pass its --name and --namespace")
        return found

    async def _pods(self, operator: Deployment) -> Sequence[str]:
        chosen = operator.spec.selector.match_labels or {}
        labels = ",".join(f"{name}={value}" for name, value in sorted(chosen.items()))
        pods = await Reader(self.transport).list(f"/api/v1/namespaces/{self.namespace}/pods", Pod, labels)
        return sorted(pod.metadata.name for pod in pods)


@define
class _Followed:
    """A pod whose log is followed: `last` is the time of its last line, as the server wrote it."""

    name: str
    last: bytes = b""
    reading: bool = field(default=False, init=False)
    reported: bool = field(default=False, init=False)
    """Whether it was said that its log cannot be read."""


def _unread(pod: str, error: ServerError) -> str:
    return f"the log of pod {pod} cannot be read now: {error}"


@contextmanager
def _surviving_outages() -> Iterator[None]:
    """A server that is not reached is asked again, at the next look."""
    try:
        yield
    except ApiError as error:
        if not is_unreachable(error):
            raise


def _query(operator: Deployment, logs: PodLogs, last: bytes = b"") -> dict[str, str]:
    query = {"container": container_of(operator), "timestamps": "true"}
    if logs.previous:
        query["previous"] = "true"
    if last:
        query["sinceTime"] = last.decode(errors="replace")
    elif logs.since is not None:
        query["sinceTime"] = logs.since.isoformat(timespec="seconds")
    return query


def container_of(operator: Deployment) -> str:
    """The container that runs the manager: the one with the argument `run`, or else the first."""
    containers = operator.spec.template.spec.containers
    named = next((one.name for one in containers if "run" in (one.args or ())), "")
    return named or next((one.name for one in containers), "")
