"""A serving certificate that is replaced while it is in use, as cert-manager and kubelets do it."""

import ssl
from collections.abc import Callable
from pathlib import Path

import anyio
from attrs import define, field

from informers import get_logger

CERTIFICATE, KEY = "tls.crt", "tls.key"
LOOK_SECONDS = 10.0
"""Seconds between two looks at the files (controller-runtime's certwatcher)."""

_log = get_logger("reconcile.serving")


class NoCertificate(Exception):
    """The files are not there, or are no certificate with its key."""


def _ignore(read: bool) -> None: ...


@define(eq=False)
class RotatingCertificate:
    """What `tls.crt` and `tls.key` in `folder` hold; `context` serves with what was read last.

    `told` hears of each attempt to read them: whether it succeeded. Raises NoCertificate at the start.
    """

    folder: Path
    told: Callable[[bool], None] = _ignore
    context: ssl.SSLContext = field(init=False)
    _shown: tuple[bytes, bytes] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.context = _context()
        self._shown = self._read()
        self._load(self.context)
        self.told(True)

    async def watch(self) -> None:
        """Take new ones for new connections, until cancelled; what is of no use is logged and left."""
        while True:
            await anyio.sleep(LOOK_SECONDS)
            await anyio.to_thread.run_sync(self.look)

    def look(self) -> None:
        """Take what the files hold now, if that has changed."""
        try:
            found = self._read()
            if found == self._shown:
                return
            # A context that was given a certificate without its key would serve nobody: try it out first.
            self._load(_context())
            self._load(self.context)
        except NoCertificate as error:
            self.told(False)
            _log.warning("the certificate was not replaced", folder=str(self.folder), error=str(error))
            return
        self._shown = found
        self.told(True)
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
            why = getattr(error, "reason", None) or error.strerror or "they are of no use"
            raise NoCertificate(f"{CERTIFICATE} and {KEY} in {self.folder}: {why}") from None


def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context
