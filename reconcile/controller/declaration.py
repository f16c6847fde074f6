"""The declaration of a controller: which kind it keeps, how, and what wakes it."""

import math
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, TypeVar

from attrs import field, frozen

from informers import APIResource, Key, Snapshot
from informers.apimachinery.label_selectors import Requirement, matches_labels
from informers.functions import Kind, check_function, is_async
from reconcile import predicates
from reconcile.client.field_managers import check_field_manager
from reconcile.client.object_indexes import Index
from reconcile.client.object_selectors import Labels, parse_labels
from reconcile.controller.context import Context
from reconcile.controller.identity import (
    check_finalizer,
    check_former,
    check_former_finalizers,
    check_name,
    check_operator,
    check_own_field_manager,
    domain_of,
)
from reconcile.controller.rbac_verbs import OBJECT_VERBS, PART_VERBS, check_verb
from reconcile.controller.tombstones import OnDeleted
from reconcile.models import LabelSelector, Object, kind_of
from reconcile.predecessors.kopf_names import FIELD_MANAGERS, FINALIZER, PREFIX, KopfTraces
from reconcile.predicates import Predicate, as_predicate
from reconcile.runs.run_request import Named, Request, Result
from reconcile.storms import Storms
from workqueue import Backoff

if TYPE_CHECKING:
    from reconcile.controller.admission import Admission
    from reconcile.controller.object_background import BackgroundFunction
    from reconcile.controller.sources import Source, Start, Synced
    from reconcile.controller.synchronous import SyncContext

T = TypeVar("T", bound=Object)
W = TypeVar("W", bound=Object)

Reconciler: TypeAlias = (
    Callable[[Context[T]], Awaitable[Result | None]] | Callable[["SyncContext[T]"], Result | None]
)
"""An `async def`, in the event loop; or a plain function, in a thread, which may block."""
Cleanup: TypeAlias = Reconciler[T]
"""Undoes what was created for an object before the object goes; it makes the controller add the finalizer."""
Names = str | Key | None | Iterable["str | Key"]

DEFAULT_WORKERS = 10
DEFAULT_TIMEOUT = 300.0
RESYNC_SECONDS = 36_000.0

EVERY_CHANGE = Predicate(lambda old, new: True)


@frozen
class Watch(Generic[T, W]):
    """Objects of another kind that wake a controller.

    With `by`, the controller's own objects name those that they use: `by` gets such an object and returns the
    name (in its namespace), the `Key`, or several, of objects of `kind`. `by_labels` returns a selector
    instead (in its namespace; in all, if it has none): the object is woken by changes of what the selector
    chooses or chose before. With `to`, the watched object names the objects that it concerns: `to` gets it
    and returns `Request`s. `everywhere` follows the kind in all namespaces, even if the manager is limited to
    one. `wakes` chooses among the changes of the watched objects (default: all). Raises TypeError unless
    exactly one of the three is given, for a function that does not fit, and for a class that is not a kind.

    Where `by` or `by_labels` fails for an object, every change of `kind` wakes that object; where `to` fails,
    all objects of the controller run, within seconds; the log names the function.
    """

    kind: type[W]
    by: Callable[[T], Names] | None = None
    to: Callable[[W], Iterable[Request]] | None = None
    everywhere: bool = False
    wakes: Predicate = field(default=EVERY_CHANGE, converter=as_predicate)
    by_labels: Callable[[T], LabelSelector | None] | None = field(default=None, kw_only=True)

    def __attrs_post_init__(self) -> None:
        kind_of(self.kind)
        for option, takes in (("by", "object"), ("to", "object"), ("by_labels", "object")):
            if (function := getattr(self, option)) is not None:
                kind: Kind = "plain" if option == "by_labels" else "many"
                check_function(function, f"{self}: {option}=", takes, kind)
        if sum(way is not None for way in (self.by, self.by_labels, self.to)) != 1:
            raise TypeError(f"{self}: give by=, by_labels= or to=, one of the three")

    def __str__(self) -> str:
        return f"Watch({self.kind.__name__})"


def _names(names: "str | Iterable[str]") -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


