"""What commands change in the process that they run in, changed back."""

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    for name in ("reconcile", "informers", "workqueue", "asyncio", "aiohttp.access"):
        logging.getLogger(name).setLevel(logging.NOTSET)
