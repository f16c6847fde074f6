"""Every recorded conversation with a real API server, held with the embedded one: over HTTP and in process.

All scenarios run side by side before the first test; each test is then about its own scenario.
"""

from typing import Any

import pytest
from anyio.from_thread import start_blocking_portal

from reconcile.embedded import InProcessTransport
from tests.conformance.in_process import InProcessClient
from tests.conformance.served import HERE, TOKEN, Results, differences, load_script, running, serving_scripts

PATIENCE = 3.0

RUN = load_script("run.py")
SCENARIOS: dict[str, Any] = {s.title: s for s in RUN.load(HERE / "scenarios", "*", "rare")}
# In process the user is given to the transport, and no token is asked for.
OF_CONNECTIONS = {"auth/unauthenticated"}


@pytest.fixture(scope="session")
def over_http(request: pytest.FixtureRequest) -> Results:
    """The differences found over HTTP in each scenario that this session asks for."""
    with serving_scripts() as url:
        return _converse(request, RUN.Client(url, TOKEN))


@pytest.fixture(scope="session")
def in_process(request: pytest.FixtureRequest) -> Results:
    """The differences found in process in each scenario that this session asks for."""
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(running()) as server:
        client = InProcessClient(portal, InProcessTransport(server), RUN.Client.read)
        return _converse(request, client)


def _converse(request: pytest.FixtureRequest, client: Any) -> Results:
    return differences(request, SCENARIOS, lambda one: RUN.Run(one, client, False).execute(), PATIENCE)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("title", SCENARIOS)
def test_the_server_answers_like_a_real_one(title: str, over_http: Results) -> None:
    assert not over_http[title], over_http[title]


@pytest.mark.timeout(120)
@pytest.mark.parametrize("title", [title for title in SCENARIOS if title not in OF_CONNECTIONS])
def test_in_process_the_server_answers_like_a_real_one(title: str, in_process: Results) -> None:
    assert not in_process[title], in_process[title]
