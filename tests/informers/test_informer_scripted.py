"""The informer: lists and watches of a scripted server in, a store and what its handlers hear out."""

import itertools
import json
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import anyio
import pytest

from informers import APIResource, Delta, Informer, Key, OutcomeUnknown, Response
from reconcile.testing import VirtualClock, simulate
from tests.helpers.scenarios import simulated
from tests.helpers.scripted_server import Answer, Chunks, ScriptedServer, SeenRequest
from tests.helpers.tasks import beside
from tests.informers.watch_lines import error, line, pod, whole

PODS = APIResource("", "v1", "Pod", "pods")


def page(version: int, *pods: dict[str, Any], token: str = "") -> Response:
    metadata = {"resourceVersion": str(version), "continue": token}
    return Response(200, body=json.dumps({"metadata": metadata, "items": pods}).encode())


class Script(ScriptedServer):
    """Answers each list with the next page and each watch with the next stream; the last one is silent.

    Streaming lists it refuses, unless there is one in `initial`.
    """

    def __init__(
        self,
        pages: Sequence[Response] = (),
        streams: Sequence[Sequence[bytes]] = (),
        initial: Sequence[Sequence[bytes]] = (),
    ) -> None:
        super().__init__(self._next)
        self.pages, self.streams, self.initial = deque(pages), deque(streams), deque(initial)
        self.asked: list[Mapping[str, str]] = []

    def _next(self, request: SeenRequest) -> Answer:
        assert request.streaming, "an informer reads everything as a stream"
        if "sendInitialEvents" in request.query and not self.initial:
            return Response(422, body=b"sendInitialEvents is forbidden for watch")
        self.asked.append(request.query)
        if "sendInitialEvents" in request.query:
            return at_once(self.initial.popleft())
        if "watch" in request.query:
            return self._watch()
        page = self.pages.popleft()
        return Chunks([(1, page.body)], page.status)

    def _watch(self) -> Chunks:
        return at_once(self.streams.popleft()) if self.streams else Chunks(then="silence")


def at_once(lines: Sequence[bytes]) -> Chunks:
    return Chunks([(0, line) for line in lines])


def followed(server: ScriptedServer, watching: Callable[[Informer], Awaitable[None]]) -> Informer:
    """Run an informer of that server for as long as `watching` takes, in virtual time."""
    informer = Informer(server, PODS, clock=VirtualClock(1))

    async def run() -> None:
        async with beside(informer.run):
            await watching(informer)

    simulate(run, seed=1, limit_seconds=3600)
    return informer


async def a_while(_: Informer) -> None:
    await anyio.sleep(100)


def names(informer: Informer) -> dict[str, int]:
    return {snapshot.key.name: snapshot.version for snapshot in informer.store}


@pytest.mark.rule("inv-21")
def test_a_list_of_several_pages_replaces_the_store_in_one_step() -> None:
    server = Script([page(5, pod("a", 1), token="more"), page(5, pod("b", 2))])

    async def watching(informer: Informer) -> None:
        await anyio.sleep(1.5)
        assert names(informer) == {}
        assert not informer.synced
        await anyio.sleep(1)
        assert names(informer) == {"a": 1, "b": 2}
        assert informer.store.version == 5

    followed(server, watching)
    assert [query.get("continue") for query in server.asked[:2]] == [None, "more"]


@pytest.mark.rule("inv-21")
def test_pages_before_a_failure_leave_no_trace() -> None:
    expired = Response(410, body=b"the token is too old")
    server = Script([page(5, pod("a", 1), token="more"), expired, page(9, pod("b", 7))])
    assert names(followed(server, a_while)) == {"b": 7}


@pytest.mark.rule("inv-20", "inv-21")
def test_a_complete_streaming_list_replaces_the_store_in_one_step() -> None:
    first = [line("ADDED", pod("b", 9)), line("ADDED", pod("a", 3)), line("BOOKMARK", pod("", 9))]
    then = [line("MODIFIED", pod("a", 10)), line("DELETED", pod("b", 11))]
    server = Script([], initial=[[*first, *then, whole(12), line("ADDED", pod("c", 13))]])
    heard: list[tuple[str, int, bool]] = []

    async def watching(informer: Informer) -> None:
        informer.add_handler(
            lambda delta: heard.append((delta.last.key.name, informer.store.version, delta.initial))
        )
        await a_while(informer)
        assert informer.status().relists == 0

    assert names(followed(server, watching)) == {"a": 10, "c": 13}
    assert heard == [("a", 12, True), ("c", 13, False)]


