"""What commands change in the process that they run in, changed back; and places for them to run in."""

import logging
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconcile.testing.control_plane import ServerEndpoint, embedded


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    for name in ("reconcile", "informers", "workqueue", "asyncio", "aiohttp.access"):
        logging.getLogger(name).setLevel(logging.NOTSET)


@pytest.fixture(autouse=True)
def modules_as_they_were(tmp_path: Path) -> Iterator[None]:
    """What was imported from the test's folder is forgotten: another test has modules of the same names."""
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", None)).startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.fixture
def cluster() -> Iterator[ServerEndpoint]:
    with embedded() as endpoint:
        yield endpoint


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current one, from which modules are imported."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path
