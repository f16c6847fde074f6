"""The embedded server for the scripts that replay recordings, and the scripts themselves."""

import gc
import importlib.util
import sys
import warnings
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from copy import deepcopy
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from anyio.from_thread import start_blocking_portal

from reconcile.embedded import ApiServer
from reconcile.embedded.http import serve
from tests.helpers.tasks import beside

HERE = Path(__file__).parent
TOKEN = "conformance"
PAGE = HERE.parent.parent / "docs" / "reference" / "recorded-objects.md"
"""Lists what differs, and why."""

SIDE_BY_SIDE = 32
QUIET = 2.0

Results = dict[str, str]
"""The differences found, by scenario: a line for each, with its step."""


def load_script(path: str) -> ModuleType:
    """A script beside this file, which is no module of a package."""
    name = f"conformance_{path.replace('/', '_').removesuffix('.py')}"
    spec = importlib.util.spec_from_file_location(name, HERE / path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclasses look themselves up there
    spec.loader.exec_module(module)
    return module


@asynccontextmanager
async def running() -> AsyncIterator[ApiServer]:
    server = ApiServer()
    async with beside(server.run):
        yield server


@asynccontextmanager
async def serving() -> AsyncIterator[str]:
    """The embedded server over HTTP, and its URL."""
    async with running() as server, serve(server, tls=False, token=TOKEN) as face:
        yield face.url


@contextmanager
def serving_scripts() -> Iterator[str]:
    """The URL of an embedded server, for scripts that leave their sockets to the end of the process."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        with start_blocking_portal() as portal, portal.wrap_async_context_manager(serving()) as url:
            yield url
        gc.collect()


# --- scenarios --------------------------------------------------------------------------------


def differences(
    request: pytest.FixtureRequest,
    scenarios: Mapping[str, Any],
    play: Callable[[Any], object],
    patience: float,
) -> Results:
    """What differs in those scenarios, by title, for which this session has tests with the fixture.

    They are played side by side, each with at most `patience` for a wait.
    """
    # Another module of the session may have a fixture of that name, and no titles.
    items = [one for one in request.session.items if request.fixturename in getattr(one, "fixturenames", ())]
    asked = {one.callspec.params.get("title") for one in items if hasattr(one, "callspec")}
    impatient = [_impatient(one, patience) for title, one in scenarios.items() if title in asked]
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        list(pool.map(play, impatient))
    return {one.title: "\n".join(f"[{step}] {what}" for step, what in one.failures) for one in impatient}


def _impatient(scenario: Any, patience: float) -> Any:
    """A copy with waits for other controllers cut short: here what is to happen happens at once."""
    copy = type(scenario)(scenario.path, deepcopy(scenario.doc))
    for step in copy.doc["steps"]:
        if "sleep" in step:
            step["sleep"] = min(step["sleep"], QUIET)
        for waiting in (step.get("retry"), step.get("calls")):
            if isinstance(waiting, dict) and "seconds" in waiting:
                waiting["seconds"] = min(waiting["seconds"], patience)
    return copy