@pytest.mark.rule("inv-20", "inv-21")
def test_a_streaming_list_that_is_cut_leaves_no_trace_and_pages_replace_it() -> None:
    server = Script([page(5, pod("a", 1))], initial=[[line("ADDED", pod("b", 99))]])
    informer = followed(server, a_while)
    assert names(informer) == {"a": 1}
    assert informer.store.version == 5
    assert [query.get("resourceVersion") for query in server.asked] == [None, None, "5"]


@pytest.mark.rule("inv-16")
def test_no_list_requests_a_version() -> None:
    server = Script(
        [page(5, pod("a", 1), token="more"), page(5), page(9)], [[error(410, "Expired")]], [[b"garbage\n"]]
    )
    followed(server, a_while)
    lists = [query for query in server.asked if "watch" not in query or "sendInitialEvents" in query]
    assert len(lists) >= 3
    assert all("resourceVersion" not in query for query in lists)


@pytest.mark.rule("inv-23")
@pytest.mark.parametrize("seconds", [0.5, 1.5, 2.5])
@simulated
async def test_a_stopped_informer_sends_no_more_requests(seconds: float) -> None:
    server = Script([page(5, pod("a", 1), token="more")] * 9)

    informer = Informer(server, PODS, clock=VirtualClock())
    with anyio.move_on_after(seconds):
        await informer.run()
    asked = len(server.asked)
    assert informer.status().state == "stopped"
    await anyio.sleep(60)
    assert len(server.asked) == asked


@pytest.mark.rule("inv-21")
@simulated
async def test_a_list_interrupted_by_a_stop_is_not_part_of_the_next_list() -> None:
    server = Script([page(5, pod("a", 1), token="more"), Response(500), page(9, pod("b", 7))])

    informer = Informer(server, PODS, clock=VirtualClock())
    with anyio.move_on_after(1.5):
        await informer.run()
    with anyio.move_on_after(10):
        await informer.run()
    assert names(informer) == {"b": 7}
    assert [query.get("continue") for query in server.asked if "watch" not in query] == [None, "more", None]


@pytest.mark.rule("inv-20")
def test_a_server_whose_versions_went_backwards_is_listed_again_and_trusted() -> None:
    back = [line("ADDED", pod("c", 3))]
    server = Script([page(50, pod("a", 40), pod("b", 41)), page(8, pod("a", 7))], [back])
    deltas: list[tuple[str, bool]] = []

    async def watching(informer: Informer) -> None:
        await informer.wait_synced()
        informer.add_handler(lambda delta: deltas.append((delta.last.key.name, delta.new is None)))
        await a_while(informer)

    informer = followed(server, watching)
    assert names(informer) == {"a": 7}
    assert informer.store.version == 8
    assert deltas[2:] == [("b", True), ("a", False)]


def test_a_restored_server_that_reuses_a_version_for_new_content_is_trusted_too() -> None:
    before, after = pod("a", 7) | {"spec": "before"}, pod("a", 7) | {"spec": "after"}
    server = Script([page(50, before), page(8, after)], [[line("BOOKMARK", pod("", 8))]])
    (snapshot,) = followed(server, a_while).store.list()
    assert snapshot.to_dict()["spec"] == "after"


@pytest.mark.rule("inv-29")
def test_a_new_list_shares_unchanged_objects_and_reports_no_changes() -> None:
    server = Script([page(5, pod("a", 1)), page(9, pod("a", 1))], [[error(410, "Expired")]])
    seen: list[Any] = []

    async def watching(informer: Informer) -> None:
        await informer.wait_synced()
        seen.extend(informer.store.list())
        informer.add_handler(lambda delta: seen.append(delta) if not delta.initial else None)
        await a_while(informer)
        assert informer.status().relists == 1
        seen.extend(informer.store.list())

    followed(server, watching)
    first, second = seen
    assert first is second


