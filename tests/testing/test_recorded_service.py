"""Real answers are recorded without secrets, and a fake is compared with them."""

import base64
import json
from pathlib import Path

import aiohttp
import anyio
import httpx
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from attrs import frozen

from reconcile.testing import (
    FakeService,
    RecordedService,
    ServiceCollection,
    ServiceRecorder,
    record_service,
    simulate,
    whole_files,
)
from tests.helpers.processor_time import bounded

PASSWORD, TOKEN = "correct-horse/battery", "tok-2f81c6"


@frozen
class User:
    name: str
    password: str = ""
    plan: str = "free"
    id: str = ""
    created: str = "2026-01-01T00:00:00Z"


def service(prefix: str = "usr", **options: object) -> FakeService:
    users = ServiceCollection(name="users", kind=User, id_prefix=prefix, page=1, **options)  # type: ignore[arg-type]
    return FakeService("people", [users])


async def talk(http: aiohttp.ClientSession) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}", "Idempotency-Key": "k-1"}
    bodies = [{"name": "ann", "password": PASSWORD}, {"name": "bob", "plan": "pro"}]
    async with http.post("/users", json=bodies[0], headers=headers) as answer:
        ann = (await answer.json())["id"]
    async with http.post("/users", json=bodies[1]) as answer:
        assert answer.status == 201
    async with http.get("/users", params={"limit": "1"}) as answer:
        following = (await answer.json())["next_page_token"]
    async with http.get("/users", params={"page_token": following}) as answer:
        assert [one["name"] for one in (await answer.json())["items"]] == ["bob"]
    await anyio.sleep(30)
    async with http.patch(f"/users/{ann}", json={"plan": "team"}) as answer:
        assert answer.status == 200
    async with http.delete(f"/users/{ann}") as answer:
        assert answer.status == 204
    async with http.get(f"/users/{ann}") as answer:
        assert answer.status == 404


def recorded(path: Path, real: FakeService) -> RecordedService:
    """Record a talk with a service that stands for the real one."""

    async def main() -> None:
        with record_service(path) as recorder:
            async with aiohttp.ClientSession(
                "https://people.test",
                connector=real.aiohttp_connector(),
                middlewares=[recorder.aiohttp_middleware],
            ) as http:
                await talk(http)

    simulate(main)
    return RecordedService.read(path)


def test_a_fake_that_is_like_the_recorded_service_passes(tmp_path: Path) -> None:
    vectors = recorded(tmp_path / "people.jsonl", service("real"))
    assert [one.status for one in vectors.exchanges] == [201, 201, 200, 200, 200, 204, 404]
    assert vectors.exchanges[4].after == 30.0
    vectors.check(service())


@pytest.mark.parametrize(
    ("fake", "difference"),
    [
        (service(fixed=("plan",)), "5. PATCH /users/real-1: status 200, the fake answers 422"),
        (service(most=1), "2. POST /users: status 201, the fake answers 403"),
        (service(visible_after=(60.0, 60.0)), "3. GET /users: body.items has 1 elements, that of the fake 0"),
    ],
)
def test_a_fake_that_is_not_says_at_which_request_and_field(
    tmp_path: Path, fake: FakeService, difference: str
) -> None:
    vectors = recorded(tmp_path / "people.jsonl", service("real"))
    with pytest.raises(AssertionError, match="people is not like the recorded service") as failed:
        vectors.check(fake)
    assert difference in str(failed.value)


def test_a_fake_has_to_answer_with_the_values_that_the_client_sent() -> None:
    class Shouting(FakeService):
        pass

    def shout(call) -> dict[str, str]:  # type: ignore[no-untyped-def]
        return {**call.body, "name": call.body["name"].upper(), "id": "x-9"}

    recorder = ServiceRecorder(frozenset(), 10)
    recorder.add("POST", "/users", b'{"name":"ann-1"}', 200, b'{"name":"ann-1","id":"usr-7"}')
    with pytest.raises(AssertionError, match=r'body\.name is "ann-1", that of the fake "ANN-1"'):
        recorder.recorded().check(Shouting("people", routes={"POST /users": shout}))


