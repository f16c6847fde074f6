"""The informers of one cluster: declared before they run, shared by all who read."""

from collections.abc import Iterator

import anyio

from informers.clock import Clock, SystemClock
from informers.errors import Forbidden, NotFound, StatusError, Unauthorized
from informers.informer import Informer
from informers.resource import Resource
from informers.transport import Transport


class NotDeclared(LookupError):
    """A resource was read from a cache that does not follow it."""


class CacheSyncFailed(Exception):
    """The first list of a resource did not come."""


class Cache:
    """One informer per resource. Reads never start one: what is followed is declared.

    `namespace` narrows every namespaced resource to one namespace, save those that are declared
    `everywhere`.
    """

    def __init__(self, transport: Transport, *, namespace: str = "", clock: Clock | None = None) -> None:
        self.transport = transport
        self.namespace = namespace
        self._clock = clock or SystemClock()
        self._informers: dict[Resource, Informer] = {}

    def declare(self, resource: Resource, *, everywhere: bool = False) -> Informer:
        """The informer of a resource; made at the first call, shared by all later ones.

        Raises ValueError if a resource that is followed in one namespace is now wanted everywhere.
        """
        namespace = "" if everywhere or not resource.namespaced else self.namespace
        known = self._informers.get(resource)
        if known is None:
            known = Informer(self.transport, resource, namespace=namespace, clock=self._clock)
            self._informers[resource] = known
        elif known.namespace and not namespace:
            raise ValueError(
                f"{resource} is followed in namespace {known.namespace} only; declare it everywhere first"
            )
        return known

    def find(self, resource: Resource) -> Informer | None:
        """The informer of a resource, if it is declared."""
        return self._informers.get(resource)

    def informer(self, resource: Resource) -> Informer:
        """The informer of a resource. Raises NotDeclared."""
        informer = self._informers.get(resource)
        if informer is None:
            raise NotDeclared(
                f"{resource} is not followed by this cache: name it in owns= or watches= of the controller, "
                f"or read it live"
            )
        return informer

    def __iter__(self) -> Iterator[Informer]:
        return iter(self._informers.values())

    async def wait_synced(self, seconds: float = 120.0) -> None:
        """Wait for the first list of every resource.

        Raises CacheSyncFailed, at once where the server refuses (401, 403, 404), after `seconds`
        otherwise; the message says which resource and why.
        """
        async with anyio.create_task_group() as group:
            for informer in self:
                group.start_soon(_wait_synced, informer, seconds)


async def _wait_synced(informer: Informer, seconds: float) -> None:
    def settled() -> bool:
        return informer.synced or isinstance(informer.error, Unauthorized | Forbidden | NotFound)

    await informer.wait_until(settled, seconds)
    if not informer.synced:
        raise CacheSyncFailed(_why(informer, seconds))


def _why(informer: Informer, seconds: float) -> str:
    resource = informer.resource
    match informer.error:
        case NotFound():
            return (
                f"the server has no {resource} ({resource.api_version}): install its CustomResourceDefinition"
            )
        case Forbidden():
            rule = (
                f'apiGroups: ["{resource.group}"], resources: ["{resource.plural}"], verbs: ["list", "watch"]'
            )
            return f"may not list {resource}; the RBAC rule that is missing: {{{rule}}}"
        case StatusError() as error:
            return f"cannot list {resource}: {error.message}"
        case None:
            return f"no list of {resource} within {seconds:g} s"
        case error:
            return f"cannot list {resource}: {error}"
