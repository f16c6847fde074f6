"""Settings that every test shares, and the event loops in which async tests run.

Those of ON_EVERY_LOOP run on asyncio and on uvloop. With EVENT_LOOP=uvloop in the environment all of them run
on uvloop, except where time is virtual: a virtual loop is asyncio's.
"""

import asyncio
import gc
import os
from collections.abc import Callable, Mapping

import pytest
import uvloop
from hypothesis import Phase, settings

LOOPS: Mapping[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}
ON_EVERY_LOOP = ("test_kubernetes_transport.py", "test_event_loops.py")

# Shared machines stall for longer than any deadline that a test would want.
settings.register_profile("default", deadline=None, print_blob=True)
# A mutant is noticed by a test that fails: nobody looks at the smallest example.
settings.register_profile(
    "mutants",
    settings.get_profile("default"),
    max_examples=20,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate, Phase.target],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One process more than cores for `-n auto`: many tests wait, for other processes or for time to pass."""
    return (os.cpu_count() or 1) + 1


def pytest_collection_finish() -> None:
    """Keep the collector from looking through what stays: all modules, tests and caches of the suite.

    A full collection takes longer than most tests otherwise, and counts in those that measure time. Young
    objects are looked through seldom, since a test drops a whole simulated cluster at once.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The loops in which pytest-asyncio runs a test: once in each."""
    if item.path.name in ON_EVERY_LOOP:
        return LOOPS
    wanted = os.environ.get("EVENT_LOOP", "asyncio")
    return {wanted: LOOPS[wanted]}
