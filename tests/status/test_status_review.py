"""Who may see the status page where the API server decides."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import anyio
import msgspec
import pytest

from informers import HttpRequest, Response
from reconcile import Client, Controller, Manager
from reconcile.embedded import ApiServer, InProcessTransport, User
from reconcile.models import definition_of
from reconcile.ops import page_authorization
from reconcile.status import status_pages
from tests.helpers.managers import Toy, idle
from tests.ops.test_pages import Asker
from tests.status.test_status_pages import Reader, check_headers, stream

RIGHTS = {
    "watcher": [{"nonResourceURLs": ["/status/stream", "/status/object"], "verbs": ["get"]}],
    "actor": [
        {"nonResourceURLs": ["/status/*"], "verbs": ["get"]},
        {"nonResourceURLs": ["/debug/trigger", "/debug/pause", "/debug/resume"], "verbs": ["post"]},
    ],
    "scraper": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}],
}
USERS = {f"token-of-{name}": User(name) for name in RIGHTS}
RBAC = "/apis/rbac.authorization.k8s.io/v1"


class Breaking(InProcessTransport):
    """Answers reviews with 500 while `broken`, and not at all while `silent`."""

    broken = False
    silent = False

    async def request(self, request: HttpRequest) -> Response:
        if "reviews" in request.path:
            if self.silent:
                await anyio.sleep_forever()
            if self.broken:
                return Response(500)
        return await super().request(request)


async def post(server: ApiServer, plural: str, body: dict[str, Any]) -> None:
    headers = {"content-type": "application/json"}
    request = HttpRequest("POST", f"{RBAC}/{plural}", {}, headers, msgspec.json.encode(body))
    assert (await InProcessTransport(server).request(request)).status == 201


@contextlib.asynccontextmanager
async def reviewed() -> AsyncIterator[tuple[Manager, Asker, ApiServer, Breaking]]:
    server = ApiServer()
    group = "rbac.authorization.k8s.io"
    for name, rules in RIGHTS.items():
        role = {"apiVersion": f"{group}/v1", "kind": "ClusterRole", "metadata": {"name": name}}
        await post(server, "clusterroles", {**role, "rules": rules})
        binding = {
            "apiVersion": f"{group}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "subjects": [{"apiGroup": group, "kind": "User", "name": name}],
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
        }
        await post(server, "clusterrolebindings", binding)
    await Client(InProcessTransport(server)).apply(definition_of(Toy))
    transport = Breaking(server)
    manager = Manager(
        Controller(Toy, idle), transport=transport, serve="127.0.0.1:0", serve_review=True, environ={}
    )
    with server.tokens.knowing(USERS):
        async with anyio.create_task_group() as tasks, aiohttp.ClientSession() as session:
            tasks.start_soon(server.run)
            await tasks.start(manager.run)
            yield manager, Asker(session, manager.address), server, transport
            tasks.cancel_scope.cancel()


def bearer(name: str) -> dict[str, str]:
    return {"Authorization": f"Bearer token-of-{name}"}


@pytest.mark.rule("status-who")
async def test_data_need_a_token_with_the_right_and_the_page_itself_needs_none() -> None:
    async with reviewed() as (_, ask, _, _):

        async def status(path: str, **headers: str) -> int:
            async with ask.session.get(f"http://{ask.address}{path}", headers=headers) as answer:
                check_headers(answer.headers)
                return answer.status

        life = "/status/object?controller=toy&key=default/none"
        for path in ("/status/stream", life):
            assert await status(path) == 401
            assert await status(path, Authorization="Bearer made-up") == 401
            assert await status(path, **bearer("scraper")) == 403
        assert await status("/status/stream", **bearer("watcher")) == 200
        assert await status(life, **bearer("watcher")) == 404
        # With a token, a request may come through a proxy.
        assert await status(life, **bearer("watcher"), **{"X-Forwarded-For": "10.0.0.1"}) == 404
        assert await status("/status/") == 200
        assert await status("/status/assets/page.js") == 200


async def test_buttons_are_for_those_who_may_act() -> None:
    async with reviewed() as (_, ask, _, _):
        for name, actions in (("watcher", False), ("actor", True)):
            async with stream(ask, **bearer(name)) as reader:
                await reader.until(lambda page: page.complete)
                assert reader.page.hello["actions"] is actions
        for name, status in (("watcher", 403), ("actor", 404)):
            address = f"http://{ask.address}/debug/pause?kind=toy&key=default/none"
            async with ask.session.post(address, headers={**bearer(name), "X-Reconcile": "x"}) as answer:
                assert answer.status == status


async def read_until_it_ends(reader: Reader, manager: Manager) -> None:
    """Something changes all the time: a stream that is sent nothing is reviewed five seconds later."""

    async def churn() -> None:
        while True:
            manager.pause("toy")
            await anyio.sleep(0.6)
            manager.resume("toy")
            await anyio.sleep(0.6)

    async with anyio.create_task_group() as group:
        group.start_soon(churn)
        await reader.ended(15)
        group.cancel_scope.cancel()


@pytest.mark.rule("status-who")
@pytest.mark.parametrize("gone", ["the right", "the token"])
async def test_a_stream_ends_soon_after_the_right_to_it(gone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status_pages, "REVIEW_SECONDS", 0.2)
    async with reviewed() as (manager, ask, server, _), stream(ask, **bearer("watcher")) as reader:
        await reader.until(lambda page: page.complete)
        if gone == "the right":
            request = HttpRequest("DELETE", f"{RBAC}/clusterrolebindings/watcher", {}, {}, b"")
            assert (await InProcessTransport(server).request(request)).status == 200
        else:
            del server.tokens._given["token-of-watcher"]
        await read_until_it_ends(reader, manager)


@pytest.mark.parametrize("how", ["broken", "silent"])
async def test_a_stream_goes_on_for_a_while_when_nobody_can_decide(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(status_pages, "REVIEW_SECONDS", 0.2)
    monkeypatch.setattr(status_pages, "UNREVIEWED_SECONDS", 6.0)
    async with reviewed() as (manager, ask, _, transport), stream(ask, **bearer("watcher")) as reader:
        await reader.until(lambda page: page.complete)
        setattr(transport, how, True)
        began = anyio.current_time()
        # Changes come meanwhile.
        manager.pause("toy")
        await reader.until(lambda page: page.overview["controllers"][0]["paused"], 3)
        manager.resume("toy")
        await reader.until(lambda page: not page.overview["controllers"][0]["paused"], 3)
        await read_until_it_ends(reader, manager)
        assert anyio.current_time() - began > 4


@pytest.mark.parametrize("how", ["broken", "silent"])
async def test_whoever_is_refused_is_told_what_to_do(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_authorization, "ASK_SECONDS", 0.2)
    async with reviewed() as (_, ask, _, transport):

        async def answer(**headers: str) -> tuple[int, str]:
            async with ask.session.get(f"http://{ask.address}/status/stream", headers=headers) as answer:
                return answer.status, await answer.text()

        status, text = await answer()
        assert (status, "kubectl create token" in text) == (401, True)
        status, text = await answer(**bearer("scraper"))
        assert (status, "may not get /status/stream: grant it with nonResourceURLs" in text) == (403, True)
        setattr(transport, how, True)
        status, text = await answer(**bearer("watcher"))
        assert (status, "the API server cannot be asked" in text) == (503, True)
