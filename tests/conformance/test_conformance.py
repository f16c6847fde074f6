"""Every recorded conversation with a real API server, held with the embedded one over HTTP.

All scenarios run side by side before the first test; each test is then about its own scenario. What is
not conformant yet stands in not_yet.txt with a reason, and must leave it when it becomes so.
"""

import gc
import importlib.util
import sys
import warnings
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import anyio
import pytest
from anyio.from_thread import start_blocking_portal

from reconcile.embedded import ApiServer
from reconcile.embedded.http import serve

HERE = Path(__file__).parent
TOKEN = "conformance"
SIDE_BY_SIDE = 32
PATIENCE = 3.0


def _load_runner() -> ModuleType:
    """run.py, which is a script and no module of a package."""
    spec = importlib.util.spec_from_file_location("conformance_run", HERE / "run.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclasses look themselves up there
    spec.loader.exec_module(module)
    return module


def _not_yet() -> dict[str, str]:
    lines = (HERE / "not_yet.txt").read_text().splitlines()
    entries = (line.partition(" ") for line in lines if line and not line.startswith("#"))
    return {title: reason.strip() for title, _, reason in entries}


RUN = _load_runner()
NOT_YET = _not_yet()
SCENARIOS: dict[str, Any] = {s.title: s for s in RUN.load(HERE / "scenarios", "*", "rare")}


@asynccontextmanager
async def _serving() -> AsyncIterator[str]:
    """The embedded server over HTTP, and its URL."""
    server = ApiServer()
    async with anyio.create_task_group() as tasks, serve(server, tls=False, token=TOKEN) as face:
        tasks.start_soon(server.run)
        yield face.url
        tasks.cancel_scope.cancel()


@pytest.fixture(scope="session")
def results(request: pytest.FixtureRequest) -> dict[str, list[tuple[str, str]]]:
    """The differences found in each scenario that this session asks for."""
    asked = {
        item.callspec.params["title"]
        for item in request.session.items
        if "results" in getattr(item, "fixturenames", ())
    }
    scenarios = [_impatient(SCENARIOS[title]) for title in sorted(asked)]
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", ResourceWarning
        )  # run.py leaves its sockets to the end of the process
        _converse(scenarios)
        gc.collect()
    return {scenario.title: scenario.failures for scenario in scenarios}


def _converse(scenarios: list[Any]) -> None:
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(_serving()) as url:
        client = RUN.Client(url, TOKEN)
        with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
            list(pool.map(lambda scenario: RUN.Run(scenario, client, False).execute(), scenarios))


def _impatient(scenario: Any) -> Any:
    """The scenario with its waits for other controllers cut short: here what is to happen happens at once."""
    for step in scenario.doc["steps"]:
        if "retry" in step:
            step["retry"]["seconds"] = min(step["retry"]["seconds"], PATIENCE)
    return scenario


def _parameter(title: str) -> Any:
    if title in NOT_YET:
        mark = pytest.mark.xfail(reason=NOT_YET[title], raises=AssertionError, strict=True)
        return pytest.param(title, id=title, marks=mark)
    return pytest.param(title, id=title)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("title", [_parameter(title) for title in SCENARIOS])
def test_the_server_answers_as_a_real_one_did(title: str, results: dict[str, list[tuple[str, str]]]) -> None:
    differences = [f"[{step}] {problem}" for step, problem in results[title]]
    assert not differences, "\n".join(differences)


def test_what_is_not_yet_conformant_exists_and_says_why() -> None:
    assert set(NOT_YET) <= set(SCENARIOS)
    assert all(NOT_YET.values())


def test_what_nearly_every_controller_depends_on_is_conformant() -> None:
    areas = {"crud", "concurrency", "metadata", "subresources", "watch"}
    must = {s.title for s in SCENARIOS.values() if s.doc["area"] in areas and s.doc["level"] == "must"}
    assert must
    assert not must & set(NOT_YET)