@pytest.mark.parametrize("version", ["abc", "²"])
def test_a_list_without_a_numeric_version_is_reported_as_impossible_to_follow(version: str) -> None:
    body = json.dumps({"metadata": {"resourceVersion": version}, "items": []}).encode()
    informer = followed(Script([Response(200, body=body)] * 20), a_while)
    assert not informer.synced
    assert f"resourceVersion {version!r} is not a number" in informer.status().error


@pytest.mark.rule("inv-31")
def test_synced_means_that_the_handlers_have_processed_the_whole_first_list() -> None:
    heard: list[tuple[str, bool]] = []

    async def watching(informer: Informer) -> None:
        def handler(delta: Delta) -> None:
            assert delta.initial
            heard.append((delta.last.key.name, informer.synced))

        informer.add_handler(handler)
        await informer.wait_synced()
        assert heard == [("a", False), ("b", False)]

    followed(Script([page(5, pod("a", 1), pod("b", 2))]), watching)


@pytest.mark.rule("inv-34")
def test_the_version_of_the_store_is_that_of_its_content_and_not_of_the_bytes_read() -> None:
    versions: list[tuple[int, int]] = []
    changes = [line("MODIFIED", pod("a", 6)), line("MODIFIED", pod("a", 8))]
    server = Script([page(5, pod("a", 1))], [[b"".join(changes) + line("BOOKMARK", pod("", 11))]])

    async def watching(informer: Informer) -> None:
        informer.add_handler(lambda delta: versions.append((delta.last.version, informer.store.version)))
        await anyio.sleep(10)
        assert informer.store.version == 11

    followed(server, watching)
    assert versions == [(1, 5), (6, 6), (8, 8)]


@pytest.mark.rule("inv-22", "inv-26")
def test_an_expired_stream_lists_again_and_reports_missed_deletions() -> None:
    server = Script(
        [page(5, pod("a", 1), pod("b", 2)), page(9, pod("b", 2), pod("c", 8))], [[error(410, "Expired")]]
    )
    gone: list[Key] = []

    async def watching(informer: Informer) -> None:
        informer.add_handler(lambda delta: gone.append(delta.last.key) if delta.new is None else None)
        await anyio.sleep(10)
        assert informer.status().relists == 1

    assert names(followed(server, watching)) == {"b": 2, "c": 8}
    assert gone == [Key("ns", "a")]


@pytest.mark.rule("inv-22")
@pytest.mark.parametrize(
    ("code", "reason"), [(500, "InternalError"), (504, "Timeout"), (429, "TooManyRequests")]
)
def test_another_error_in_a_stream_resumes_from_the_last_version_without_a_list(
    code: int, reason: str
) -> None:
    streams: list[Sequence[bytes]] = [
        [line("ADDED", pod("b", 7)), error(code, reason)],
        [line("ADDED", pod("c", 8))],
    ]
    server = Script([page(5, pod("a", 1))], streams)
    assert names(followed(server, a_while)) == {"a": 1, "b": 7, "c": 8}
    assert [query.get("resourceVersion") for query in server.asked] == [None, "5", "7", "8"]


@pytest.mark.rule("inv-22")
def test_an_event_of_an_unknown_type_is_harmless() -> None:
    server = Script(
        [page(5, pod("a", 1))], [[line("NOVELTY", {"kind": "Hint"}) + line("ADDED", pod("b", 7))]]
    )
    informer = followed(server, a_while)
    assert names(informer) == {"a": 1, "b": 7}
    assert informer.status().failures == 0


@pytest.mark.rule("inv-22")
@pytest.mark.parametrize("garbage", [b"upstream connect error\n", b'{"type":"ADDED"}\n', b"[]\n"])
def test_a_line_that_is_not_an_event_is_a_failure_after_which_the_store_is_correct(garbage: bytes) -> None:
    informer = followed(Script([page(5, pod("a", 1)), page(9, pod("b", 8))], [[garbage]]), a_while)
    assert names(informer) == {"b": 8}
    assert informer.status().failures == 1


