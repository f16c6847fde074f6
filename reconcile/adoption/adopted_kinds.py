"""Which kinds an operator on kopf keeps, and the names under which it works."""

from collections.abc import Iterable, Sequence

from attrs import field, frozen

from informers import APIResource
from reconcile.adoption.kopf_handlers import KopfOperator, ResourceNames, ResourceSelector
from reconcile.predecessors import KopfTraces


@frozen
class AdoptedKind:
    """A kind whose objects an operator on kopf keeps, in `namespaces`; empty: in all.

    `any_prefix`: the prefix of the annotations is not known but kopf's default, so another one that is found
    may well be this operator's.
    """

    resource: APIResource
    names: KopfTraces = field(factory=KopfTraces)
    namespaces: tuple[str, ...] = ()
    any_prefix: bool = True

    @property
    def paths(self) -> Sequence[str]:
        """The paths of the lists that have all its objects."""
        if not self.resource.namespaced:
            return [self.resource.path()]
        return [self.resource.path(namespace) for namespace in self.namespaces or ("",)]


@frozen
class CustomKind:
    """A kind that a definition defines: its resource in a version that is served, and all its names."""

    resource: APIResource
    names: ResourceNames


def selectors_of(operator: KopfOperator) -> Sequence[ResourceSelector]:
    """Which resources the handlers of an operator are for, each selector once."""
    found = (handler.selector for handler in operator.handlers)
    return list(dict.fromkeys(selector for selector in found if selector is not None))


def chosen(kinds: Iterable[CustomKind], selectors: Sequence[ResourceSelector]) -> Sequence[APIResource]:
    """The resources of those kinds that some handler is for."""
    return [kind.resource for kind in kinds if any(one.matches(kind.names) for one in selectors)]


def others(kinds: Iterable[CustomKind], selectors: Sequence[ResourceSelector]) -> Sequence[str]:
    """The names of resources that handlers are for and that no definition has: `configmaps`, `jobs.batch`."""
    known = list(kinds)
    left = (
        one
        for one in selectors
        if one.name and not one.is_everything and not any(one.matches(kind.names) for kind in known)
    )
    return list(dict.fromkeys(f"{one.name}.{one.group}" if one.group else one.name for one in left))


def by_function(selectors: Iterable[ResourceSelector]) -> Sequence[str]:
    """The selectors that are functions of the author's, whose resources only a running operator knows."""
    return [str(one) for one in selectors if one.function]
