"""Async tests of this folder run under virtual time: the way an operator's own tests would ask for it."""

import functools
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from reconcile.testing.virtual_time import VirtualTimeLoop


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], VirtualTimeLoop]] | None:
    """The event loop under which pytest-asyncio runs a test."""
    if Path(__file__).parent not in item.path.parents:
        return None
    return {"virtual": functools.partial(VirtualTimeLoop, limit_seconds=24 * 3600)}
