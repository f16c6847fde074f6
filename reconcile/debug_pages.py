"""The pages of /debug that answer questions about one key, and those that have something done."""

from collections.abc import Awaitable, Callable, Mapping
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

if TYPE_CHECKING:
    from aiohttp import web

HEADER = "X-Reconcile"
"""A request that changes something carries it. A web page cannot send it to another site unasked."""

_ACTIONS = ("trigger", "pause", "resume")


class Desk(Protocol):
    """Who answers: raises LookupError for what is not there, ValueError for what makes no sense."""

    def explain(self, kind: str, key: str) -> Mapping[str, Any]:
        """The last runs of a key."""
        ...

    def act(self, action: str, kind: str, key: str) -> Mapping[str, Any]:
        """Trigger, pause or resume a key."""
        ...


def add_desk(
    application: "web.Application",
    desk: Desk,
    admit: "Callable[[web.Request], Awaitable[None]]",
    *,
    guarded: bool,
) -> None:
    """Serve `desk`. `admit` raises for whom it is not; `guarded`: that is by token, not by address.

    By address, a request has also to name this machine as its host, or a web page whose name leads here
    could ask.
    """
    from aiohttp import web

    async def answer(request: web.Request, ask: Callable[[str, str], Mapping[str, Any]]) -> web.Response:
        await admit(request)
        if not guarded and not is_local_name(request.host):
            raise web.HTTPForbidden(text="/debug is for this machine only: ask for 127.0.0.1\n")
        kind, key = request.query.get("kind", ""), request.query.get("key", "")
        try:
            return json_page(ask(kind, key))
        except LookupError as error:
            raise web.HTTPNotFound(text=f"{error.args[0]}\n") from None
        except ValueError as error:
            raise web.HTTPBadRequest(text=f"{error}\n") from None

    async def explain(request: web.Request) -> web.Response:
        return await answer(request, desk.explain)

    def action(name: str) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def act(request: web.Request) -> web.Response:
            if HEADER not in request.headers or "Origin" in request.headers:
                raise web.HTTPForbidden(
                    text=f"a change needs the header {HEADER}, and no web page's Origin\n"
                )
            return await answer(request, lambda kind, key: desk.act(name, kind, key))

        return act

    application.router.add_get("/debug/explain", explain)
    for name in _ACTIONS:
        application.router.add_post(f"/debug/{name}", action(name))


def json_page(value: Mapping[str, Any]) -> "web.Response":
    """A value as indented JSON."""
    from aiohttp import web

    body = msgspec.json.format(msgspec.json.encode(value), indent=2)
    return web.Response(body=body, content_type="application/json")


def is_loopback(remote: str | None) -> bool:
    """Whether an address of the other side is this machine's own."""
    if not remote:
        return False
    try:
        return ip_address(remote.partition("%")[0]).is_loopback
    except ValueError:
        return False


def is_local_name(host: str) -> bool:
    """Whether a Host header names this machine: localhost, or an address of loopback."""
    name = host.rpartition(":")[0] if ":" in host and not host.endswith("]") else host
    return name == "localhost" or is_loopback(name.strip("[]"))
