"""The declaration of a controller: which kind it keeps, how, and what wakes it."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar

from attrs import field, frozen

from informers import Key, Snapshot
from reconcile.context import Context
from reconcile.models import Object, kind_of
from reconcile.requests import Request, Result

T = TypeVar("T", bound=Object)
W = TypeVar("W", bound=Object)

Reconciler = Callable[[Context[T]], Awaitable[Result | None]]
Cleanup = Callable[[Context[T]], Awaitable[Result | None]]
Names = str | Key | None | Iterable["str | Key"]

DEFAULT_WORKERS = 10
DEFAULT_TIMEOUT = 300.0


@frozen
class Watch(Generic[T, W]):
    """Objects of another kind that wake a controller.

    With `by`, the controller's own objects say which of them they use: `by` gets such an object and
    returns the name (in its namespace), the `Key`, or several, of the objects of `kind`. With `to`,
    the watched object says whom it concerns: `to` gets it and returns `Request`s. `everywhere`
    follows the kind in all namespaces, also where the manager is kept to one.
    """

    kind: type[W]
    by: Callable[[T], Names] | None = None
    to: Callable[[W], Iterable[Request]] | None = None
    everywhere: bool = False

    def __attrs_post_init__(self) -> None:
        kind_of(self.kind)
        if (self.by is None) == (self.to is None):
            raise TypeError(f"Watch({self.kind.__name__}): give by= or to=, one of the two")


def _watches(given: Iterable["Watch[Any, Any]"]) -> tuple["Watch[Any, Any]", ...]:
    return tuple(given)


def _kinds(given: Iterable[type[Object]]) -> tuple[type[Object], ...]:
    return tuple(given)


@frozen(kw_only=True, slots=False)
class _Options(Generic[T]):
    cleanup: Cleanup[T] | None = None
    on_terminating: Cleanup[T] | None = None
    owns: Sequence[type[Object]] = field(default=(), converter=_kinds)
    watches: Sequence[Watch[T, Any]] = field(default=(), converter=_watches)
    name: str = ""
    workers: int = DEFAULT_WORKERS
    timeout: float = DEFAULT_TIMEOUT
    wakes: Callable[[Snapshot, Snapshot], bool] | None = None


@frozen(slots=False)
class Controller(_Options[T]):
    """Keeps the objects of one kind as they should be.

    `reconcile` is called with a `Context` whenever an object may not be as it should: it is never
    absent then, and never being deleted. With `cleanup`, objects get a finalizer, and `cleanup` runs
    before one goes; `on_terminating` sees objects that are going without holding them (what a node
    does with its pods). `owns` names the kinds of its children, `watches` further kinds whose changes
    concern it.

    `name` (default: the kind in lower case) stands in logs and as the field manager of writes;
    `workers` objects are worked on at a time; a run longer than `timeout` seconds fails; `wakes`
    decides from the old and the new snapshot whether a change of the object itself wakes it
    (default: any change outside its status).
    """

    kind: type[T]
    reconcile: Reconciler[T]

    def __attrs_post_init__(self) -> None:
        for kind in self.kinds:
            kind_of(kind)
        if self.cleanup is not None and self.on_terminating is not None:
            raise TypeError("give cleanup= or on_terminating=, one of the two")
        if self.workers < 1:
            raise ValueError(f"a controller needs 1 worker or more, not {self.workers}")
        if not self.name:
            object.__setattr__(self, "name", kind_of(self.kind).resource.kind.lower())

    @property
    def finalizer(self) -> str:
        """The finalizer that `cleanup` adds."""
        resource = kind_of(self.kind).resource
        return f"{resource.group or 'core'}/{self.name}"

    @property
    def kinds(self) -> Sequence[type[Object]]:
        """Every kind it reads: its own, its children's, the watched ones."""
        kinds: list[type[Object]] = [self.kind, *self.owns, *(watch.kind for watch in self.watches)]
        return tuple(dict.fromkeys(kinds))


def wakes_by_default(old: Snapshot, new: Snapshot) -> bool:
    """Whether a change of the primary object is one that its reconciler has to see.

    The generation, labels, annotations, finalizers, or deletion: never its own status. A kind that
    has no generation (a Secret, a ConfigMap) wakes on every change.
    """
    return (
        new.generation is None
        or old.uid != new.uid
        or old.generation != new.generation
        or old.deletion_timestamp != new.deletion_timestamp
        or old.finalizers != new.finalizers
        or old.labels != new.labels
        or old.annotations_hash != new.annotations_hash
    )
