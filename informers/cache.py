"""The informers of one cluster, declared before they run and shared by all readers."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import anyio
import structlog
from anyio import TaskHandle
from anyio.abc import TaskGroup
from attrs import define, evolve

from informers.api_errors import ApiError, Forbidden, NotFound, StatusError, Unauthorized
from informers.apimachinery.name_rules import check_namespace
from informers.broadcast import Broadcast
from informers.cancellation import Interrupted, no_silent_end
from informers.clock import Clock, SystemClock
from informers.informer import Informer
from informers.informer_options import InformerOptions
from informers.informer_share import Share
from informers.informer_tap import InformerTap
from informers.logs import get_logger
from informers.reachability import Reachability
from informers.resource import APIResource
from informers.transport import Transport

if TYPE_CHECKING:
    from informers.informer_status import InformerStatus

SYNC_SECONDS = 120.0
"""Seconds to wait for the first list of every resource: its role or definition may still be on its way."""

_log = get_logger("informers")


class NotCached(LookupError):
    """A resource is read from a cache that does not follow it."""


class CacheSyncFailed(Exception):
    """The first list of a resource did not arrive in time."""


@define(eq=False)
class _Followed:
    informer: Informer
    everywhere: bool
    inherits: bool
    users: int = 0
    task: TaskHandle[None] | None = None


class Cache:
    """One informer per resource. Resources are followed by declaration; reads never start an informer.

    `namespace`, or `namespaces`, restricts every namespaced resource except those declared `everywhere` and
    those whose own options name namespaces (ValueError for both). `options` of single resources take
    precedence over `defaults`. `shares` gives the share of a resource that its informer begins with, `taps`
    what looks on while an informer works. `run` also runs what is declared later. `reach` is what is known of
    the connection; clients report to it the outcome of their requests. Log lines go to `log`.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        namespace: str = "",
        namespaces: Sequence[str] = (),
        defaults: InformerOptions | None = None,
        options: Mapping[APIResource, InformerOptions] | None = None,
        shares: Callable[[APIResource], Share | None] | None = None,
        taps: Callable[[Informer], InformerTap] | None = None,
        clock: Clock | None = None,
        log: structlog.stdlib.BoundLogger | None = None,
    ) -> None:
        if namespace and namespaces:
            raise ValueError("give namespace= or namespaces=, not both")
        self.transport = transport
        self._namespaces = list(dict.fromkeys(namespaces)) or ([namespace] if namespace else [])
        self._defaults = defaults or InformerOptions()
        self._options = dict(options or {})
        self._shares = shares
        self._taps = taps
        self._clock = clock or SystemClock()
        self.reach = Reachability(transport, self._clock, self._some_path, log or _log)
        self._entries: dict[APIResource, _Followed] = {}
        self._group: TaskGroup | None = None
        self._changes = Broadcast()

    # --- what is followed -----------------------------------------------------------------------

    @property
    def namespace(self) -> str:
        """The one namespace that is followed; empty for all, or for several."""
        return self._namespaces[0] if len(self._namespaces) == 1 else ""

    @property
    def namespaces(self) -> Sequence[str]:
        """The namespaces that are followed; empty for all."""
        return tuple(self._namespaces)

    def declare(self, resource: APIResource, *, everywhere: bool = False) -> Informer:
        """The informer of a resource, created at the first call and shared by all later ones.

        Raises ValueError for `everywhere` if the resource is already followed in some namespaces only.
        """
        entry = self._entries.get(resource)
        if entry is None:
            entry = self._entries[resource] = self._make(resource, everywhere)
            self._start(entry)
        elif everywhere and entry.informer.namespaces:
            followed = ", ".join(entry.informer.namespaces)
            raise ValueError(
                f"{resource} is followed in namespace {followed} only; declare it everywhere first"
            )
        entry.users += 1
        return entry.informer

    def release(self, resource: APIResource) -> None:
        """Undo one `declare`. After the last, the informer stops and is forgotten. Raises NotCached."""
        self.informer(resource)
        entry = self._entries[resource]
        entry.users -= 1
        if entry.users > 0:
            return
        del self._entries[resource]
        if entry.task is not None:
            entry.task.cancel()

    def find(self, resource: APIResource) -> Informer | None:
        """The informer of a resource, if it is declared."""
        entry = self._entries.get(resource)
        return None if entry is None else entry.informer

    def informer(self, resource: APIResource) -> Informer:
        """The informer of a resource. Raises NotCached."""
        informer = self.find(resource)
        if informer is None:
            raise NotCached(
                f"{resource} is not watched by this cache: name it in owns= or watches= of the controller, "
                f"or read it live"
            )
        return informer

    def add_namespace(self, namespace: str) -> None:
        """Follow a further namespace of every resource that the cache restricts.

        Raises ValueError if the cache follows all namespaces, and for a name that no namespace can have.
        """
        check_namespace(namespace)
        if not self._namespaces:
            raise ValueError("this cache follows all namespaces already")
        if namespace in self._namespaces:
            return
        self._namespaces.append(namespace)
        for entry in self._inheriting():
            entry.informer.add_namespace(namespace)

    async def remove_namespace(self, namespace: str) -> None:
        """Stop following a namespace: its objects leave the stores, and handlers get their deletions.

        Raises ValueError for the last one: a cache without a namespace would follow all.
        """
        if namespace not in self._namespaces:
            return
        if len(self._namespaces) == 1:
            raise ValueError(f"cannot remove {namespace}: it is the last namespace that is followed")
        self._namespaces.remove(namespace)
        for entry in self._inheriting():
            await entry.informer.remove_namespace(namespace)

    def __iter__(self) -> Iterator[Informer]:
        return iter([entry.informer for entry in self._entries.values()])

    def status(self) -> "Sequence[InformerStatus]":
        """The present status of every informer."""
        return [informer.status() for informer in self]

    # --- running --------------------------------------------------------------------------------

    async def run(self) -> None:
        """Run every informer, later declared ones included, until cancelled."""
        try:
            async with anyio.create_task_group() as group:
                self.start(group)
                await anyio.sleep_forever()
        finally:
            self.end()

    def start(self, group: TaskGroup) -> None:
        """As `run`, in an existing task group until that is cancelled; then call `end`."""
        self._group = group
        self.reach.start(group)
        for entry in self._entries.values():
            self._start(entry)

    def end(self) -> None:
        """Report that the task group of `start` has ended."""
        self._group = None
        self.reach.end()
        for entry in self._entries.values():
            entry.task = None

    async def wait_synced(self, seconds: float = SYNC_SECONDS) -> None:
        """Wait for the first list of every resource.

        Refusals (401, 403 with the missing RBAC rule, 404) are logged at once, but waited out, since a role
        or a definition may still be on its way. After `seconds`, raises an ExceptionGroup of CacheSyncFailed.
        """
        late = [informer for informer in self if not informer.synced]
        told: set[APIResource] = set()
        with anyio.move_on_after(seconds):
            while late:
                _tell_refused(late, told)
                await self._changes.wait()
                late = [informer for informer in late if not informer.synced]
        errors = [CacheSyncFailed(_why_late(informer, seconds)) for informer in late if not informer.synced]
        if errors:
            raise ExceptionGroup("not followed", errors)

    def _start(self, entry: _Followed) -> None:
        if self._group is not None:
            name = f"informer of {entry.informer.resource}"
            entry.task = self._group.create_task(_run(entry.informer, self._group), name=name)

    def _make(self, resource: APIResource, everywhere: bool) -> _Followed:
        options = self._options.get(resource, InformerOptions()).over(self._defaults)
        inherits = options.namespaces is None and not everywhere and resource.namespaced
        if everywhere:
            options = evolve(options, namespaces=())
        elif inherits:
            options = evolve(options, namespaces=tuple(self._namespaces))
        share = None if self._shares is None else self._shares(resource)
        informer = Informer(
            self.transport, resource, options=options, share=share, clock=self._clock, reach=self.reach
        )
        informer.on_announce = self._changes.notify
        if self._taps is not None:
            informer.tapped_by(self._taps(informer))
        return _Followed(informer, everywhere, inherits and bool(self._namespaces))

    def _some_path(self) -> str:
        """The path of any collection that is followed; empty without one."""
        informer = next(iter(self), None)
        return "" if informer is None else informer.resource.path(informer.namespace)

    def _inheriting(self) -> list[_Followed]:
        return [entry for entry in self._entries.values() if entry.inherits]


