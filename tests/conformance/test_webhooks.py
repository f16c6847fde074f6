"""Every recorded conversation about webhooks and policies with a real server, held with the embedded one.

The server speaks HTTP, and calls the host of the recordings over HTTPS. All scenarios run side by side before
the first test; each test is then about its own scenario.
"""

import sys
from typing import Any

import pytest

from tests.conformance.served import HERE, TOKEN, Results, differences, load_script, serving_scripts

# No namespace ends while another scenario has objects that cannot be converted.
PATIENCE = 20.0


def _load_player() -> Any:
    """The script webhooks/run.py, which finds its host beside it, and reads the fixtures there."""
    sys.path.insert(0, str(HERE / "webhooks"))
    try:
        player = load_script("webhooks/run.py")
    finally:
        sys.path.pop(0)
    player.base.HERE = player.HERE
    return player


PLAYER = _load_player()
RECORDED = HERE / "webhooks" / "scenarios"
SCENARIOS: dict[str, Any] = {s.title: s for s in PLAYER.base.load(RECORDED, "*", "rare")}


class _Run(PLAYER.Run):  # type: ignore[misc,name-defined]
    """Goes on at once where a real server takes a second until a configuration is in force."""

    def _settle(self, kinds: set[str]) -> None:
        pass

    def _compare_calls(self, step: dict[str, Any]) -> list[str]:
        # A garbage collector repeats a denied deletion, also while the scenario reads the object.
        denied = self.scenario.title == "validating/garbage-collector" and step["id"] == "held"
        return super()._compare_calls({**step, "calls": "any"} if denied else step)


@pytest.fixture(scope="session")
def found(request: pytest.FixtureRequest) -> Results:
    """The differences found in each scenario that this session asks for."""
    host = PLAYER.Host()
    with serving_scripts() as url:
        client = PLAYER.base.Client(url, TOKEN)
        return differences(request, SCENARIOS, lambda one: _Run(host, one, client, False).execute(), PATIENCE)


@pytest.mark.timeout(180)
@pytest.mark.parametrize("title", SCENARIOS)
def test_the_server_calls_and_answers_like_a_real_one(title: str, found: Results) -> None:
    assert not found[title], found[title]
