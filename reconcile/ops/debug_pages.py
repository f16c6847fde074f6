"""The pages of /debug about one key: those that answer questions, and those that change something."""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from reconcile.ops.debug_actions import DebugActions
from reconcile.ops.page_origins import foreign_origin

if TYPE_CHECKING:
    from aiohttp import web

HEADER = "X-Reconcile"
"""The header of a request that changes something: a web page cannot send it to another site unasked."""

Answer = Callable[[], Mapping[str, Any]]


def add_action_pages(
    application: "web.Application",
    actions: DebugActions,
    answer: "Callable[[web.Request, Answer], Awaitable[web.Response]]",
) -> None:
    """Serve `actions`. `answer` admits a request, or raises, and makes a page of the result."""
    from aiohttp import web

    async def ask(request: web.Request, page: Callable[..., Mapping[str, Any]]) -> web.Response:
        kind, key, controller = (request.query.get(name, "") for name in ("kind", "key", "controller"))
        try:
            return await answer(request, lambda: page(kind, key, controller))
        except LookupError as error:
            raise web.HTTPNotFound(text=f"{error.args[0]}\n") from None
        except ValueError as error:
            raise web.HTTPBadRequest(text=f"{error}\n") from None

    async def act(request: web.Request, action: str) -> web.Response:
        if HEADER not in request.headers:
            raise web.HTTPForbidden(text=f"a change needs the header {HEADER}\n")
        if foreign := foreign_origin(request.headers, request.scheme, request.host):
            raise web.HTTPForbidden(text=f"{foreign}\n")
        return await ask(request, partial(actions.act, action))

    application.router.add_get("/debug/explain", partial(ask, page=actions.explain))
    for action in ("trigger", "pause", "resume"):
        application.router.add_post(f"/debug/{action}", partial(act, action=action))


def json_text(value: Mapping[str, Any]) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=2)
