"""Tests marked `anyio`, and those that `simulate`, run on asyncio and on trio."""

import pytest

from reconcile.testing.loop import simulate as simulate_asyncio
from tests.workqueue.helpers import Simulate, simulate_trio


@pytest.fixture(params=["asyncio", "trio"], scope="module")
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def simulate(anyio_backend: str) -> Simulate:
    return simulate_asyncio if anyio_backend == "asyncio" else simulate_trio
