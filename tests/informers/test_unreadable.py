"""What a server sends and nobody can read: it is left out, counted and named, and ends nothing."""

import json
from contextlib import suppress
from typing import Any

import anyio
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from informers import APIResource, Informer, Response, Snapshot
from informers.scanning import check_whole, elements, members
from informers.snapshot import name_in
from reconcile.testing import VirtualClock, simulate
from tests.client.test_hostile_answers import BODIES, EXAMPLES, HEADERS, STATUSES
from tests.helpers.scripted_server import Chunks, ScriptedServer, in_turn
from tests.helpers.tasks import beside
from tests.informers.http_peer import always, reply, serving
from tests.informers.watch_lines import pod, whole

PODS = APIResource("", "v1", "Pod", "pods")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


def deep(name: str, version: int, depth: int = 20_000) -> bytes:
    """A pod with something nested so deep that no recursive decoder reads it."""
    body = json.dumps({**pod(name, version), "spec": None}).encode()
    nested = b'{"a":' * depth + b"1" + b"}" * depth
    return body.replace(b"null", nested)


def event(kind: str, raw: bytes) -> bytes:
    return b'{"type":"' + kind.encode() + b'","object":' + raw + b"}\n"


def listed(*items: bytes, version: int = 9, token: str = "") -> bytes:
    metadata = json.dumps({"resourceVersion": str(version), "continue": token}).encode()
    return b'{"kind":"PodList","metadata":' + metadata + b',"items":[' + b",".join(items) + b"]}"


# --- JSON taken apart without recursion ---------------------------------------------------------------


@given(st.dictionaries(st.text(), JSON, max_size=5), st.booleans())
def test_members_are_the_same_as_those_of_a_decoder(content: dict[str, Any], spaced: bool) -> None:
    text = json.dumps(content, indent=2 if spaced else None).encode()
    assert {name: json.loads(value) for name, value in members(text).items()} == content


@given(st.lists(JSON, max_size=5), st.booleans())
def test_elements_are_the_same_as_those_of_a_decoder(content: list[Any], spaced: bool) -> None:
    text = json.dumps(content, indent=2 if spaced else None).encode()
    assert [json.loads(value) for value in elements(text)] == content


@given(st.dictionaries(st.text(), JSON, min_size=1, max_size=5), st.data())
def test_a_truncated_object_is_an_error(content: dict[str, Any], data: st.DataObject) -> None:
    text = json.dumps(content).encode()
    with pytest.raises(msgspec.DecodeError):
        members(text[: data.draw(st.integers(0, len(text) - 1))])


@given(st.binary(max_size=40))
def test_anything_else_is_a_decoding_error(text: bytes) -> None:
    for read in (members, elements):
        with suppress(msgspec.DecodeError):
            read(text)