def test_a_stream_cut_within_a_line_is_a_failure_and_resumes_after_the_last_complete_line() -> None:
    streams: list[Sequence[bytes]] = [[line("ADDED", pod("b", 7)), line("ADDED", pod("c", 8))[:20]]]
    server = Script([page(5, pod("a", 1))], streams)
    informer = followed(server, a_while)
    assert names(informer) == {"a": 1, "b": 7}
    assert [query.get("resourceVersion") for query in server.asked] == [None, "5", "7"]
    assert informer.status().failures == 1


# --- a watch that is dead without a word -------------------------------------------------------------


class Quiet(Script):
    """Sends a bookmark to a watch each `every` seconds, `bookmarks` of them, and then nothing."""

    def __init__(self, every: float, bookmarks: int, events: Sequence[float] = ()) -> None:
        super().__init__([page(5, pod("a", 1))])
        self.every, self.bookmarks, self.events = every, bookmarks, events
        self.times: list[float] = []
        self.version = 6

    def _watch(self) -> Chunks:
        self.times.append(anyio.current_time())
        lines = [(self.every, line("BOOKMARK", pod("", self.version)))] * self.bookmarks
        for wait in self.events:
            self.version += 1
            lines.append((wait, line("MODIFIED", pod("a", self.version))))
        return Chunks(lines, then="silence")


def watched(server: Quiet, seconds: float = 700) -> list[float]:
    """How long each watch took that has ended within `seconds`; all of them went on from the last version."""

    async def watching(_: Informer) -> None:
        await anyio.sleep(seconds)

    followed(server, watching)
    assert len(server.pages) == 0, "one list, at the start"
    assert len([query for query in server.asked if "watch" not in query]) == 1
    return [after - before for before, after in itertools.pairwise(server.times)]


@pytest.mark.rule("inv-17")
def test_a_watch_with_overdue_bookmarks_is_resumed_from_the_last_version_after_130_seconds() -> None:
    server = Quiet(60, 2)
    lives = watched(server)
    assert lives
    assert all(120 + 130 <= life <= 120 + 131 for life in lives)
    assert server.asked[2]["resourceVersion"] == "6"


def test_a_watch_without_bookmarks_is_presumed_dead_only_after_its_requested_time() -> None:
    lives = watched(Quiet(60, 0), 3000)
    assert all(life >= 300 + 30 for life in lives)


def test_events_keep_a_watch_with_overdue_bookmarks_alive() -> None:
    lives = watched(Quiet(60, 1, [100.0] * 2), 3000)
    assert all(60 + 200 + 130 <= life <= 60 + 200 + 131 for life in lives)


def test_a_server_with_rare_bookmarks_is_allowed_twice_their_interval() -> None:
    lives = watched(Quiet(100, 1), 3000)
    assert all(100 + 210 <= life <= 100 + 211 for life in lives)


def test_the_final_bookmark_of_a_streamed_list_does_not_promise_others() -> None:
    server = ScriptedServer(lambda _: Chunks([(0, whole(5))], then="silence"))

    async def watching(_: Informer) -> None:
        await anyio.sleep(299)

    followed(server, watching)
    assert len(server.seen) == 1


def test_a_quiet_resource_on_a_server_with_bookmarks_is_watched_for_the_requested_time() -> None:
    lives = watched(Quiet(61.25, 100), 3000)
    assert all(life >= 300 + 30 for life in lives)


@simulated
async def test_a_watch_that_is_open_again_has_no_error_before_its_first_event() -> None:
    broken = Chunks(
        [(60, line("BOOKMARK", pod("", 10))), (55, b"")],
        then=OutcomeUnknown("the connection was cut", "WATCH"),
    )
    server = Script([page(9)])
    watches = iter([broken, Chunks(then="silence")])
    server._watch = lambda: next(watches)  # type: ignore[method-assign]
    informer = Informer(server, PODS, clock=VirtualClock())
    async with beside(informer.run):
        await anyio.sleep(155)
        status = informer.status()
    assert (status.state, status.error, status.failures) == ("watching", "", 1)
    assert status.lag is not None
    assert status.lag < 60
