"""The webhooks and policies of controllers, which an embedded server in their process calls without a socket.

The server has the same configurations and the same `spec.conversion` of definitions as in a cluster, so that
the rules by which it chooses what to call are its own.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias

from attrs import define, field

from reconcile.client.client import Client
from reconcile.controller.declaration import Controller
from reconcile.embedded import ApiServer
from reconcile.models import Object, kind_of, unstructured_kind
from reconcile.models.versions import families, is_custom
from reconcile.webhooks.calling_objects import MutatingConfiguration, ValidatingConfiguration
from reconcile.webhooks.configurations import API_VERSION, Installed, Url, configurations_of, conversion_of
from reconcile.webhooks.handler import answer
from reconcile.webhooks.policies import POLICY, policies_of
from reconcile.webhooks.routes import CONVERT, Route, admissions_of, conversion_route, routes_of

HOST: Final = "webhooks.reconcile-runtime.invalid"
LABEL: Final = "reconcile-runtime.dev/in-process"
"""Of all configurations and policies that belong to a process."""
_AT: Final = Url(f"https://{HOST}")
_KINDS: Final = {
    kind_of(kind).resource.kind: kind
    for kind in (
        MutatingConfiguration,
        ValidatingConfiguration,
        unstructured_kind(API_VERSION, f"{POLICY}Binding", namespaced=False),
        unstructured_kind(API_VERSION, POLICY, namespaced=False),
    )
}

Answering: TypeAlias = Callable[[Route, bytes], Awaitable[tuple[int, bytes]]]
"""The status and body of an answer. Raises ConnectionError for a call that does not arrive."""


async def answer_at_once(route: Route, body: bytes) -> tuple[int, bytes]:
    """The status and body with which a webhook answers."""
    answered = answer(route, body)
    return answered.status, answered.body


@define(eq=False)
class WebhooksInProcess:
    """What a server, and its copies, reach at `HOST`."""

    _answer: Answering = answer_at_once
    configurations: Mapping[str, Mapping[str, Any]] = field(factory=dict, init=False)
    """Those that lead here, and policies, by their paths on an API server."""
    _controllers: dict[str, Controller[Any]] = field(factory=dict, init=False)
    _admitting: dict[str, Route] = field(factory=dict, init=False)
    _converting: dict[str, Route] = field(factory=dict, init=False)

    async def __call__(self, path: str, body: bytes) -> tuple[int, bytes]:
        """Answer a call; raises as `Answering`."""
        route = self._admitting.get(path) or self._converting.get(path)
        if route is None:
            return 404, b"no webhook here\n"
        return await self._answer(route, body)

    def conversion_for(self, kind: type[Object]) -> Mapping[str, Any] | None:
        """The `spec.conversion` of the kind's definition, if functions convert between its versions.

        Raises TypeError if some of the functions are missing.
        """
        if not is_custom(kind):
            return None
        (versions,) = families([kind])
        route = conversion_route(versions)
        if route is None:
            return None
        self._converting[route.path] = route
        return conversion_of(route, _AT)

    def serve(self, controllers: Iterable[Controller[Any]], *, only: bool = False) -> bool:
        """Serve the admission of these controllers; it replaces that of earlier ones with the same names.

        With `only`, that of all earlier ones; conversions stay, without which objects could not be read.
        Returns False if nothing changes. Raises ValueError for two webhooks or policies with one name, and
        then nothing has changed.
        """
        known = {} if only else self._controllers
        served = known | {one.name: one for one in controllers if one.admission or one.name in known}
        if served == self._controllers:
            return False
        admitting = [route for route in routes_of(served.values()) if route.function != CONVERT]
        self.configurations = _configurations(admitting, served.values())
        self._controllers = served
        self._admitting = {route.path: route for route in admitting}
        return True


def _configurations(
    admitting: Iterable[Route], controllers: Iterable[Controller[Any]]
) -> Mapping[str, Mapping[str, Any]]:
    """Raises ValueError for two policies with one name."""
    installed = Installed(_AT, metadata={"labels": {LABEL: "true"}})
    made = [*configurations_of(admitting, installed), *policies_of(admissions_of(controllers), installed)]
    return {_path(_KINDS[one["kind"]], one["metadata"]["name"]): one for one in made}


def _path(kind: type[Object], name: str) -> str:
    return kind_of(kind).resource.path(name=name)


def webhooks_of(server: ApiServer, answering: Answering = answer_at_once) -> WebhooksInProcess:
    """Those of a server, which is given some that answer so if it has none; copies of it share them."""
    found = server.webhooks.get(HOST)
    if isinstance(found, WebhooksInProcess):
        return found
    server.webhooks[HOST] = made = WebhooksInProcess(answering)
    return made


async def configure(client: Client, webhooks: WebhooksInProcess) -> None:
    """Have the server call exactly these webhooks; what an earlier process left is deleted."""
    for configuration in webhooks.configurations.values():
        await client.apply(configuration)
    for kind in _KINDS.values():
        for one in await client.list(kind, labels=f"{LABEL}=true"):
            if _path(kind, one.name) not in webhooks.configurations:
                await client.delete(one)


def served_by(controllers: Iterable[Controller[Any]]) -> list[type[Object]]:
    """The kinds that controllers need, those of their admission included."""
    kinds = [kind for one in controllers for kind in (*one.kinds, *(a.kind for a in one.admission))]
    return list(dict.fromkeys(kinds))