def test_one_made_up_value_cannot_stand_for_two() -> None:
    recorder = ServiceRecorder(frozenset(), 10)
    for number in (1, 2):
        recorder.add("POST", "/users", b"{}", 200, b'{"id":"usr-%d"}' % number)
    with pytest.raises(AssertionError, match=r'2\. POST /users: body\.id is "usr-2", that of the fake "x-9"'):
        recorder.recorded().check(FakeService("people", routes={"POST /users": lambda _: {"id": "x-9"}}))


def test_no_secret_reaches_the_file_and_equal_ones_stay_equal(tmp_path: Path) -> None:
    path = tmp_path / "people.jsonl"
    vectors = recorded(path, service("real"))
    text = path.read_text()
    for secret in (PASSWORD, TOKEN, "correct-horse", "battery", "Bearer"):
        assert secret not in text
    assert vectors.exchanges[0].body["password"] == vectors.exchanges[0].answer["password"]
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_secret_is_masked_in_texts_urls_keys_and_where_it_came_before_it_was_known() -> None:
    basic = base64.b64encode(b"me:pass word").decode()
    recorder = ServiceRecorder(frozenset({"pin"}), 10)
    recorder.add(
        "GET",
        "/of/pass%20word?note=pass+word",
        b'{"note":"it is pass word"}',
        200,
        b'{"pass word":1,"pin":77881,"short":"no","list":[{"api_key":["a1b2c3"]}],"echo":"<a1b2c3>"}',
    )
    recorder.add("GET", "/", b"", 200, b"plain pass word", headers={"Authorization": f"Basic {basic}"})
    text = json.dumps(
        [str(one.answer) + str(one) + str(one.query) + str(one.body) for one in recorder.recorded().exchanges]
    )
    for secret in ("pass word", "pass%20word", "77881", "a1b2c3"):
        assert secret not in text
    assert recorder.recorded().exchanges[0].answer["echo"].startswith("<<secret")
    assert recorder.recorded().exchanges[1].answer is None


PEM = "-----BEGIN EC PRIVATE KEY-----\nMHcCAQEEIOm\n-----END EC PRIVATE KEY-----"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl"


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("see postgres://app:s3cr3tly@db:5432/shop", "s3cr3tly"),
        (PEM, "MHcCAQEEIOm"),
        (f"use {JWT} now", JWT),
    ],
)
def test_what_looks_like_a_secret_is_masked_in_fields_of_any_name(text: str, secret: str) -> None:
    recorder = ServiceRecorder(frozenset(), 10)
    body = json.dumps({"note": [text]}).encode()
    recorder.add("POST", "/notes", body, 200, json.dumps({"said": text, text: 1}).encode())
    shown = str(recorder.recorded())
    assert secret not in shown
    assert "<secret 1>" in shown


def test_httpx_is_recorded_as_aiohttp_is() -> None:
    real, recorder = service("real"), ServiceRecorder(frozenset(), 10)

    async def main() -> None:
        transport = recorder.httpx_transport(real.httpx_transport())
        async with httpx.AsyncClient(base_url="https://people.test", transport=transport) as http:
            await http.post("/users", json={"name": "ann"}, headers={"X-Api-Key": TOKEN})
            assert (await http.get("/users", params={"name": "ann"})).json()["items"][0]["name"] == "ann"

    simulate(main)
    vectors = recorder.recorded()
    assert [str(one) for one in vectors.exchanges] == ["POST /users", "GET /users"]
    assert vectors.exchanges[1].query == {"name": "ann"}
    assert TOKEN not in str(vectors)
    vectors.check(service())


