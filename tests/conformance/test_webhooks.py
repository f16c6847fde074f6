"""Every recorded conversation about webhooks and policies with a real server, held with the embedded one.

The server speaks HTTP, and calls the host of the recordings over HTTPS. All scenarios run side by side before
the first test; each test is then about its own scenario. What is not conformant yet stands in
webhooks_not_yet.txt with a reason, and must leave it when it becomes so.
"""

import gc
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from typing import Any

import pytest
from anyio.from_thread import start_blocking_portal

from tests.conformance.served import HERE, TOKEN, load_script, serving

SIDE_BY_SIDE = 32
# No namespace ends while another scenario has objects that cannot be converted.
PATIENCE = 20.0
QUIET = 2.0

Results = dict[str, list[tuple[str, str]]]
"""The differences found, by scenario: at which step, and what."""


def _load_player() -> Any:
    """The script webhooks/run.py, which finds its host beside it, and reads the fixtures there."""
    sys.path.insert(0, str(HERE / "webhooks"))
    try:
        player = load_script("webhooks/run.py")
    finally:
        sys.path.pop(0)
    player.base.HERE = player.HERE
    return player


def _not_yet() -> dict[str, str]:
    lines = (HERE / "webhooks_not_yet.txt").read_text().splitlines()
    entries = (line.partition(" ") for line in lines if line and not line.startswith("#"))
    return {title: reason.strip() for title, _, reason in entries}


PLAYER = _load_player()
NOT_YET = _not_yet()
RECORDED = HERE / "webhooks" / "scenarios"
SCENARIOS: dict[str, Any] = {s.title: s for s in PLAYER.base.load(RECORDED, "*", "rare")}


class _Run(PLAYER.Run):  # type: ignore[misc,name-defined]
    """Goes on at once where a real server takes a second until a configuration is in force."""

    def _settle(self, kinds: set[str]) -> None:
        pass


@pytest.fixture(scope="session")
def differences(request: pytest.FixtureRequest) -> Results:
    """The differences found in each scenario that this session asks for."""
    asked = {
        item.callspec.params["title"]
        for item in request.session.items
        if "differences" in getattr(item, "fixturenames", ())
    }
    scenarios = [_impatient(title) for title in sorted(asked)]
    host = PLAYER.Host()
    with warnings.catch_warnings():
        # the scripts leave their sockets to the end of the process
        warnings.simplefilter("ignore", ResourceWarning)
        with start_blocking_portal() as portal, portal.wrap_async_context_manager(serving()) as url:
            client = PLAYER.base.Client(url, TOKEN)
            with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
                list(pool.map(lambda scenario: _Run(host, scenario, client, False).execute(), scenarios))
        gc.collect()
    return {scenario.title: scenario.failures for scenario in scenarios}


def _impatient(title: str) -> Any:
    """A scenario with its waits for other controllers cut short: here what is to happen happens at once."""
    scenario = PLAYER.base.Scenario(SCENARIOS[title].path, deepcopy(SCENARIOS[title].doc))
    for step in scenario.doc["steps"]:
        if "sleep" in step:
            step["sleep"] = min(step["sleep"], QUIET)
        for waiting in (step.get("retry", {}), step.get("calls", {})):
            if isinstance(waiting, dict) and "seconds" in waiting:
                waiting["seconds"] = min(waiting["seconds"], PATIENCE)
    return scenario


def _parameter(title: str) -> Any:
    if title in NOT_YET:
        mark = pytest.mark.xfail(reason=NOT_YET[title], raises=AssertionError, strict=True)
        return pytest.param(title, id=title, marks=mark)
    return pytest.param(title, id=title)


@pytest.mark.timeout(180)
@pytest.mark.parametrize("title", [_parameter(title) for title in SCENARIOS])
def test_the_server_calls_and_answers_like_a_real_one(title: str, differences: Results) -> None:
    assert not differences[title], "\n".join(f"[{step}] {problem}" for step, problem in differences[title])


def test_every_nonconformant_scenario_exists_and_has_a_reason() -> None:
    assert set(NOT_YET) <= set(SCENARIOS)
    assert all(NOT_YET.values())
