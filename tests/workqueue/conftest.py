"""Tests marked `anyio` run on asyncio, uvloop and trio; those that `simulate` on asyncio and trio."""

import pytest

from reconcile.testing.virtual_time import simulate as simulate_asyncio
from tests.workqueue.helpers import Simulate, simulate_trio
from workqueue import WorkQueue

BACKENDS = ("asyncio", "trio")
UVLOOP = pytest.param(("asyncio", {"use_uvloop": True}), id="uvloop")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Once for each event loop. Virtual time has loops of its own, and uvloop is none of them."""
    if "anyio_backend" in metafunc.fixturenames:
        virtual = "simulate" in metafunc.fixturenames
        metafunc.parametrize("anyio_backend", BACKENDS if virtual else (*BACKENDS, UVLOOP), scope="module")


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return BACKENDS[0]


@pytest.fixture(scope="module")
def simulate(anyio_backend: str) -> Simulate:
    return simulate_asyncio if anyio_backend == "asyncio" else simulate_trio


@pytest.fixture
def queue() -> WorkQueue[str]:
    return WorkQueue()
