"""The log's laws: whatever is written, lists and watches tell the same story, whole and in order."""

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from reconcile.embedded import WatchStream
from tests.embedded.api_client import WIDGETS, Api, events, widget

NAMES = st.sampled_from(["a", "b", "c"])
COLORS = st.sampled_from(["red", "blue"])
SIZES = st.integers(0, 3)

State = dict[str, dict[str, Any]]


def listed(api: Api, **query: str) -> tuple[int, State]:
    answer = api.ok("GET", WIDGETS, query=query)
    state = {item["metadata"]["name"]: item for item in answer["items"]}
    return int(answer["metadata"]["resourceVersion"]), state


class Reader:
    """A client that lists, watches from there and applies every event to what it knows."""

    def __init__(self, watch: WatchStream, version: int, state: State) -> None:
        self.watch = watch
        self.version = version
        self.state = dict(state)

    def read(self) -> None:
        for kind, obj in events(self.watch):
            name, version = obj["metadata"]["name"], int(obj["metadata"]["resourceVersion"])
            assert version > self.version, "versions grow, and none comes twice"
            self.version = version
            assert (name in self.state) is (kind != "ADDED")
            if kind == "DELETED":
                del self.state[name]
            else:
                self.state[name] = obj


class Histories(RuleBasedStateMachine):
    """Any writes to a few objects; readers that began at any time; a history kept on the side."""

    def __init__(self) -> None:
        super().__init__()
        self.api = Api()
        version, state = listed(self.api)
        self.past: list[tuple[int, State]] = [(version, state)]
        self.readers: list[Reader] = []

    def _write(
        self, method: str, path: str, body: Any = None, content_type: str = "application/json"
    ) -> None:
        before = self.api.server.version
        if self.api.send(method, path, body, content_type=content_type).status >= 300:
            assert self.api.server.version == before, "a refused write leaves no trace"
        version, state = listed(self.api)
        if version > before:
            self.past.append((version, state))

    @rule(name=NAMES, color=COLORS, held=st.booleans())
    def create(self, name: str, color: str, held: bool) -> None:
        finalizers = {"finalizers": ["example.com/hold"]} if held else {}
        self._write("POST", WIDGETS, widget(name, spec={"color": color}, **finalizers))

    @rule(name=NAMES, size=SIZES, color=COLORS)
    def patch(self, name: str, size: int, color: str) -> None:
        patch = {"spec": {"size": size, "color": color}}
        self._write("PATCH", f"{WIDGETS}/{name}", patch, "application/merge-patch+json")

    @rule(name=NAMES)
    def write_nothing_new(self, name: str) -> None:
        before = self.api.server.version
        found = self.api.send("GET", f"{WIDGETS}/{name}")
        if found.status == 200:
            assert self.api.send("PUT", f"{WIDGETS}/{name}", found.body).version == found.version
        assert self.api.server.version == before, "a write that changes nothing is no change"

    @rule(name=NAMES)
    def delete(self, name: str) -> None:
        self._write("DELETE", f"{WIDGETS}/{name}")

    @rule(name=NAMES)
    def release(self, name: str) -> None:
        patch = {"metadata": {"finalizers": None}}
        self._write("PATCH", f"{WIDGETS}/{name}", patch, "application/merge-patch+json")

    @rule(back=st.integers(0, 20))
    def watch_from_some_version(self, back: int) -> None:
        version, state = self.past[max(0, len(self.past) - 1 - back)]
        watch = self.api.watch(WIDGETS, resourceVersion=str(version))
        self.readers.append(Reader(watch, version, state))

    @precondition(lambda self: self.past)
    @rule(back=st.integers(0, 20))
    def the_past_can_be_listed(self, back: int) -> None:
        version, state = self.past[max(0, len(self.past) - 1 - back)]
        assert listed(self.api, resourceVersion=str(version), resourceVersionMatch="Exact") == (
            version,
            state,
        )

    @rule(back=st.integers(0, 20))
    def a_selector_shows_exactly_what_it_selects(self, back: int) -> None:
        version, state = self.past[max(0, len(self.past) - 1 - back)]
        watch = self.api.watch(WIDGETS, resourceVersion=str(version), fieldSelector="spec.color=blue")
        reader = Reader(watch, version, {k: v for k, v in state.items() if v["spec"]["color"] == "blue"})
        reader.read()
        now = listed(self.api)[1]
        assert reader.state == {k: v for k, v in now.items() if v["spec"]["color"] == "blue"}

    @invariant()
    def every_reader_knows_what_a_list_would_say(self) -> None:
        now = listed(self.api)[1]
        for reader in self.readers:
            reader.read()
            assert reader.state == now


Histories.TestCase.settings = settings(max_examples=25, stateful_step_count=30, deadline=None)


@pytest.mark.rule("api-103")
class TestHistories(Histories.TestCase):  # type: ignore[misc, name-defined]
    """Runs the machine."""


@pytest.mark.rule("api-105", "api-116")
def test_a_version_that_was_trimmed_ends_the_watch_with_expired() -> None:
    api = Api(history=5)
    old = str(api.server.version)
    for size in range(8):
        api.ok("POST", WIDGETS, widget(f"w{size}"))
    [(kind, status)] = events(watch := api.watch(WIDGETS, resourceVersion=old))
    assert (kind, status["code"], status["reason"]) == ("ERROR", 410, "Expired")
    assert watch.closed


@pytest.mark.rule("api-112")
def test_a_reader_that_falls_behind_the_log_is_disconnected_and_not_skipped_ahead() -> None:
    api = Api(history=5)
    watch = api.watch(WIDGETS, resourceVersion=str(api.server.version))
    for size in range(8):
        api.ok("POST", WIDGETS, widget(f"w{size}"))
    assert [kind for kind, _ in events(watch)] == ["ERROR"]
    assert watch.closed


@pytest.mark.rule("api-33")
def test_one_counter_serves_all_kinds_and_starts_at_the_clock() -> None:
    api = Api()
    first = api.server.version
    assert first >= api.clock.now().timestamp() * 1_000_000
    api.clock.advance(1)
    assert Api(clock=api.clock).server.version > first, "a restart never goes back"
