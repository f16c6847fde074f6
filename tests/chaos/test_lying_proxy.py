"""The proxy does what its faults say, on the right side of the execution."""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from attrs import define, evolve

from informers import ApiError, HttpRequest, Key, Response
from informers.kubeconfig import choose_context
from informers.kubeconfig_credentials import load
from informers.kubernetes import KubernetesTransport, Timeouts
from reconcile.embedded import ApiServer, User
from reconcile.embedded.http import serve
from reconcile.embedded.listener.admin_kubeconfig import write_kubeconfig
from tests.chaos import lying_proxy as proxy_module
from tests.chaos.lying_proxy import LyingProxy, lying
from tests.chaos.proxy_faults import ANY_WRITE, WATCH_FAULTS, ProxyFault, WatchFault

PATH = "/api/v1/namespaces/default/configmaps"
BODY = b'{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}'


@define
class Way:
    """A client, the proxy, and the server behind it."""

    server: ApiServer
    proxy: LyingProxy
    transport: KubernetesTransport

    async def create(self) -> Response | ApiError:
        try:
            return await self.transport.request(
                HttpRequest("POST", PATH, {}, {"content-type": "application/json"}, BODY)
            )
        except ApiError as error:
            return error

    @property
    def created(self) -> bool:
        return self.server.log.get(("", "configmaps"), Key("default", "a")) is not None


@asynccontextmanager
async def way(folder: Path) -> AsyncIterator[Way]:
    server = ApiServer(rbac=False)
    async with serve(server, token="admin", users={"one": User("one")}) as face:
        write_kubeconfig(folder / "one", face.url, face.ca_pem, "one")
        async with lying(folder, "one", face.port, random.Random(1)) as proxy:
            proxy.honest = True
            chosen = choose_context([folder / "one-through"], None)
            credentials = await load(chosen.paths, chosen.connection.context)
            transport = KubernetesTransport(chosen.connection, credentials, Timeouts(3.0, 0.8, 0.8))
            yield Way(server, proxy, transport)
            await transport.aclose()


async def test_an_honest_proxy_passes_everything_on(tmp_path: Path) -> None:
    async with way(tmp_path) as one:
        answer = await one.create()
        assert isinstance(answer, Response)
        assert (answer.status, one.created, one.proxy.errors) == (201, True, [])


@pytest.mark.parametrize("fault", ANY_WRITE, ids=lambda fault: fault.name)
async def test_a_write_is_executed_at_the_time_that_its_fault_specifies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: ProxyFault
) -> None:
    """And not before; a fault that is carried out late is so after the client has given up."""
    late = fault.execution == "after the client gave up"
    delay = (1.5, 1.5) if late else (0.1, 0.1) if any(fault.delay) else (0.0, 0.0)
    monkeypatch.setattr(proxy_module, "choose", lambda *_: evolve(fault, delay=delay))
    async with way(tmp_path) as one:
        one.proxy.honest = False
        answer = await one.create()
        assert one.created is (fault.execution == "before")
        if late:
            assert one.proxy.late == 1
            with anyio.fail_after(5):
                while not one.created:
                    await anyio.sleep(0.05)
        assert one.proxy.faults == {fault.name: 1}
        assert one.proxy.errors == []
    if fault.answer == "whole":
        assert isinstance(answer, Response)
        assert answer.status == 201
    elif fault.answer == "made up":
        assert isinstance(answer, Response)
        assert (answer.status, answer.body) == (fault.status, fault.body)
    elif fault.answer != "slow":  # a slow answer may come in time
        assert isinstance(answer, ApiError)


async def test_a_severed_proxy_passes_nothing_on(tmp_path: Path) -> None:
    async with way(tmp_path) as one:
        one.proxy.break_all()
        assert isinstance(await one.create(), ApiError)
        assert not one.created
        one.proxy.heal()
        assert isinstance(await one.create(), Response)


WATCHED: dict[WatchFault, tuple[bytes, ...]] = {
    "lag": (b'"name":"a"',),
    "cut": (),
    "silence": (),
    "half line": (b'{"type":"ADDED"',),
    "garbage line": (b'{"metad\n', b'"name":"a"'),
    "410 event": (b'"code":410',),
    "twice": (b'"name":"a"', b'"name":"a"'),
}


@pytest.mark.parametrize("what", WATCH_FAULTS)
async def test_a_watch_is_treated_as_its_fault_specifies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: WatchFault
) -> None:
    monkeypatch.setattr(proxy_module, "choose", lambda *_: None)
    monkeypatch.setattr(proxy_module, "choose_for_watch", lambda *_: (what, 0.3))
    async with way(tmp_path) as one:
        read = b""
        one.proxy.honest = False
        with anyio.move_on_after(4) as limit:
            async with one.transport.stream(HttpRequest("GET", PATH, {"watch": "true"})) as stream:
                await anyio.sleep(0.5)
                assert isinstance(await one.create(), Response)
                try:
                    async for chunk in stream.chunks:
                        read += chunk
                except ApiError:
                    pass
        for part in WATCHED[what]:
            assert part in read
            read = read.partition(part)[2]
        assert limit.cancelled_caught is (what in ("lag", "silence", "garbage line", "twice"))
        assert one.proxy.faults == {f"watch: {what}": 1}
        assert one.proxy.errors == []
