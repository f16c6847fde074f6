"""No request can crash the engine, hold it, stop a watch of another client or corrupt the log.

`make fuzz` sends 25,000; the suite sends a few hundred of them.
"""

import os
import random
from collections.abc import Iterator

import msgspec
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from reconcile.embedded import ApiRequest, WatchStream
from tests.embedded.api_client import WIDGETS, Api, events
from tests.embedded.bad_requests import bad_request
from tests.embedded.bombs import bomb
from tests.embedded.bystanders import apply_event, furnished, listable, state_of
from tests.helpers.processor_time import bounded

IN_FULL = 25_000
AT_ONCE = 20
"""Requests to one server, one after the other: what one seed stands for."""

BOMBS = 0.1
"""The share of requests that ask for too much."""

A_HOLD = 2.0
"""Seconds of this process that no request may take; the worst takes 0.3 on an idle machine."""

SEEDS = int(os.environ.get("FUZZ_REQUESTS", "400")) // AT_ONCE


class Bystander:
    """A client that has listed a collection and watches it: what it is told must stay the truth."""

    def __init__(self, api: Api, path: str) -> None:
        self.path = path
        answer = api.ok("GET", path)
        self.state = state_of(answer)
        self.watch = api.watch(path, resourceVersion=answer["metadata"]["resourceVersion"])

    def read(self) -> None:
        for kind, obj in events(self.watch):
            apply_event(self.state, kind, obj)


def sent(api: Api, request: ApiRequest) -> None:
    """Send one request: an answer must come, and a refusal must leave no trace."""
    before = api.server.version
    with bounded(A_HOLD, str(request)):
        answer = api.server.handle(request)
    if isinstance(answer, WatchStream):
        answer.take()
        answer.close()
        return
    assert 200 <= answer.status < 600
    event(f"{answer.status // 100}xx")
    if answer.headers["content-type"].startswith("application/json"):
        msgspec.json.decode(answer.body)
    if answer.status >= 400:
        assert api.server.version == before, "a refused request leaves no trace"


def assert_healthy(api: Api, bystanders: list[Bystander]) -> None:
    """The server still works, and the log replays to what is there."""
    api.server.settle()
    for bystander in bystanders:
        bystander.read()
        answer = api.send("GET", bystander.path)
        if bystander.watch.ending:
            assert bystander.path == WIDGETS, "only a change of its definition ends a watch"
            continue
        assert state_of(answer.body) == bystander.state
        assert api.server.version == int(answer.body["metadata"]["resourceVersion"])
    probe = {"metadata": {"name": "probe"}, "data": {"a": "b"}}
    assert api.send("POST", "/api/v1/namespaces/kube-system/configmaps", probe).status == 201


@pytest.fixture(autouse=True, scope="module")
def told() -> Iterator[None]:
    """Say how much of the whole was run; seen with `-s`."""
    yield
    print(f"\n{SEEDS} of {IN_FULL // AT_ONCE} seeds run, {AT_ONCE} requests each")


@settings(max_examples=SEEDS)
@pytest.mark.timeout(1800)
@given(st.integers(0, 2**32))
def test_no_request_harms_the_server(seed: int) -> None:
    chance = random.Random(seed)
    api = furnished()
    bystanders = [Bystander(api, path) for path in listable()]
    for _ in range(AT_ONCE):
        sent(api, bomb(chance) if chance.random() < BOMBS else bad_request(chance))
    assert_healthy(api, bystanders)