async def test_answers_that_came_over_a_real_socket_are_recorded_decoded_and_without_cookies() -> None:
    async def made(request: web.Request) -> web.Response:
        answer = web.json_response({"id": "real-7f", **await request.json()}, status=201)
        answer.set_cookie("sid", "c00kie-9")
        answer.enable_compression()
        return answer

    application = web.Application()
    application.add_routes([web.post("/users", made)])
    recorder = ServiceRecorder(frozenset(), 10)
    async with TestServer(application) as server:
        url = str(server.make_url("/"))
        async with (
            aiohttp.ClientSession(url, middlewares=[recorder.aiohttp_middleware]) as http,
            http.post("/users", json={"name": "ann", "echo": "c00kie-9"}) as answer,
        ):
            assert (await answer.json())["id"] == "real-7f"
        transport = recorder.httpx_transport(httpx.AsyncHTTPTransport())
        async with httpx.AsyncClient(base_url=url, transport=transport) as other:
            assert (await other.post("/users", json={"name": "bob"})).json()["name"] == "bob"
    exchanges = recorder.recorded().exchanges
    assert [one.answer["name"] for one in exchanges] == ["ann", "bob"]
    assert "c00kie" not in str(exchanges)


def test_an_answer_that_is_nested_absurdly_is_not_kept() -> None:
    recorder = ServiceRecorder(frozenset(), 10)
    for depth in (10, 500, 100_000):
        recorder.add("GET", "/", b"", 200, b"[" * depth + b"]" * depth)
    assert [one.answer is None for one in recorder.recorded().exchanges] == [False, True, True]


def test_only_the_first_answers_of_many_are_kept(tmp_path: Path) -> None:
    with record_service(tmp_path / "few.jsonl", most=2) as recorder:
        for number in range(5):
            recorder.add("GET", f"/{number}", b"", 200, b"{}")
    assert [one.path for one in RecordedService.read(tmp_path / "few.jsonl").exchanges] == ["/0", "/1"]


HEAD = '{"format":"reconcile-runtime/service-answers","version":1}\n'


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ("", "line 1: Input data was truncated"),
        ('{"format":"other","version":1}', "is other 1, expected"),
        (HEAD.replace(":1}", ":2}"), "service-answers 2, expected"),
        (HEAD + '{"method":"GET","path":"/a"}', "line 2: Object missing required field `status`"),
        (HEAD + '{"method":"GET","path":"/a","status":"x"}', "line 2: Expected `int`, got `str`"),
        (HEAD + "[" * 100_000, "line 2: "),
        (
            HEAD + '{"method":"GET","path":"/","status":200,"answer":' + "[" * 300 + "]" * 300 + "}",
            "line 2: nested deeper than 50",
        ),
        (HEAD + '{"method":"GET","path":"/a","status":200}\n{"meth', "line 3: Input data was truncated"),
    ],
)
def test_a_file_that_is_damaged_or_strange_is_refused_with_its_line(
    tmp_path: Path, content: str, error: str
) -> None:
    (tmp_path / "bad.jsonl").write_text(content)
    with pytest.raises(ValueError, match=r"bad\.jsonl.*") as refused:
        RecordedService.read(tmp_path / "bad.jsonl")
    assert error in str(refused.value)


def test_a_recording_with_a_thousand_tokens_is_masked_within_seconds() -> None:
    recorder = ServiceRecorder(frozenset(), 1_000)
    for number in range(1_000):
        answer = {"token": f"token-{number:06d}", "items": [{"name": f"of token-{number:06d}"}] * 5}
        recorder.add("POST", "/sessions", b"{}", 200, json.dumps(answer).encode())
    with bounded(20):  # when all tokens were looked for in each text at once: half an hour
        exchanges = recorder.recorded().exchanges
    assert [one.answer["items"][0]["name"] for one in exchanges[:2]] == ["of <secret 1>", "of <secret 2>"]


def test_a_recording_that_cannot_be_written_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(whole_files.os, "replace", full)
    with pytest.raises(OSError, match="No space left"), record_service(tmp_path / "answers.jsonl"):
        pass
    assert list(tmp_path.iterdir()) == []
