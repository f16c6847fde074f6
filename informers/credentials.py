"""Credentials for an API server: what requests present, kept fresh while a transport lives.

Where they come from is a `CredentialSource`: a pod's account (`informers.service_account`), or a context of a
kubeconfig (`informers.kubeconfig_credentials`).
"""

import asyncio
import ssl
from typing import Protocol

import anyio
from attrs import field, frozen

from informers.cluster_connection import ConfigurationProblem
from informers.logs import get_logger
from informers.memory_files import as_file

# How often a token file is read again; the service account's is rewritten long before its token ends.
REREAD_SECONDS = 60.0

_log = get_logger(__name__)


@frozen
class Proof:
    """What a request presents to the server: an Authorization header, certificates, or both.

    `certificates` are PEM: the authority that the server's certificate is checked by, ours, and its key.
    """

    authorization: str | None = field(repr=False)
    certificates: tuple[bytes | None, ...] = field(repr=False)


class CredentialSource(Protocol):
    """Where the credentials of one cluster come from."""

    @property
    def proxy(self) -> str | None:
        """The proxy that the configuration names."""

    @property
    def tls_server_name(self) -> str | None:
        """The name that the server's certificate must bear, if not that of the host."""

    @property
    def verifies(self) -> bool:
        """Whether the server's certificate is checked."""

    @property
    def ages(self) -> bool:
        """Whether to look again now and then; otherwise only after a refusal."""

    @property
    def slow(self) -> bool:
        """Whether a look takes so long that requests should go on meanwhile."""

    async def look(self, refused: bool) -> Proof:
        """Read the credentials again. `refused`: the server refused the last, however fresh they seem.

        May raise anything; the last credentials are used then.
        """

    def close(self) -> None:
        """End a look in progress."""


class Credentials:
    """The credentials of one cluster, kept fresh. `proof` is what its source had at first."""

    def __init__(self, source: CredentialSource, proof: Proof) -> None:
        self._source = source
        self._found = proof
        self._due: float | None = None
        self._renewal = anyio.Lock()
        self._beside: asyncio.Task[None] | None = None

    @property
    def proxy(self) -> str | None:
        """The proxy that the configuration names."""
        return self._source.proxy

    @property
    def tls_server_name(self) -> str | None:
        """The name that the server's certificate must bear, if not that of the host."""
        return self._source.tls_server_name

    @property
    def certificates(self) -> tuple[bytes | None, ...]:
        """Those of a `Proof`, as last read."""
        return self._found.certificates

    def tls(self) -> ssl.SSLContext:
        """The TLS context with our certificate. Verifies the server unless the kubeconfig says not to."""
        authority, certificate, key = self.certificates
        try:
            # Without any authority the system's are trusted, and an empty one must not count as none.
            if authority is not None and not authority.strip():
                raise ValueError("the certificate authority is empty")
            context = ssl.create_default_context(cadata=None if authority is None else authority.decode())
            if certificate is not None:
                with as_file(certificate) as certificate_file, as_file(key or certificate) as key_file:
                    context.load_cert_chain(certificate_file, key_file, password=_no_passphrase)
        except (OSError, ValueError) as error:
            raise ConfigurationProblem(
                f"the certificates for the API server cannot be used: {one_line(error)}"
            ) from error
        # Newer Pythons ask more of a CA than Go does, and of clusters' CAs many have not got it.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if not self._source.verifies:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context

    async def proof(self) -> Proof:
        """The proof for the next request; looks again once a minute, where the source ages."""
        now = anyio.current_time()
        if self._due is None:
            self._due = now + REREAD_SECONDS
        if now >= self._due and self._source.ages:
            self._due = now + REREAD_SECONDS
            if self._source.slow:
                self._renew_beside()
            else:
                await self._look_quietly()
        return self._found

    async def renew(self, refused: Proof) -> bool:
        """Look again after a 401; returns whether the credentials differ from those that were refused.

        Of many requests refused at once the first looks, and the others take what it found.
        """
        async with self._renewal:
            if self._found == refused:
                try:
                    self._found = await self._source.look(refused=True)
                except Exception as error:
                    _log.warning("refused by the server, and no other credentials", error=one_line(error))
            return self._found != refused

    def _renew_beside(self) -> None:
        """Look again while requests go on with the present credentials. One look at a time."""
        if self._beside is None or self._beside.done():
            # No task group lives as long as these credentials do.
            self._beside = asyncio.create_task(self._renew_in_turn())

    async def _renew_in_turn(self) -> None:
        async with self._renewal:
            await self._look_quietly()

    async def _look_quietly(self) -> None:
        try:
            self._found = await self._source.look(refused=False)
        except Exception as error:
            _log.warning("the token was not renewed; the last one is still used", error=one_line(error))

    async def aclose(self) -> None:
        """Stop renewing: a running plugin is killed."""
        self._source.close()
        if self._beside is not None:
            self._beside.cancel()
            await asyncio.wait([self._beside])


def one_line(error: Exception) -> str:
    """The text of an error without line breaks; its type where it has none."""
    return " ".join(str(error).split()) or type(error).__name__


def _no_passphrase() -> str:
    """Prevents a question at the terminal."""
    raise ValueError("the client's key is encrypted: a kubeconfig has no place for a passphrase")
