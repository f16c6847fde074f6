"""The embedded server for the scripts that replay recordings, and the scripts themselves."""

import importlib.util
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType

from reconcile.embedded import ApiServer
from reconcile.embedded.http import serve
from tests.helpers.tasks import beside

HERE = Path(__file__).parent
TOKEN = "conformance"
PAGE = HERE.parent.parent / "docs" / "reference" / "recorded-objects.md"
"""Lists what differs, and why."""


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
