"""Recorded runs of random operations: the embedded server answers each step as a real one did.

The runs are played over HTTP and in process.
"""

import warnings
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from anyio.from_thread import start_blocking_portal

from reconcile.embedded import InProcessTransport
from tests.conformance.in_process import InProcessClient, InProcessConnection
from tests.conformance.served import HERE, TOKEN, load_script, running, serving

REPLAY = load_script("histories/replay.py")
NAMES = sorted(path.stem for path in (HERE / "histories" / "runs").glob("*.json"))

_OPTIONS = SimpleNamespace(record=False, all=False, skip=())


@pytest.fixture(scope="session")
def http_stage() -> Iterator[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # the script leaves its sockets to the process's end
        with start_blocking_portal() as portal, portal.wrap_async_context_manager(serving()) as url:

            class Stage(REPLAY.Stage):  # type: ignore[misc,name-defined]
                def client(self) -> Any:
                    return REPLAY.Client(url, TOKEN, insecure=False)

            yield Stage(_OPTIONS)


@pytest.fixture(scope="session")
def in_process_stage() -> Iterator[Any]:
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(running()) as server:

        class Client(REPLAY.Client):  # type: ignore[misc,name-defined]
            def connect(self) -> InProcessConnection:
                return InProcessConnection(InProcessClient(portal, InProcessTransport(server), None))

        class Stage(REPLAY.Stage):  # type: ignore[misc,name-defined]
            def client(self) -> Any:
                return Client("http://in-process", None, insecure=False)

        yield Stage(_OPTIONS)


def _problems(stage: Any, name: str) -> list[str]:
    run = REPLAY.Run.load(HERE / "histories" / "runs" / f"{name}.json")
    stage.play(run)
    problems: list[str] = run.problems
    return problems


@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", NAMES)
def test_a_history_goes_as_on_a_real_server(name: str, http_stage: Any) -> None:
    problems = _problems(http_stage, name)
    assert not problems, "\n".join(problems)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", NAMES)
def test_in_process_a_history_goes_as_on_a_real_server(name: str, in_process_stage: Any) -> None:
    problems = _problems(in_process_stage, name)
    assert not problems, "\n".join(problems)
