"""The server of webhooks over HTTPS: who may call what, how much at once, for how long, until when."""

import asyncio
import io
import json
import ssl
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import anyio
import pytest
import trustme

from reconcile import Controller
from reconcile.manager import webhook_server
from reconcile.manager.webhook_server import Call, seconds_of, serving_webhooks
from reconcile.ops.certificate_rotation import rotating
from reconcile.ops.serving_addresses import Address, ServeError
from reconcile.webhooks import Admission, AdmissionRequest, Refusal
from reconcile.webhooks.handler import MAX_BODY
from reconcile.webhooks.routes import routes_of
from tests.webhooks.boxes import BOXES, Box, box, review
from tests.webhooks.shops import BETA, V1, Shop, conversion_review, shop

DEFAULTS = "/defaults/boxes.shop.example.com"
REFUSES = "/refuses/boxes.shop.example.com"
CONVERT = "/convert/shops.shop.example.com"
JSON = {"Content-Type": "application/json"}
LOOPBACK = Address("127.0.0.1", 0)


async def keep(obj: Box) -> None: ...


async def keep_shop(obj: Shop) -> None: ...


class Caller:
    """An API server, as far as it calls webhooks."""

    def __init__(self, session: aiohttp.ClientSession, base: str, trust: ssl.SSLContext) -> None:
        self.session, self.base, self.trust = session, base, trust
        self.calls: list[Call] = []

    async def post(self, path: str, body: bytes, headers: dict[str, str] = JSON) -> tuple[int, bytes]:
        async with self.session.post(
            f"{self.base}{path}", data=io.BytesIO(body), headers=headers, ssl=self.trust
        ) as answer:
            return answer.status, await answer.read()


def issue(folder: Path) -> ssl.SSLContext:
    """A certificate in `folder`; returns what trusts it."""
    authority = trustme.CA()
    made = authority.issue_cert("127.0.0.1")
    made.private_key_pem.write_to_path(folder / "tls.key")
    (folder / "tls.crt").write_bytes(b"".join(blob.bytes() for blob in made.cert_chain_pems))
    trust = ssl.create_default_context()
    authority.configure_trust(trust)
    return trust


@asynccontextmanager
async def serving(
    folder: Path, *admissions: Admission[Any], calls: Callable[[Call], None] = lambda call: None
) -> AsyncIterator[Caller]:
    controllers: list[Controller[Any]] = [
        Controller(Box, keep, admission=admissions or (BOXES,)),
        Controller(Shop, keep_shop),
    ]
    trust = issue(folder)
    async with (
        rotating(folder) as certificate,
        serving_webhooks(LOOPBACK, routes_of(controllers), certificate, calls) as bound,
        aiohttp.ClientSession() as session,
    ):
        yield Caller(session, f"https://{bound}", trust)


@pytest.fixture(autouse=True)
def quick_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook_server, "QUIET_SECONDS", 0.05)


def refusing(function: Callable[[], None]) -> Admission[Box]:
    def refuses(one: Box, old: Box | None, request: AdmissionRequest) -> list[Refusal]:
        function()
        return []

    return Admission(Box, refuses=refuses)


# --- answers ------------------------------------------------------------------------------------------


async def test_reviews_of_admission_and_of_conversion_are_answered_over_one_connection(
    tmp_path: Path,
) -> None:
    seen: list[Call] = []
    async with serving(tmp_path, calls=seen.append) as caller:
        status, body = await caller.post(f"{DEFAULTS}?timeout=5s", review("CREATE", box()))
        assert (status, json.loads(body)["response"]["patchType"]) == (200, "JSONPatch")
        status, body = await caller.post(REFUSES, review("CREATE", box({"size": 10})))
        assert (status, json.loads(body)["response"]["allowed"]) == (200, False)
        status, body = await caller.post(CONVERT, conversion_review(shop(BETA, {"size": 2}), desired=V1))
        assert json.loads(body)["response"]["convertedObjects"][0]["spec"]["replicas"] == 2
        assert caller.session.connector is not None
        assert len(caller.session.connector._conns) == 1  # type: ignore[attr-defined]
    assert [(call.webhook.partition(".")[0], call.status, call.result) for call in seen] == [
        ("defaults", 200, "allowed"),
        ("refuses", 200, "refused"),
        ("convert", 200, "converted"),
    ]
    assert all(0 < call.seconds < 5 for call in seen)


