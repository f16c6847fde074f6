"""Who we are to an API server. The only module that imports kubernetes-asyncio, and only when it connects.

The library knows kubeconfigs, service accounts, exec plugins and cloud tokens. It loads them once; that a
token ages and a plugin has to run again is seen to here.
"""

import asyncio
import os
import ssl
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import anyio
from attrs import field, frozen

from informers.kubeconfig import SERVICE_ACCOUNT, ConfigurationProblem, Connection, is_loopback
from informers.logs import get_logger

# How often a token file is read again; the service account's is rewritten long before its token ends.
REREAD_SECONDS = 60.0
# How long closing waits for a plugin, of which nothing but its own end leaves no process behind.
PATIENCE_SECONDS = 2.0

_log = get_logger(__name__)

Reload = Callable[[bool], Awaitable[None]]


@frozen
class Proof:
    """What a request shows the server: an Authorization header, certificates, or both."""

    authorization: str | None
    certificates: tuple[bytes | None, ...] = field(repr=False)


class Credentials:
    """The library's configuration of one cluster, kept fresh. Made by `load` or `load_in_cluster`.

    `reload(refused)` has the library look again: `refused` says that the server refused what it found
    the last time, however fresh that seems. `certificates` are those of a `Proof` as last read.
    """

    def __init__(self, configuration: Any, reload: Reload) -> None:
        self._configuration = configuration
        self._reload = reload
        self._renewal = anyio.Lock()
        self._beside: asyncio.Task[None] | None = None
        self.certificates = self._read_certificates()

    @property
    def proxy(self) -> str | None:
        """The kubeconfig's `proxy-url`."""
        return self._configuration.proxy or None

    @property
    def tls_server_name(self) -> str | None:
        """The name that the server's certificate must bear where it is not the host's."""
        return self._configuration.tls_server_name or None

    def tls(self) -> ssl.SSLContext:
        """What the server must prove, and our certificate. Verifies unless the kubeconfig says not to."""
        configuration = self._configuration
        try:
            context = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
            if configuration.cert_file:
                context.load_cert_chain(configuration.cert_file, keyfile=configuration.key_file)
        except (OSError, ValueError) as error:
            raise ConfigurationProblem(
                f"the certificates for the API server cannot be used: {_one_line(error)}"
            ) from error
        # Newer Pythons ask more of a CA than Go does, and of clusters' CAs many have not got it.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if not configuration.verify_ssl:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context

    async def proof(self) -> Proof:
        """What to show with the next request. Ageing tokens are renewed on the way."""
        try:
            await self._configuration.get_api_key_with_prefix("BearerToken")
        except Exception as error:
            _log.warning("token not renewed, the last one is used on", error=_one_line(error))
        return self._found()

    async def look_again(self, refused: bool) -> None:
        """Read token files again, and run a plugin whose token has aged or was refused."""
        await self._reload(refused)
        self.certificates = self._read_certificates()

    async def renew(self, refused: Proof) -> bool:
        """Look again after a 401. True where there is now something else than what was refused.

        Many requests may be refused at once: the first looks, the others take what it found.
        """
        async with self._renewal:
            if self._found() == refused:
                try:
                    await self.look_again(refused=True)
                except Exception as error:
                    _log.warning("refused by the server, and no other credentials", error=_one_line(error))
            return self._found() != refused

    def renew_beside(self) -> None:
        """Look again while requests go on with what there is. One look at a time."""
        if self._beside is None or self._beside.done():
            # No task group lives as long as these credentials do.
            self._beside = asyncio.create_task(self._renew_quietly())

    async def _renew_quietly(self) -> None:
        async with self._renewal:
            try:
                await self.look_again(refused=False)
            except Exception as error:
                _log.warning("token not renewed, the last one is used on", error=_one_line(error))

    async def aclose(self) -> None:
        """Look no more; a plugin that runs is given a little time to end."""
        if self._beside is not None:
            await asyncio.wait([self._beside], timeout=PATIENCE_SECONDS)
            self._beside.cancel()

    def _found(self) -> Proof:
        token = self._configuration.api_key.get("BearerToken")
        return Proof(token.strip() if token else None, self.certificates)

    def _read_certificates(self) -> tuple[bytes | None, ...]:
        configuration = self._configuration
        names = (configuration.ssl_ca_cert, configuration.cert_file, configuration.key_file)
        return tuple(Path(name).read_bytes() if name and Path(name).is_file() else None for name in names)


async def load(paths: Sequence[Path], context: str) -> Credentials:
    """Those of a kubeconfig's context. The kubeconfig is never written, even where a plugin renews in it."""
    from kubernetes_asyncio.client import Configuration
    from kubernetes_asyncio.config import load_kube_config

    configuration = Configuration()
    try:
        loader = await load_kube_config(
            config_file=os.pathsep.join(str(path) for path in paths),
            context=context,
            client_configuration=configuration,
            persist_config=False,
        )
    except Exception as error:
        raise ConfigurationProblem(f"context {context} cannot be used: {_one_line(error)}") from error

    async def reload(refused: bool) -> None:
        if refused:
            # The plugin's own idea of how long its token lives; without it the plugin runs again.
            vars(loader).pop("exec_plugin_expiry", None)
        await loader.load_and_set(configuration)

    credentials = Credentials(configuration, reload)
    configuration.refresh_api_key_hook = _now_and_then(loader, credentials)
    return credentials


def load_in_cluster() -> tuple[Connection, Credentials]:
    """Those of the pod that this process runs in."""
    from kubernetes_asyncio.client import Configuration
    from kubernetes_asyncio.config.incluster_config import InClusterConfigLoader

    configuration = Configuration()
    loader = InClusterConfigLoader(str(SERVICE_ACCOUNT / "token"), str(SERVICE_ACCOUNT / "ca.crt"))
    try:
        loader.load_and_set(configuration)
        namespace = (SERVICE_ACCOUNT / "namespace").read_text().strip()
    except Exception as error:
        raise ConfigurationProblem(f"the pod's service account cannot be used: {_one_line(error)}") from error

    async def reload(refused: bool) -> None:
        loader.load_and_set(configuration)

    server = str(configuration.host)
    connection = Connection("in-cluster", server, namespace, is_loopback(server))
    return connection, Credentials(configuration, reload)


def _now_and_then(loader: Any, credentials: Credentials) -> Callable[[Any], Awaitable[None]]:
    """The library's hook before each request: reads token files and renews ageing tokens, once a minute."""
    due = anyio.current_time() + REREAD_SECONDS

    async def hook(_: Any) -> None:
        nonlocal due
        now = anyio.current_time()
        if now < due or _lasts_until_refused(loader):
            return
        due = now + REREAD_SECONDS
        if _runs_a_plugin(loader):
            # The library holds a token to be old five minutes before it ends: nobody need wait for another.
            credentials.renew_beside()
        else:
            await credentials.look_again(refused=False)

    return hook


def _runs_a_plugin(loader: Any) -> bool:
    user = getattr(loader, "_user", None)
    return user is not None and "exec" in user


def _lasts_until_refused(loader: Any) -> bool:
    """Whether an exec plugin gave a token without saying how long it lives."""
    return _runs_a_plugin(loader) and not hasattr(loader, "exec_plugin_expiry")


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