@frozen
class Write:
    """Objects that a controller writes and does not own; `reconcile manifests` adds only these to its role.

    `verbs` are RBAC's; by default, all that write one object of `kind` at a time, and `get`. They include
    verbs that a server checks beside requests: `Write(ClusterRole, ("bind", "escalate"))`, and `impersonate`,
    `use`, `approve`, `sign` or one of an extension. With `subresource` (`scale`, `eviction`) they are for
    that part alone, and `Object` stands for any kind: `Write(Object, ("get", "patch"), subresource="scale")`.
    Raises ValueError for a verb that is misspelt, or that Kubernetes does not check for that kind.
    """

    kind: type[Object]
    verbs: tuple[str, ...] = field(default=(), converter=_names)
    subresource: str = ""

    def __attrs_post_init__(self) -> None:
        any_kind = self.kind is Object and self.subresource
        resource = None if any_kind else kind_of(self.kind).resource
        for verb in self.verbs:
            try:
                check_verb(verb, resource)
            except ValueError as error:
                raise ValueError(f"Write({self.kind.__name__}): {error}") from None
        if not self.verbs:
            object.__setattr__(self, "verbs", PART_VERBS if self.subresource else OBJECT_VERBS)


@frozen
class Predecessor:
    """An operator that a controller replaces, and how a cluster shows that it is at work.

    `leases` and `deployments` are names, in any namespace; `images` are parts of the names of its containers'
    images. A recent status of the kind by another writer counts too. `traces` are the names under which an
    operator on kopf works; `Predecessor.kopf` makes them. What `field_managers` wrote of the children without
    apply (operation `Update` of their managed fields) becomes the controller's with the first apply of each,
    so that a field which the intent does not name disappears.
    """

    name: str
    leases: tuple[str, ...] = field(default=(), converter=_names)
    deployments: tuple[str, ...] = field(default=(), converter=_names)
    images: tuple[str, ...] = field(default=(), converter=_names)
    traces: KopfTraces | None = None
    unfinished: Literal["hold", "run"] = "hold"
    unwritten: tuple[str, ...] = ()
    field_managers: tuple[str, ...] = field(default=(), converter=_names)

    @classmethod
    def kopf(
        cls,
        name: str,
        *,
        deployments: "str | Iterable[str]" = (),
        images: "str | Iterable[str]" = (),
        peering: str = "default",
        prefix: str = PREFIX,
        finalizer: str = FINALIZER,
        field_managers: "str | Iterable[str]" = FIELD_MANAGERS,
        unfinished: Literal["hold", "run"] = "hold",
        unwritten: "str | Iterable[str]" = (),
    ) -> "Predecessor":
        """An operator on kopf; all names but its own have kopf's defaults.

        A live entry in the peering object of that name counts as being at work; empty: the operator runs
        `--standalone`. `finalizer` counts among the former finalizers, so it gives way to the controller's
        in one write. What its `field_managers` wrote of the children becomes the controller's with the
        first apply of each, so that a field which the intent does not name disappears; narrow them if other
        tools with the same client library write there. After the first good run for an object, kopf's
        annotations under `prefix` and its part of the status go, with the copy of the spec that they hold.
        What handlers returned (`status.<handler>`) stays: others may read it. Recent writes of a status by
        `field_managers` do not count where Deployments, images or a peering object show whether the operator
        is at work.

        An object that a handler of creation began and did not finish is held: it fails with `HalfCreated`
        until someone has seen to it. So is one with the finalizer that kopf never handled to the end: kopf
        records a handler only after its first attempt. `unfinished="run"` is for reconcilers that find what
        such a handler made outside of the cluster, and for operators of daemons and timers alone.

        `unwritten` names functions of a draft that are still to be written. While there is one, a manager
        does not start where an object has traces of kopf, and such an object is held (`UnwrittenDraft`).
        Raises ValueError for names that cannot be kopf's.
        """
        traces = KopfTraces(prefix, finalizer, peering, field_managers=_names(field_managers))
        check_former_finalizers((finalizer,))
        check_finalizer(f"{prefix}/kopf-managed")
        if unfinished not in ("hold", "run"):
            raise ValueError(f"unfinished={unfinished!r}: expected 'hold' or 'run'")
        return cls(
            name, (), _names(deployments), _names(images), traces, unfinished, tuple(_names(unwritten))
        )


