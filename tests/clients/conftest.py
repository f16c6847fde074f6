"""One embedded server over HTTPS, in a thread of its own, for clients that block."""

import gc
import warnings
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from anyio.from_thread import start_blocking_portal

from reconcile.embedded import ApiServer
from reconcile.embedded.http import serve
from reconcile.embedded.listener.admin_kubeconfig import write_kubeconfig


@asynccontextmanager
async def _serving(kubeconfig: Path) -> AsyncIterator[None]:
    server = ApiServer()
    async with anyio.create_task_group() as tasks, serve(server, token="clients") as face:
        tasks.start_soon(server.run)
        write_kubeconfig(kubeconfig, face.url, face.ca_pem, face.token)
        yield
        tasks.cancel_scope.cancel()


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The kubeconfig of a server that the tests of one client share."""
    path = tmp_path_factory.mktemp("cluster") / "kubeconfig"
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(_serving(path)):
        yield path
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # what clients leave open ends with the server
        gc.collect()
