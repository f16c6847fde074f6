"""Credentials for an API server. Only this module imports kubernetes-asyncio, and only when connecting.

The library reads kubeconfigs, service accounts, exec plugins and cloud tokens, but only once. Renewing tokens
and running plugins again happens here.
"""

import asyncio
import base64
import os
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
from attrs import field, frozen

from informers.clock import SystemClock
from informers.exec_plugin import Plugin, PluginError
from informers.kubeconfig import SERVICE_ACCOUNT, ClusterConnection, ConfigurationProblem, is_loopback_url
from informers.logs import get_logger
from informers.memory_files import as_file

# How often a token file is read again; the service account's is rewritten long before its token ends.
REREAD_SECONDS = 60.0
_CERTIFICATES = ("ssl_ca_cert", "cert_file", "key_file")
_NOTHING: Mapping[str, bytes] = {}

# A token is renewed so long before it ends.
_AGEING = timedelta(minutes=5)

_log = get_logger(__name__)

Reload = Callable[[bool], Awaitable[None]]


@frozen
class Proof:
    """What a request presents to the server: an Authorization header, certificates, or both."""

    authorization: str | None = field(repr=False)
    certificates: tuple[bytes | None, ...] = field(repr=False)


class Credentials:
    """The library's configuration of one cluster, kept fresh. Created by `load` or `load_in_cluster`.

    `reload(refused)` has the library look again; `refused`: the server refused the last credentials, however
    fresh they seem. `held` has what did not come from files: PEM by the names of the library's fields.
    `certificates` are those of a `Proof` as last read.
    """

    def __init__(
        self,
        configuration: Any,
        reload: Reload,
        held: Mapping[str, bytes] = _NOTHING,
        plugin: Plugin | None = None,
    ) -> None:
        self._configuration = configuration
        self._reload = reload
        self._held = held
        self._plugin = plugin
        self.certificates: tuple[bytes | None, ...] = (None, None, None)
        self._renewal = anyio.Lock()
        self._beside: asyncio.Task[None] | None = None
        self.certificates = self._read_certificates()

    @property
    def proxy(self) -> str | None:
        """The kubeconfig's `proxy-url`."""
        return self._configuration.proxy or None

    @property
    def tls_server_name(self) -> str | None:
        """The name that the server's certificate must bear, if not that of the host."""
        return self._configuration.tls_server_name or None

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
                f"the certificates for the API server cannot be used: {_one_line(error)}"
            ) from error
        # Newer Pythons ask more of a CA than Go does, and of clusters' CAs many have not got it.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if not self._configuration.verify_ssl:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context

    async def proof(self) -> Proof:
        """The proof for the next request; renews a token that is about to expire."""
        try:
            await self._configuration.get_api_key_with_prefix("BearerToken")
        except Exception as error:
            _log.warning("the token was not renewed; the last one is still used", error=_one_line(error))
        return self._found()

    async def look_again(self, refused: bool) -> None:
        """Read token files again, and run a plugin whose token has aged or was refused."""
        await self._reload(refused)
        self.certificates = self._read_certificates()

    async def renew(self, refused: Proof) -> bool:
        """Look again after a 401; returns whether the credentials differ from those that were refused.

        Of many requests refused at once the first looks, and the others take what it found.
        """
        async with self._renewal:
            if self._found() == refused:
                try:
                    await self.look_again(refused=True)
                except Exception as error:
                    _log.warning("refused by the server, and no other credentials", error=_one_line(error))
            return self._found() != refused

    def renew_beside(self) -> None:
        """Look again while requests go on with the present credentials. One look at a time."""
        if self._beside is None or self._beside.done():
            # No task group lives as long as these credentials do.
            self._beside = asyncio.create_task(self._renew_quietly())

    async def _renew_quietly(self) -> None:
        async with self._renewal:
            try:
                await self.look_again(refused=False)
            except Exception as error:
                _log.warning("the token was not renewed; the last one is still used", error=_one_line(error))

    async def aclose(self) -> None:
        """Stop renewing: a running plugin is killed."""
        if self._plugin is not None:
            self._plugin.close()
        if self._beside is not None:
            self._beside.cancel()
            await asyncio.wait([self._beside])

    def _found(self) -> Proof:
        token = self._configuration.api_key.get("BearerToken")
        return Proof(token.strip() if token else None, self.certificates)

    def _read_certificates(self) -> tuple[bytes | None, ...]:
        return tuple(
            self._read(name, former) for name, former in zip(_CERTIFICATES, self.certificates, strict=True)
        )

    def _read(self, name: str, former: bytes | None) -> bytes | None:
        """A file that is being replaced may be missing for a moment: then its former content is kept."""
        if name in self._held:
            return self._held[name]
        path = getattr(self._configuration, name)
        if not path:
            return None
        return Path(path).read_bytes() if former is None or Path(path).is_file() else former


