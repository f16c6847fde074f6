"""Every recorded conversation with a real API server, held with the embedded one: over HTTP and in process.

All scenarios run side by side before the first test; each test is then about its own scenario. What is
not conformant yet stands in not_yet.txt with a reason, and must leave it when it becomes so; what is about
connections stands in not_in_process.txt.
"""

import gc
import warnings
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from typing import Any

import pytest
from anyio.from_thread import start_blocking_portal

from reconcile.embedded import InProcessTransport
from tests.conformance.in_process import InProcessClient
from tests.conformance.served import HERE, TOKEN, load_script, running, serving

SIDE_BY_SIDE = 32
PATIENCE = 3.0

Results = dict[str, list[tuple[str, str]]]
"""The differences found, by scenario: at which step, and what."""


def _listed(name: str) -> dict[str, str]:
    """The scenarios that a file lists, and its reasons."""
    lines = (HERE / name).read_text().splitlines()
    entries = (line.partition(" ") for line in lines if line and not line.startswith("#"))
    return {title: reason.strip() for title, _, reason in entries}


RUN = load_script("run.py")
NOT_YET = _listed("not_yet.txt")
NOT_IN_PROCESS = _listed("not_in_process.txt")
SCENARIOS: dict[str, Any] = {s.title: s for s in RUN.load(HERE / "scenarios", "*", "rare")}


@pytest.fixture(scope="session")
def over_http(request: pytest.FixtureRequest) -> Results:
    """The differences found over HTTP in each scenario that this session asks for."""
    with warnings.catch_warnings():
        # run.py leaves its sockets to the end of the process
        warnings.simplefilter("ignore", ResourceWarning)
        with start_blocking_portal() as portal, portal.wrap_async_context_manager(serving()) as url:
            results = _converse(RUN.Client(url, TOKEN), _asked_for(request, "over_http"))
        gc.collect()
    return results


@pytest.fixture(scope="session")
def in_process(request: pytest.FixtureRequest) -> Results:
    """The differences found in process in each scenario that this session asks for."""
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(running()) as server:
        client = InProcessClient(portal, InProcessTransport(server), RUN.Client.read)
        return _converse(client, _asked_for(request, "in_process"))


def _asked_for(request: pytest.FixtureRequest, fixture: str) -> list[str]:
    asked = {
        item.callspec.params["title"]
        for item in request.session.items
        if fixture in getattr(item, "fixturenames", ())
    }
    return sorted(asked)


def _converse(client: Any, titles: list[str]) -> Results:
    scenarios = [_impatient(title) for title in titles]
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        list(pool.map(lambda scenario: RUN.Run(scenario, client, False).execute(), scenarios))
    return {scenario.title: scenario.failures for scenario in scenarios}


def _impatient(title: str) -> Any:
    """A scenario with its waits for other controllers cut short: here what is to happen happens at once."""
    scenario = RUN.Scenario(SCENARIOS[title].path, deepcopy(SCENARIOS[title].doc))
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
def test_the_server_answers_like_a_real_one(title: str, over_http: Results) -> None:
    assert not over_http[title], _told(over_http[title])


@pytest.mark.timeout(120)
@pytest.mark.parametrize("title", [_parameter(title) for title in SCENARIOS if title not in NOT_IN_PROCESS])
def test_in_process_the_server_answers_like_a_real_one(title: str, in_process: Results) -> None:
    assert not in_process[title], _told(in_process[title])


def _told(differences: list[tuple[str, str]]) -> str:
    return "\n".join(f"[{step}] {problem}" for step, problem in differences)


def test_every_nonconformant_scenario_exists_and_has_a_reason() -> None:
    assert set(NOT_YET) | set(NOT_IN_PROCESS) <= set(SCENARIOS)
    assert all(NOT_YET.values())
    assert all(NOT_IN_PROCESS.values())


def test_the_features_that_nearly_every_controller_needs_are_conformant() -> None:
    areas = {"crud", "concurrency", "metadata", "subresources", "watch"}
    must = {s.title for s in SCENARIOS.values() if s.doc["area"] in areas and s.doc["level"] == "must"}
    assert must
    assert not must & set(NOT_YET)
