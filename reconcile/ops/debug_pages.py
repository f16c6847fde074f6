"""The pages of /debug that answer questions about one key, and those that have something done."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

import msgspec

from reconcile.ops.debug_actions import DebugActions

if TYPE_CHECKING:
    from aiohttp import web

HEADER = "X-Reconcile"
"""A request that changes something carries it. A web page cannot send it to another site unasked."""

_THIS_MACHINE = ("127.0.0.1", "::1")
_FORWARDED = ("forwarded", "x-forwarded-", "x-real-ip", "x-envoy-", "l5d-", "via")
_ACTIONS = ("trigger", "pause", "resume")


Answer = Callable[[], Mapping[str, Any]]


def add_action_pages(
    application: "web.Application",
    actions: DebugActions,
    answer: "Callable[[web.Request, Answer], Awaitable[web.Response]]",
) -> None:
    """Serve `actions`. `answer` admits a request, or raises, and makes a page of what the actions says."""
    from aiohttp import web

    async def ask(request: web.Request, page: Callable[[str, str], Mapping[str, Any]]) -> web.Response:
        kind, key = request.query.get("kind", ""), request.query.get("key", "")
        try:
            return await answer(request, lambda: page(kind, key))
        except LookupError as error:
            raise web.HTTPNotFound(text=f"{error.args[0]}\n") from None
        except ValueError as error:
            raise web.HTTPBadRequest(text=f"{error}\n") from None

    async def explain(request: web.Request) -> web.Response:
        return await ask(request, actions.explain)

    def action(name: str) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def act(request: web.Request) -> web.Response:
            if HEADER not in request.headers or "Origin" in request.headers:
                raise web.HTTPForbidden(
                    text=f"a change needs the header {HEADER}, and no web page's Origin\n"
                )
            return await ask(request, lambda kind, key: actions.act(name, kind, key))

        return act

    application.router.add_get("/debug/explain", explain)
    for name in _ACTIONS:
        application.router.add_post(f"/debug/{name}", action(name))


def json_text(value: Mapping[str, Any]) -> bytes:
    """A value as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2)


def refusal_of(remote: str | None, host: str, headers: Iterable[str]) -> str:
    """Why a request is not one of this machine itself; empty where it is.

    Its peer is 127.0.0.1 or ::1, and no other address of loopback: sidecars forward from those. It has no
    header of a proxy, and asks for this machine by a name of loopback, or a web page whose name leads here
    could ask.
    """
    if remote not in _THIS_MACHINE:
        return "this page is for this machine only: use kubectl port-forward"
    for name in headers:
        if name.lower().startswith(_FORWARDED):
            return f"this page is for this machine only, and a request with the header {name} was forwarded"
    return "" if is_local_name(host) else "this page is for this machine only: ask for 127.0.0.1"


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