async def load(paths: Sequence[Path], context: str) -> Credentials:
    """The credentials of a kubeconfig's context. The kubeconfig is never written."""
    from kubernetes_asyncio.client import Configuration

    configuration = Configuration()
    try:
        loader = _loader(paths, context)
        await loader.load_and_set(configuration)
    except Exception as error:
        raise ConfigurationProblem(f"context {context} cannot be used: {_one_line(error)}") from error

    async def reload(refused: bool) -> None:
        if refused:
            # The plugin's own idea of how long its token lives; without it the plugin runs again.
            vars(loader).pop("exec_plugin_expiry", None)
        await loader.load_and_set(configuration)

    credentials = Credentials(configuration, reload, loader.held, loader.plugin)
    configuration.refresh_api_key_hook = _now_and_then(loader, credentials)
    return credentials


def _loader(paths: Sequence[Path], context: str) -> Any:
    """The library's loader, which writes keys to temporary files and waits for plugins without limit.

    This one keeps inline keys in memory, since such files stay when the process is killed, and limits the
    time of a plugin.
    """
    from kubernetes_asyncio.config.dateutil import parse_rfc3339
    from kubernetes_asyncio.config.exec_provider import ExecProvider
    from kubernetes_asyncio.config.kube_config import KubeConfigLoader, KubeConfigMerger

    class BoundedLoader(KubeConfigLoader):  # type: ignore[misc]
        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            self.held: dict[str, bytes] = {}
            self.plugin: Plugin | None = None
            self._take(self._cluster, "certificate-authority-data", "ssl_ca_cert")
            self._take(self._user, "client-certificate-data", "cert_file")
            self._take(self._user, "client-key-data", "key_file")
            if self._user is not None and "exec" in self._user:
                asked = ExecProvider(self._user["exec"])
                self.plugin = Plugin([str(part) for part in asked.args], asked.env, asked.api_version)

        def _take(self, section: Any, inline: str, name: str) -> None:
            if section is not None and section.safe_get(inline):
                self.held[name] = base64.standard_b64decode(section.value.pop(inline))

        async def load_from_exec_plugin(self) -> bool:
            expiry = getattr(self, "exec_plugin_expiry", None)
            if expiry is not None and expiry - SystemClock().now() > _AGEING:
                return True
            assert self.plugin is not None
            status = await self.plugin.ask()
            if not isinstance(status.get("token") or status.get("clientCertificateData"), str):
                raise PluginError(f"the plugin {self.plugin.name} printed neither a token nor a certificate")
            if status.get("token"):
                self.token = f"Bearer {status['token']}"
            if status.get("clientCertificateData"):
                if not isinstance(status.get("clientKeyData"), str):
                    raise PluginError(f"the plugin {self.plugin.name} printed a certificate without its key")
                self.held["cert_file"] = status["clientCertificateData"].encode()
                self.held["key_file"] = status["clientKeyData"].encode()
            if "expirationTimestamp" in status:
                self.exec_plugin_expiry = parse_rfc3339(status["expirationTimestamp"])
            return True

    merged = KubeConfigMerger(os.pathsep.join(str(path) for path in paths))
    return BoundedLoader(config_dict=merged.config, config_base_path=None, active_context=context)


def load_in_cluster() -> tuple[ClusterConnection, Credentials]:
    """The credentials of the pod that this process runs in; token and CA are read again now and then."""
    from kubernetes_asyncio.client import Configuration
    from kubernetes_asyncio.config.incluster_config import InClusterConfigLoader

    configuration = Configuration()
    loader = InClusterConfigLoader(
        str(SERVICE_ACCOUNT / "token"), str(SERVICE_ACCOUNT / "ca.crt"), try_refresh_token=False
    )
    try:
        loader.load_and_set(configuration)
        namespace = (SERVICE_ACCOUNT / "namespace").read_text().strip()
    except Exception as error:
        raise ConfigurationProblem(f"the pod's service account cannot be used: {_one_line(error)}") from error

    async def reload(refused: bool) -> None:
        loader.load_and_set(configuration)

    server = str(configuration.host)
    connection = ClusterConnection("in-cluster", server, namespace, is_loopback_url(server))
    credentials = Credentials(configuration, reload)
    configuration.refresh_api_key_hook = _now_and_then(loader, credentials)
    return connection, credentials


def _no_passphrase() -> str:
    """Prevents a question at the terminal."""
    raise ValueError("the client's key is encrypted: a kubeconfig has no place for a passphrase")


def _now_and_then(loader: Any, credentials: Credentials) -> Callable[[Any], Awaitable[None]]:
    """The library's hook before each request: reads token files and renews old tokens, once a minute."""
    due = anyio.current_time() + REREAD_SECONDS

    async def hook(_: Any) -> None:
        nonlocal due
        now = anyio.current_time()
        if now < due or _lasts_until_refused(loader):
            return
        due = now + REREAD_SECONDS
        if _runs_a_plugin(loader):
            # The library renews a token five minutes before it ends: requests need not wait for the new one.
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