def _former(names: "str | Iterable[str]") -> tuple[str, ...]:
    return check_former_finalizers(_names(names))


def _writes(writes: "Iterable[type[Object] | Write]") -> tuple["Write", ...]:
    return tuple(write if isinstance(write, Write) else Write(write) for write in writes)


def _watches(watches: Iterable["Watch[Any, Any]"]) -> tuple["Watch[Any, Any]", ...]:
    return tuple(watches)


def _sources(sources: "Iterable[Source | Start | AsyncIterable[Named | Synced]]") -> "tuple[Source, ...]":
    if not (sources := tuple(sources)):
        return ()
    from reconcile.controller.sources import as_source

    return tuple(map(as_source, sources))


def _kinds(kinds: Iterable[type[Object]]) -> tuple[type[Object], ...]:
    return tuple(kinds)


def _admissions(admission: "Admission[Any] | Iterable[Admission[Any]]") -> "tuple[Admission[Any], ...]":
    if admission == ():
        return ()
    from reconcile.controller.admission import Admission

    return (admission,) if isinstance(admission, Admission) else tuple(admission)


def _indexes(indexes: Mapping[str, Index[Any]]) -> Mapping[str, Index[Any]]:
    return MappingProxyType(dict(indexes))


@frozen(kw_only=True, slots=False)
class _Options(Generic[T]):
    cleanup: Cleanup[T] | None = None
    on_terminating: Cleanup[T] | None = None
    owns: Sequence[type[Object]] = field(default=(), converter=_kinds)
    watches: Sequence[Watch[T, Any]] = field(default=(), converter=_watches)
    reads: Sequence[type[Object]] = field(default=(), converter=_kinds)
    indexes: Mapping[str, Index[Any]] = field(factory=dict, converter=_indexes, hash=False)
    writes: Sequence[Write] = field(default=(), converter=_writes)
    _name: str = field(default="", alias="name")
    workers: int | None = None
    timeout: float | None = None
    wakes: Predicate = field(default=predicates.default, converter=as_predicate)
    on_deleted: OnDeleted[T] | None = None
    background: "BackgroundFunction[T] | None" = None
    clusters: Sequence[str] = field(default=(), converter=_names)
    sources: "Sequence[Source]" = field(default=(), converter=_sources)
    backoff: Backoff = field(factory=Backoff)
    every: float | None = None
    resync: float | None = RESYNC_SECONDS
    predecessor: Predecessor | None = None
    storms: Storms = field(factory=Storms)
    admission: "Sequence[Admission[Any]]" = field(default=(), converter=_admissions)
    selector: Labels = None
    sharded: bool = True
    _operator: str = field(default="", alias="operator", converter=check_operator)
    _finalizer: str = field(default="", alias="finalizer", converter=check_finalizer)
    former_finalizers: Sequence[str] = field(default=(), converter=_former)
    _field_manager: str = field(default="", alias="field_manager")
    former_field_managers: Sequence[str] = field(default=(), converter=_names)


