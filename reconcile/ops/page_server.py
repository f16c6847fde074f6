"""Serves the pages of a manager on one port, from a thread with an event loop of its own.

So health is answered while the manager's loop is blocked.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from informers import get_logger
from reconcile.ops.certificate_rotation import NoCertificate, rotating
from reconcile.ops.loop_calls import LoopCalls
from reconcile.ops.page_connections import MAX_CONNECTIONS
from reconcile.ops.page_routes import PageRoutes, PageSources
from reconcile.ops.serving_addresses import Address, ServeError
from reconcile.ops.serving_thread import ServingThread

_DESCRIPTORS_A_CONNECTION = 4
_MOST_DESCRIPTORS = 65_536
"""More would only slow down child processes that close every descriptor they might have inherited."""
_log = get_logger("reconcile.serving")


@asynccontextmanager
async def serving(
    address: Address,
    sources: PageSources,
    certificates: Path | None = None,
    certificate_read: Callable[[bool], None] = lambda succeeded: None,
) -> AsyncIterator[Address]:
    """Serve while inside; yields the address, with the port that was chosen for 0. Raises ServeError.

    With `certificates`, a folder with tls.crt and tls.key, over TLS; they are reloaded when they change, and
    `certificate_read` gets the success of each attempt. Raises the soft limit of open files to the hard one.
    """
    if certificates is None:
        async with _serving(address, sources, None) as bound:
            yield bound
        return
    try:
        async with (
            rotating(certificates, certificate_read) as certificate,
            _serving(address, sources, certificate.context) as bound,
        ):
            yield bound
    except NoCertificate as error:
        raise ServeError(f"cannot serve on {address}: {error}") from None


@asynccontextmanager
async def _serving(
    address: Address, sources: PageSources, tls: ssl.SSLContext | None
) -> AsyncIterator[Address]:
    most = connection_limit(MAX_CONNECTIONS)
    calls = LoopCalls(asyncio.get_running_loop())
    thread = ServingThread("pages", address, PageRoutes(sources, calls).application, tls, most)
    try:
        bound = await thread.start()
        _log.info("serving", address=str(bound), tls=tls is not None)
        yield bound
    finally:
        with anyio.CancelScope(shield=True):
            # The thread first: it must not ask for calls that end already.
            await thread.stop()
            await calls.end()


def connection_limit(most: int) -> int:
    """At most `most` connections, by the limit of open files, which is raised first."""
    return max(8, min(most, _raise_descriptor_limit() // _DESCRIPTORS_A_CONNECTION))


def _raise_descriptor_limit() -> int:
    """Raise the soft limit of open files to the hard one, as Go does at the start; returns the new limit."""
    try:
        import resource
    except ImportError:  # not on this platform
        return _MOST_DESCRIPTORS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return _MOST_DESCRIPTORS
    limit = _MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _MOST_DESCRIPTORS)
    if limit <= soft:
        return soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    except (OSError, ValueError) as error:  # the kernel of macOS has a lower limit of its own
        _log.info("could not raise the limit of open files", soft=soft, hard=hard, error=str(error))
        return soft
    _log.info("raised the limit of open files", soft=limit, before=soft)
    return limit
