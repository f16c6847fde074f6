"""A serving certificate that is replaced while it is in use, as cert-manager and kubelets replace it."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from attrs import define, field

from informers import get_logger

CERTIFICATE, KEY = "tls.crt", "tls.key"
LOOK_SECONDS = 10.0
"""Between two checks of the files, as in controller-runtime's certwatcher."""

_log = get_logger("reconcile.serving")


class NoCertificate(Exception):
    """The files are missing, or are not a certificate with its key."""


@define(eq=False)
class RotatingCertificate:
    """The certificate in `folder`; `on_read` gets the success of each reading. Raises NoCertificate."""

    folder: Path
    on_read: Callable[[bool], None] = lambda succeeded: None
    context: ssl.SSLContext = field(init=False)
    _shown: tuple[bytes, bytes] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.context = _context()
        self._shown = self._read()
        self._load(self.context)
        self.on_read(True)

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
            # Once a context has a certificate without its key, no handshake succeeds: try a new one first.
            self._load(_context())
            self._load(self.context)
        except NoCertificate as error:
            self.on_read(False)
            _log.warning("the certificate was not replaced", folder=str(self.folder), error=str(error))
            return
        self._shown = found
        self.on_read(True)
        _log.info("the certificate was replaced", folder=str(self.folder))

    def _read(self) -> tuple[bytes, bytes]:
        try:
            return (self.folder / CERTIFICATE).read_bytes(), (self.folder / KEY).read_bytes()
        except OSError as error:
            raise NoCertificate(f"cannot read {error.filename}: {error.strerror}") from None

    def _load(self, context: ssl.SSLContext) -> None:
        try:
            context.load_cert_chain(self.folder / CERTIFICATE, self.folder / KEY)
        except (ssl.SSLError, OSError) as error:
            why = getattr(error, "reason", None) or error.strerror or "not usable"
            raise NoCertificate(f"{CERTIFICATE} and {KEY} in {self.folder}: {why}") from None


@asynccontextmanager
async def rotating(
    folder: Path, on_read: Callable[[bool], None] = lambda succeeded: None
) -> AsyncIterator[RotatingCertificate]:
    """The certificate in `folder`, watched while inside. Raises NoCertificate."""
    certificate = RotatingCertificate(folder, on_read)
    watching = asyncio.create_task(certificate.watch(), name="certificates")
    try:
        yield certificate
    finally:
        watching.cancel()
        await asyncio.wait([watching])


def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context
