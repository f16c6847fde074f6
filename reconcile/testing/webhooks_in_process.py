"""The webhooks and policies of the controllers of a test, which its server calls without a socket.

The server has the same configurations and the same `spec.conversion` of definitions as in a cluster, so that
the rules by which it chooses what to call are its own.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from attrs import define, field

from reconcile.controller.declaration import Controller
from reconcile.embedded import ApiServer
from reconcile.models import Object
from reconcile.models.versions import families, is_custom
from reconcile.testing.call_faults import answer_call
from reconcile.webhooks.configurations import API_VERSION, Installed, Url, configurations_of, conversion_of
from reconcile.webhooks.policies import POLICY, policies_of
from reconcile.webhooks.routes import CONVERT, Route, admissions_of, conversion_route, routes_of

_GROUP: Final = f"/apis/{API_VERSION}"
HOST: Final = "webhooks.reconcile-runtime.invalid"
LABEL: Final = "reconcile-runtime.dev/in-process"
"""Of all configurations and policies that belong to a process."""
_AT: Final = Url(f"https://{HOST}")


@define(eq=False)
class WebhooksInProcess:
    """What a server, and its copies, reach at `HOST`."""

    _controllers: dict[str, Controller[Any]] = field(factory=dict, init=False)
    _admitting: dict[str, Route] = field(factory=dict, init=False)
    _converting: dict[str, Route] = field(factory=dict, init=False)

    async def __call__(self, path: str, body: bytes) -> tuple[int, bytes]:
        """Answer a call. Raises ConnectionError if a fault prevents it."""
        route = self._admitting.get(path) or self._converting.get(path)
        if route is None:
            return 404, b"no webhook here\n"
        return await answer_call(route, body)

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

    def serve(self, controllers: Iterable[Controller[Any]]) -> bool:
        """Serve the admission of these controllers; it replaces that of earlier ones with the same names.

        Returns False if that changes nothing. Raises ValueError for two webhooks with one name.
        """
        known = self._controllers
        given = {one.name: one for one in controllers if one.admission or one.name in known}
        if all(known.get(name) is one for name, one in given.items()):
            return False
        self._controllers |= given
        admitting = [route for route in routes_of(self._controllers.values()) if route.function != CONVERT]
        self._admitting = {route.path: route for route in admitting}
        return True

    @property
    def configurations(self) -> Mapping[str, Mapping[str, Any]]:
        """The configurations that lead here, and policies, by their paths on an API server.

        Raises ValueError for two policies with one name.
        """
        installed = Installed(_AT, metadata={"labels": {LABEL: "true"}})
        made = [*configurations_of(self._admitting.values(), installed)]
        made += policies_of(admissions_of(self._controllers.values()), installed)
        return {f"{_GROUP}/{_plural(one['kind'])}/{one['metadata']['name']}": one for one in made}


def _plural(kind: str) -> str:
    return f"{POLICY[:-1].lower()}ies" if kind == POLICY else f"{kind.lower()}s"


def webhooks_of(server: ApiServer) -> WebhooksInProcess:
    """Those of a server; copies of it share them."""
    found = server.webhooks.get(HOST)
    if isinstance(found, WebhooksInProcess):
        return found
    server.webhooks[HOST] = made = WebhooksInProcess()
    return made
