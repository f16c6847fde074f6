"""The embedded server for the scripts that replay recordings, and the scripts themselves."""

import gc
import importlib.util
import sys
import warnings
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
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

Results = dict[str, list[tuple[str, str]]]
"""The differences found, by scenario: at which step, and what."""


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


def asked_for(request: pytest.FixtureRequest, fixture: str) -> list[str]:
    """The titles of the tests of this session that use a fixture."""
    items = [item for item in request.session.items if fixture in getattr(item, "fixturenames", ())]
    # Another module of the session may have a fixture of that name.
    titles = [callspec.params.get("title") for item in items if (callspec := getattr(item, "callspec", None))]
    asked = {title for title in titles if title is not None}
    return sorted(asked)


def differences(scenarios: Iterable[Any], play: Callable[[Any], object], patience: float) -> Results:
    """What differs in scenarios that are played side by side, each with at most `patience` for a wait."""
    impatient = [_impatient(scenario, patience) for scenario in scenarios]
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        list(pool.map(play, impatient))
    return {scenario.title: scenario.failures for scenario in impatient}


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


def described(found: Iterable[tuple[str, str]]) -> str:
    return "\n".join(f"[{step}] {problem}" for step, problem in found)
