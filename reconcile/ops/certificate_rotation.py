"""A serving certificate that is replaced while it is in use, as cert-manager and kubelets replace it."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from attrs import define, field

from informers import get_logger
from reconcile.ops.serving_context import ServingContext

CERTIFICATE, KEY = "tls.crt", "tls.key"
LOOK_SECONDS = 10.0
"""Between two checks of the files, as in controller-runtime's certwatcher."""

_log = get_logger("reconcile.serving")


class NoCertificate(Exception):
    """The files are missing, or are not a certificate with its key."""


@define(eq=False)
class RotatingCertificate:
    """The certificate in `folder`. Raises NoCertificate.

    `on_read` gets the success of each reading, and `on_shown` each certificate that is served from then on.
    """

    folder: Path
    on_read: Callable[[bool], None] = lambda succeeded: None
    on_shown: Callable[[bytes], None] = lambda certificate: None
    _serving: ServingContext = field(factory=ServingContext, init=False)
    _shown: tuple[bytes, bytes] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._show(self._read())

    @property
    def context(self) -> ssl.SSLContext:
        """The same at all times; new connections get the certificate that was read last."""
        return self._serving.context

    async def watch(self) -> None:
        """Reload for new connections, until cancelled; files that are not usable are logged and skipped."""
        while True:
            await anyio.sleep(LOOK_SECONDS)
            await anyio.to_thread.run_sync(self.look)

    def look(self) -> None:
        try:
            found = self._read()
            if found == self._shown:
                return
            self._show(found)
        except NoCertificate as error:
            self.on_read(False)
            _log.warning("the certificate was not replaced", folder=str(self.folder), error=str(error))
            return
        _log.info("the certificate was replaced", folder=str(self.folder))

    def _read(self) -> tuple[bytes, bytes]:
        try:
            return (self.folder / CERTIFICATE).read_bytes(), (self.folder / KEY).read_bytes()
        except OSError as error:
            raise NoCertificate(f"cannot read {error.filename}: {error.strerror}") from None

    def _show(self, found: tuple[bytes, bytes]) -> None:
        try:
            self._serving.show(self.folder / CERTIFICATE, self.folder / KEY)
        except (ssl.SSLError, OSError) as error:
            why = getattr(error, "reason", None) or error.strerror or "not usable"
            raise NoCertificate(f"{CERTIFICATE} and {KEY} in {self.folder}: {why}") from None
        self._shown = found
        self.on_read(True)
        self.on_shown(found[0])


@asynccontextmanager
async def rotating(
    folder: Path,
    on_read: Callable[[bool], None] = lambda succeeded: None,
    on_shown: Callable[[bytes], None] = lambda certificate: None,
) -> AsyncIterator[RotatingCertificate]:
    """The certificate in `folder`, watched while inside. Raises NoCertificate."""
    certificate = RotatingCertificate(folder, on_read, on_shown)
    watching = asyncio.create_task(certificate.watch(), name="certificates")
    try:
        yield certificate
    finally:
        watching.cancel()
        await asyncio.wait([watching])