async def test_only_posts_of_json_to_a_known_path_are_taken(tmp_path: Path) -> None:
    async with serving(tmp_path) as caller:
        assert (await caller.post("/other", b"{}"))[0] == 404
        assert (await caller.post(DEFAULTS, b"{}", {"Content-Type": "text/plain"}))[0] == 415
        assert (await caller.post(DEFAULTS, b"{}"))[0] == 400
        async with caller.session.get(f"{caller.base}{DEFAULTS}", ssl=caller.trust) as answer:
            assert answer.status == 405


async def test_a_body_of_the_largest_size_is_read_and_a_larger_one_is_refused(tmp_path: Path) -> None:
    async with serving(tmp_path) as caller:
        large = review("CREATE", box({"size": 1, "pad": "x" * 6_000_000}))
        assert (await caller.post(REFUSES, large))[0] == 200
        assert (await caller.post(REFUSES, b" " * (MAX_BODY + 1)))[0] == 413


# --- limits -------------------------------------------------------------------------------------------


async def test_a_function_that_takes_too_long_is_answered_in_time_and_holds_up_no_other(
    tmp_path: Path,
) -> None:
    release = threading.Event()
    slow = refusing(lambda: release.wait(10) and None)
    async with serving(tmp_path, slow, BOXES) as caller:
        status, body = await caller.post(f"{REFUSES}?timeout=100ms", review("CREATE", box()))
        assert (status, body) == (504, b"no answer within 0.1 s\n")
        path = "/refuses/boxes-2.shop.example.com"
        assert (await caller.post(path, review("CREATE", box())))[0] == 200
        release.set()


async def test_a_body_that_does_not_arrive_ends_with_the_time_of_the_call(tmp_path: Path) -> None:
    async def nothing() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.sleep(10)

    async with (
        serving(tmp_path) as caller,
        caller.session.post(
            f"{caller.base}{DEFAULTS}?timeout=100ms", data=nothing(), headers=JSON, ssl=caller.trust
        ) as answer,
    ):
        assert answer.status == 504


async def test_calls_beyond_the_limit_are_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook_server, "MAX_CALLS", 2)
    release = threading.Event()
    entered: list[int] = []

    def wait() -> None:
        entered.append(1)
        release.wait(10)

    async with serving(tmp_path, refusing(wait)) as caller, anyio.create_task_group() as group:
        statuses: list[int] = []

        async def call() -> None:
            statuses.append((await caller.post(REFUSES, review("CREATE", box())))[0])

        for _ in range(2):
            group.start_soon(call)
        while len(entered) < 2:
            await anyio.sleep(0.01)
        with anyio.fail_after(5):
            status, body = await caller.post(REFUSES, review("CREATE", box()))
        assert (status, body) == (503, b"too many calls at once\n")
        release.set()
    assert statuses == [200, 200]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("10s", 10), ("500ms", 0.5), ("1m", 30), ("0.5s", 0.5), ("", 10), (None, 10), ("5", 10), ("-1s", 10)],
)
def test_the_time_of_a_call_is_that_of_its_query(text: str | None, seconds: float) -> None:
    assert seconds_of(text) == seconds


# --- start and end ------------------------------------------------------------------------------------


async def test_calls_in_progress_end_at_a_stop(tmp_path: Path) -> None:
    release, entered = threading.Event(), threading.Event()

    def wait() -> None:
        entered.set()
        release.wait(10)

    statuses: list[int] = []
    async with anyio.create_task_group() as group, aiohttp.ClientSession() as session:
        trust = issue(tmp_path)
        routes = routes_of([Controller(Box, keep, admission=refusing(wait))])

        async def call(bound: Address) -> None:
            caller = Caller(session, f"https://{bound}", trust)
            statuses.append((await caller.post(REFUSES, review("CREATE", box())))[0])

        async with (
            rotating(tmp_path) as certificate,
            serving_webhooks(LOOPBACK, routes, certificate) as bound,
        ):
            group.start_soon(call, bound)
            await anyio.to_thread.run_sync(entered.wait)
            asyncio.get_running_loop().call_later(0.2, release.set)
        assert statuses == [200]
        with pytest.raises(aiohttp.ClientError):
            await call(bound)


async def test_a_port_in_use_is_refused(tmp_path: Path) -> None:
    async with serving(tmp_path) as caller, rotating(tmp_path) as certificate:
        taken = Address("127.0.0.1", int(caller.base.rpartition(":")[2]))
        with pytest.raises(ServeError, match="cannot serve on"):
            async with serving_webhooks(taken, [], certificate):
                pass