@pytest.mark.parametrize("text", [b'{"a":1', b'{"a":1}}', b"[1", b"", b"[" * 20_000, b'{"a":' * 20_000])
def test_text_that_is_not_exactly_one_value_is_refused(text: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        check_whole(text)


@pytest.mark.parametrize("text", [b"3", b'{"a":1}', b" [1]", b"[" * 20_000 + b"]" * 20_000, deep("a", 1)])
def test_one_value_is_accepted_at_any_depth(text: bytes) -> None:
    check_whole(text)


def test_a_deeply_nested_object_is_stored_whole() -> None:
    snapshot = Snapshot.from_deep_json(deep("a", 3))
    assert (str(snapshot.key), snapshot.version, snapshot.uid) == ("ns/a", 3, "a")
    assert snapshot.raw == deep("a", 3)
    assert not snapshot.same_as(Snapshot.from_deep_json(deep("a", 3, 19_999)))
    with pytest.raises(RecursionError):
        snapshot.to_dict()


def test_an_unreadable_object_is_named_as_far_as_possible() -> None:
    assert name_in(deep("a", 3)) == "ns/a"
    assert name_in(b'{"metadata":{"name":7}}') == "an object of 23 bytes"
    assert name_in(b"[") == "an object of 1 bytes"


# --- an informer ------------------------------------------------------------------------------------


def in_pieces(answer: Response) -> Chunks:
    """A body in small pieces; a watch stays open after it."""
    pieces = [(0.0, answer.body[start : start + 4096]) for start in range(0, len(answer.body), 4096)]
    is_watch = answer.status == 200 and answer.body.endswith(b"\n")
    return Chunks([(0.001, b""), *pieces, *([(300.0, b"")] if is_watch else [])], answer.status)


def followed(answers: list[Response], seconds: float = 20) -> tuple[Informer, ScriptedServer]:
    """An informer after so many (virtual) seconds with a server that answers like this."""
    script = ScriptedServer(in_turn(*map(in_pieces, answers)))
    informer = Informer(script, PODS, clock=VirtualClock(1))

    async def scenario() -> None:
        async with beside(informer.run):
            await anyio.sleep(seconds)
            assert informer.status().state != "stopped"

    simulate(scenario, limit_seconds=seconds + 1000)
    return informer, script


def names(informer: Informer) -> set[str]:
    return {snapshot.name for snapshot in informer.store}


GOOD = json.dumps(pod("good", 3)).encode()
LAST = json.dumps(pod("last", 5)).encode()
BAD = [
    b'{"metadata":{"name":"bad","resourceVersion":"4","labels":[1]}}',
    b'{"metadata":{"name":7,"resourceVersion":"4"}}',
    b'{"metadata":{"resourceVersion":"4"}}',
    b'{"metadata":{"name":"bad","resourceVersion":"soon"}}',
    b'{"metadata":{"name":"bad","resourceVersion":"' + b"9" * 5000 + b'"}}',
    b'{"metadata":{"name":"bad","resourceVersion":"4","finalizers":{"a":1}}}',
    b'{"metadata":[]}',
    b"{}",
    b"3",
    b'{"metadata":{"name":"bad","resourceVersion":"4","labels":'
    + b'{"a":' * 20_000
    + b"1"
    + b"}" * 20_001
    + b"}",
    b'{"kind": "Pod","metadata":{"name":7},"spec":[{"kind": ""},{"kind": "","metadata":{"name":"in"}}]}',
]


@pytest.mark.rule("unreadable")
@pytest.mark.parametrize("bad", [*BAD, deep("deep", 4)], ids=range(len(BAD) + 1))
@pytest.mark.parametrize("way", ["page", "stream", "event"])
def test_an_unreadable_object_is_skipped_and_all_others_are_followed(way: str, bad: bytes) -> None:
    if way == "page":
        answers = [Response(400), Response(200, {}, listed(GOOD, bad, LAST)), Response(200, {}, b"\n")]
    else:
        whole_list = [event("ADDED", GOOD), *([event("ADDED", bad)] if way == "stream" else [])]
        text = b"".join(whole_list) + whole(3) + event("MODIFIED", bad) + event("ADDED", LAST)
        answers = [Response(200, {}, text)]
    informer, _ = followed(answers)
    is_deep = bad.startswith(b'{"metadata": {"name": "deep"') or b'"deep"' in bad
    assert names(informer) == {"good", "last"} | ({"deep"} if is_deep else set())
    assert bool(informer.status().skipped) is not is_deep
    assert informer.synced
    assert informer.status().failures <= 1


@pytest.mark.rule("unreadable")
def test_a_list_whose_last_or_only_object_is_deeply_nested_is_read() -> None:
    for items in ([deep("deep", 4)], [GOOD, deep("deep", 4)], [deep("deep", 4), deep("other", 5)]):
        informer, _ = followed([Response(400), Response(200, {}, listed(*items)), Response(200, {}, b"\n")])
        assert len(informer.store) == len(items)


@pytest.mark.rule("unreadable")
@settings(max_examples=EXAMPLES)
@given(answers=st.lists(st.builds(Response, STATUSES, HEADERS, BODIES), min_size=1, max_size=4))
def test_no_answer_ends_an_informer_or_causes_unbounded_requests(answers: list[Response]) -> None:
    _, script = followed(answers, 120)
    assert len(script.seen) <= 400


def test_a_repeated_continue_token_is_a_failure_with_a_delay() -> None:
    informer, script = followed([Response(400), Response(200, {}, listed(GOOD, token="again"))], 60)
    assert len(script.seen) < 60
    assert "continue token twice" in str(informer.error)


def test_a_retry_after_of_the_server_is_limited_to_five_minutes() -> None:
    refusal = Response(429, {"retry-after": "1000000000"}, b"")
    informer, _ = followed([refusal, Response(200, {}, listed(GOOD))], 700)
    assert names(informer) == {"good"}


async def test_unreadable_objects_are_skipped_over_a_real_connection_too(connecting: Any) -> None:
    async with serving(always(reply(200, listed(GOOD, BAD[0], deep("deep", 4), LAST)))) as peer:
        informer = Informer(await connecting(peer.port), PODS)
        async with beside(informer.run):
            with anyio.fail_after(10):
                while not informer.store.get(Snapshot.from_json(LAST).key):
                    await anyio.sleep(0.02)
