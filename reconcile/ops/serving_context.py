"""A TLS context of a server whose certificate may be replaced at any moment."""

import os
import ssl

from attrs import define, field

_Path = str | os.PathLike[str]


@define(eq=False)
class ServingContext:
    """Each handshake is made with the certificate that was shown last; open connections keep theirs.

    A certificate and its key go into a context one after the other, and a handshake in another thread between
    the two would fail. So each certificate gets a context of its own, which a handshake is moved to.
    """

    context: ssl.SSLContext = field(init=False)
    _shown: ssl.SSLContext | None = field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        self.context = _context()
        # It is called without the extension SNI too.
        self.context.sni_callback = self._move

    def show(self, certificate: _Path, key: _Path | None = None) -> None:
        """Raises ssl.SSLError and OSError, and then nothing has changed."""
        context = _context()
        context.load_cert_chain(certificate, key)
        if self._shown is None:
            # Before the first: a server takes no connection without a certificate.
            self.context.load_cert_chain(certificate, key)
        self._shown = context

    def _move(self, handshake: ssl.SSLObject, name: str | None, context: ssl.SSLContext) -> None:
        if self._shown is not None:
            handshake.context = self._shown


def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context