@frozen(slots=False)
class Controller(_Options[T]):
    """Keeps the objects of one kind in their desired state.

    `reconcile` is called with a `Context` whenever an object may differ from its desired state; the object
    exists then and is not being deleted. With `cleanup`, objects get a finalizer, and `cleanup` runs before
    one is deleted, again as long as it raises or returns a `Result` that asks for another run; then the
    finalizer is removed. `on_terminating` sees objects that are going without holding them (as a node does
    with its pods). `owns` names the kinds of its children, `watches` further kinds whose changes concern it,
    `reads` kinds that it looks up without being woken by them; all these are cached. `indexes` find objects
    of these kinds by the values of a function: `client.list(Pod, index=("by-node", name))` (see `Index`).
    `writes` names what it writes besides its own status and its children: kinds, or a `Write`. `reconcile
    manifests` makes a role of all these; an undeclared write is refused in tests (`UndeclaredWrite`), and
    logged elsewhere.

    `on_deleted` is called with the last state of a deleted object. It does not hold the object, so it misses
    deletions while no manager runs, or while the object goes from one replica to another; use `cleanup` where
    none may be missed. It is not called for a deletion that `wakes` refuses.

    `background` runs for each object in a task of its own, and may only ask for runs, ten at once and one a
    second in the long run. It is restarted when it fails, and has ended before `cleanup` runs.

    `reconcile`, `cleanup` and `on_terminating` are `async def`s, or plain functions, which may block, run in
    a thread and get a `SyncContext`.

    `name` (default: the kind in lower case) appears in logs and metrics. `workers` is how many objects are
    worked on at a time (default: the manager's, or 10); a run longer than `timeout` seconds (default: the
    manager's, or 300) fails.

    `clusters` names those of `Manager(clusters=)` in which it works (default: all), with a queue and workers
    in each.

    `wakes` decides which changes of the object itself wake it: a predicate, or a function of the old and the
    new snapshot (default: any change outside its status). `sources` are further origins of keys. `every` so
    many seconds after a run (up to a tenth more) an object runs again, unless it is in back-off; with each
    `resync` (up to a tenth more; None: never) all do, behind everything else.

    `backoff` sets how long a key waits that failed, or returned `requeue`: by default 5 ms, doubled each time
    up to 1000 s, which suits API servers. Calls of external systems should begin with about a second, and
    wait no longer than their poll: `Backoff(base=1, limit=300)`.

    `predecessor` names the operator that kept the kind before: where that is at work, managers do not start
    (option `take_over`). What an operator on kopf left on objects is taken over (`Predecessor.kopf`).

    `storms` sets the treatment of objects whose runs keep waking themselves (see `Storms`).

    `admission` has functions that complete objects of its kind, or of any other, before they are stored, and
    refuse writes: an `Admission`, or several. Managers serve them as webhooks (option `webhooks`).

    `selector` chooses objects by their labels: a `LabelSelector`, or text as for `kubectl -l` (default: all
    objects). The others are left alone, whatever wakes or triggers them, and so is an object that is no
    longer chosen: its children and its finalizer stay. If it is deleted while the finalizer holds it, it is
    cleaned up all the same. A newly chosen object is treated as a new one. The informer follows all objects,
    since others may share it; `InformerOptions(labels=)` narrows that.

    `sharded`: where replicas share the objects, each of them runs the controller for its part. False: the
    controller needs all objects, so it works in one replica, under the leader.

    `operator` is a domain that belongs to the operator alone (`shop.example.com`; default: the group of
    `kind`). `<operator>/<name>` is the finalizer that `cleanup` adds and the field manager of writes, unless
    `finalizer` or `field_manager` is given. Built-in kinds have no group of yours, so a controller of one
    that cleans up, owns or writes has to name its operator, as has one for a kind of another operator. After
    a change of names, `former_finalizers` and `former_field_managers` are the names before it: objects held
    by the former are cleaned up and released as if held by the present one, and fields applied under the
    former belong to the present one.

    Raises TypeError for functions that do not fit, and ValueError for numbers out of range.
    """

    kind: type[T]
    reconcile: Reconciler[T]

    def __attrs_post_init__(self) -> None:
        for kind in self.kinds:
            kind_of(kind)
        for name, index in self.indexes.items():
            if index.kind not in self.kinds:
                unread = index.kind.__name__
                raise TypeError(f"indexes= {name!r}: {index}: it does not read {unread}: add it to reads=")
        if self.cleanup is not None and self.on_terminating is not None:
            raise TypeError("give cleanup= or on_terminating=, one of the two")
        if self.workers is not None and self.workers < 1:
            raise ValueError(f"a controller needs 1 worker or more, not {self.workers}")
        self._check_functions()
        for option in ("timeout", "every", "resync"):
            seconds = getattr(self, option)
            if seconds is not None and not seconds > 0:
                raise ValueError(f"{option}= is a number of seconds above 0, not {seconds}")
        if self.every == math.inf:
            raise ValueError("every= is a number of seconds, not inf: leave it out for no timer")
        if self._finalizer and self.cleanup is None:
            raise TypeError("finalizer= names what cleanup= adds: give cleanup=, or former_finalizers=")
        assert self.labels is not None  # parsed here, so that a selector with an error is refused here
        for former in self.former_field_managers:
            check_field_manager(former)
        check_former(self.finalizer, self.former_finalizers)
        check_former(self.field_manager, self.former_field_managers)

    # What follows from the options is computed, and not stored over them: an evolved controller derives its
    # own.

    @cached_property
    def name(self) -> str:
        """Its name in logs and metrics."""
        return check_name(self._name or self.resource.kind.lower())

    @cached_property
    def operator(self) -> str:
        """The domain of the operator; empty for a built-in kind where none was given."""
        return self._operator or domain_of(self.resource)

    @cached_property
    def finalizer(self) -> str:
        """The finalizer that `cleanup` adds; empty without one."""
        if self.cleanup is None:
            return ""
        return self._finalizer or check_finalizer(self._full_name) or self._refuse("finalizer")

    @cached_property
    def field_manager(self) -> str:
        """The field manager of its writes."""
        writes = bool(self.cleanup or self.owns or self.writes)
        if writes and not (self._field_manager or self._full_name):
            self._refuse("field manager")
        manager = self._field_manager or self._full_name or self.name  # without writes no name of its own
        return check_own_field_manager(manager)

    @cached_property
    def finalizers(self) -> Sequence[str]:
        """The finalizers that hold objects for it: its own, if it has `cleanup`, and the former ones."""
        traces = None if self.predecessor is None else self.predecessor.traces
        former = *self.former_finalizers, *(() if traces is None else (traces.finalizer,))
        return tuple(dict.fromkeys((self.finalizer, *former) if self.finalizer else former))

    @cached_property
    def former_updaters(self) -> Sequence[str]:
        """The field managers whose fields, written without apply, belong to it from its first apply on."""
        if self.predecessor is None:
            return ()
        traces = self.predecessor.traces
        return self.predecessor.field_managers if traces is None else traces.field_managers

    @cached_property
    def labels(self) -> Sequence[Requirement]:
        """The requirements of `selector`."""
        return parse_labels(self.selector)

    @property
    def _full_name(self) -> str:
        return f"{self.operator}/{self.name}" if self.operator else ""

    def _refuse(self, what: str) -> str:
        raise ValueError(
            f"Controller({self.kind.__name__}, name={self.name!r}): {self.resource.kind} is a kind of "
            f"Kubernetes, so a controller of another operator may have the same {what}: give operator=, a "
            "domain of yours such as 'shop.example.com'"
        )

    def _check_functions(self) -> None:
        where = f"Controller({self.kind.__name__}):"
        check_function(self.reconcile, f"{where} reconcile=", "ctx", "either")
        for option in ("cleanup", "on_terminating"):
            if (function := getattr(self, option)) is not None:
                check_function(function, f"{where} {option}=", "ctx", "either")
        for option, takes in (("on_deleted", "gone"), ("background", "given")):
            if (function := getattr(self, option)) is None:
                continue
            if callable(function) and not is_async(function):
                raise TypeError(f"{option}= is an `async def`: only reconcilers may be plain functions")
            check_function(function, f"{where} {option}=", takes, "async")

    def keeps(self, snapshot: Snapshot) -> bool:
        """Whether it keeps an object: `selector` chooses it, or it is being deleted and held by us."""
        if not self.labels or matches_labels(self.labels, snapshot.labels):
            return True
        return self.holds(snapshot)

    def holds(self, snapshot: Snapshot) -> bool:
        """Whether an object is being deleted and waits for our cleanup."""
        return snapshot.terminating and any(name in snapshot.finalizers for name in self.finalizers)

    @property
    def resource(self) -> APIResource:
        """The resource of its kind."""
        return kind_of(self.kind).resource

    @property
    def kinds(self) -> Sequence[type[Object]]:
        """Every kind that it reads: its own, owned, watched, and those that it looks up."""
        return tuple(dict.fromkeys((*self.waking_kinds, *self.reads)))

    @property
    def waking_kinds(self) -> Sequence[type[Object]]:
        """Every kind whose changes may wake it; for the runtime."""
        kinds: list[type[Object]] = [self.kind, *self.owns, *(watch.kind for watch in self.watches)]
        return tuple(dict.fromkeys(kinds))