async def _run(informer: Informer, group: TaskGroup) -> None:
    try:
        async with no_silent_end(f"the informer of {informer.resource}"):
            await informer.run(group)
    except Interrupted:
        raise
    except Exception as error:
        error.add_note(f"in the informer of {informer.resource}")
        raise


def _tell_refused(late: Sequence[Informer], told: set[APIResource]) -> None:
    """Log what the server refuses, once per resource."""
    for informer in late:
        if informer.resource not in told and isinstance(informer.error, Unauthorized | Forbidden | NotFound):
            told.add(informer.resource)
            _log.warning("cannot be watched yet", resource=str(informer.resource), why=explain(informer))


def _why_late(informer: Informer, seconds: float) -> str:
    return explain(informer) or f"no list of {informer.resource} within {seconds:g} s"


def explain(informer: Informer) -> str:
    """What keeps an informer from its first list, and what to do about it; empty if nothing does."""
    resource = informer.resource
    match informer.error:
        case None:
            return ""
        case NotFound():
            return (
                f"the server has no {resource} ({resource.api_version}): install its CustomResourceDefinition"
            )
        case Unauthorized():
            return f"the server does not accept the credentials for {resource}: renew token or certificate"
        case Forbidden():
            rule = (
                f'apiGroups: ["{resource.group}"], resources: ["{resource.plural}"], verbs: ["list", "watch"]'
            )
            return f"not allowed to list {resource}: add the RBAC rule {{{rule}}}"
        case StatusError() as error:
            return f"cannot list {resource}: {error.message}"
        case ApiError() as error:
            return f"cannot list {resource}: {error}"
        case error:
            return f"cannot list {resource}: {type(error).__name__}: {error}"
