"""Recorded runs of random operations: the embedded server answers each step as a real one did.

All runs are played in process, and every fourth over HTTP as well: HISTORIES_OVER_HTTP=1 for each of them.
"""

import os
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from tests.conformance.in_process import in_process_client
from tests.conformance.served import HERE, TOKEN, load_script, serving_scripts

REPLAY = load_script("histories/replay.py")
NAMES = sorted(path.stem for path in (HERE / "histories" / "runs").glob("*.json"))

OVER_HTTP = NAMES[:: int(os.environ.get("HISTORIES_OVER_HTTP", "4"))]


def _stage(client: Callable[[], Any]) -> Any:
    stage = REPLAY.Stage(SimpleNamespace(record=False, all=False, skip=()))
    stage.client = client
    return stage


@pytest.fixture(scope="session")
def http_stage() -> Iterator[Any]:
    with serving_scripts() as url:
        yield _stage(lambda: REPLAY.Client(url, TOKEN, insecure=False))


@pytest.fixture(scope="session")
def in_process_stage() -> Iterator[Any]:
    with in_process_client(REPLAY) as client:
        yield _stage(client)


def _problems(stage: Any, name: str) -> list[str]:
    run = REPLAY.Run.load(HERE / "histories" / "runs" / f"{name}.json")
    stage.play(run)
    problems: list[str] = run.problems
    return problems


@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", OVER_HTTP)
def test_a_history_goes_as_on_a_real_server(name: str, http_stage: Any) -> None:
    problems = _problems(http_stage, name)
    assert not problems, "\n".join(problems)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", NAMES)
def test_in_process_a_history_goes_as_on_a_real_server(name: str, in_process_stage: Any) -> None:
    problems = _problems(in_process_stage, name)
    assert not problems, "\n".join(problems)
