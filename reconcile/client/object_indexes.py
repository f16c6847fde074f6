"""Indexes that a controller declares: they find objects of a kind by values of a function."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from attrs import field, frozen

from informers import Informer, Key, Snapshot
from informers.functions import check_function
from reconcile.models import Object, decode, kind_of

O = TypeVar("O", bound=Object)  # noqa: E741


@frozen
class Index(Generic[O]):
    """Finds objects of `kind` by values: `Index(Pod, lambda pod: pod.spec.node_name)`.

    `by` gets an object and returns the value under which it is found, several values, or None for none. A
    value is text or a `Key`; several may be anything hashable. It must return the same for the same state. An
    object for which it fails is found under no value, and the log names the function.
    """

    kind: type[O]
    by: Callable[[O], str | Key | Iterable[Hashable] | None]

    def __attrs_post_init__(self) -> None:
        kind_of(self.kind)
        check_function(self.by, f"{self}: by=", "object", "many")

    def __str__(self) -> str:
        return f"Index({self.kind.__name__})"

    def values(self, snapshot: Snapshot) -> Sequence[Hashable]:
        """The values under which an object is found. Raises DecodeError, TypeError, and what `by` raises."""
        result: Any = self.by(decode(self.kind, snapshot.raw))
        if result is None:
            return ()
        if isinstance(result, str | Key):
            return (result,)
        if not isinstance(result, Iterable):
            raise TypeError(f"it returned {type(result).__name__}: expected text, a Key, or several values")
        values = tuple(result)
        hash(values)
        return values


@frozen
class IndexedReads:
    """The indexes that a client knows by name, and the names they have in the store of their kind."""

    indexes: Mapping[str, Index[Any]] = field(factory=dict)
    owner: str = ""

    def store_name(self, name: str) -> str:
        """The name of an index in a store, where two controllers may use one name for different functions."""
        return f"{self.owner}:{name}" if name in self.indexes else name

    def cached(self, informer: Informer, name: str, value: Any) -> Sequence[Snapshot]:
        """The objects of a cache under a value. Raises KeyError for an unknown index."""
        try:
            return informer.store.by_index(self.store_name(name), value)
        except KeyError:
            resource = informer.resource
            known = [name for name, index in self.indexes.items() if kind_of(index.kind).resource == resource]
            raise KeyError(
                f"{resource} has no index {name!r}; Controller(indexes=) declares: {known}"
            ) from None

    def listed(self, snapshots: Sequence[Snapshot], name: str, value: Any) -> Sequence[Snapshot]:
        """The objects of a list under a value, where nothing is cached. Raises what the function raises."""
        index = self.indexes[name]
        return [snapshot for snapshot in snapshots if value in index.values(snapshot)]
