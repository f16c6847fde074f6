"""Credentials of a kubeconfig. Only this module imports kubernetes-asyncio, and only when connecting.

The library reads users of kubeconfigs, exec plugins and cloud tokens, but only once. Renewing tokens and
running plugins again happens here.
"""

import base64
import os
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from attrs import define, field

from informers.clock import SystemClock
from informers.cluster_connection import ConfigurationProblem
from informers.credentials import Credentials, Proof, one_line
from informers.exec_plugin import Plugin, PluginError

_CERTIFICATES = ("ssl_ca_cert", "cert_file", "key_file")

# Of a cluster in a kubeconfig, under the same names for a plugin; the authority is always given as data.
_TOLD = ("server", "tls-server-name", "insecure-skip-tls-verify", "proxy-url", "disable-compression")
_FOR_PLUGINS = "client.authentication.k8s.io/exec"

# A token is renewed so long before it ends.
_AGEING = timedelta(minutes=5)


async def load(paths: Sequence[Path], context: str) -> Credentials:
    """The credentials of a kubeconfig's context. The kubeconfig is never written."""
    from kubernetes_asyncio.client import Configuration

    try:
        user = KubeconfigUser(Configuration(), _loader(paths, context))
        return Credentials(user, await user.look(refused=False))
    except Exception as error:
        raise ConfigurationProblem(f"context {context} cannot be used: {one_line(error)}") from error


@define(eq=False)
class KubeconfigUser:
    """A `CredentialSource`: the library's configuration of one context, and the loader that fills it."""

    _configuration: Any
    _loader: Any
    _certificates: tuple[bytes | None, ...] = field(default=(None, None, None), init=False)

    @property
    def proxy(self) -> str | None:
        return self._configuration.proxy or None

    @property
    def tls_server_name(self) -> str | None:
        return self._configuration.tls_server_name or None

    @property
    def verifies(self) -> bool:
        return bool(self._configuration.verify_ssl)

    @property
    def ages(self) -> bool:
        """A plugin that gives no time for its token's end runs again only after a refusal."""
        return not self.slow or hasattr(self._loader, "exec_plugin_expiry")

    @property
    def slow(self) -> bool:
        """A plugin is a program. It renews its token five minutes before it ends."""
        return self._loader.plugin is not None

    async def look(self, refused: bool) -> Proof:
        if refused:
            # The plugin's own idea of how long its token lives; without it the plugin runs again.
            vars(self._loader).pop("exec_plugin_expiry", None)
        await self._loader.load_and_set(self._configuration)
        self._certificates = tuple(
            self._read(name, former) for name, former in zip(_CERTIFICATES, self._certificates, strict=True)
        )
        token = self._configuration.api_key.get("BearerToken")
        return Proof(token.strip() if token else None, self._certificates)

    def _read(self, name: str, former: bytes | None) -> bytes | None:
        """A file that is being replaced may be missing for a moment: then its former content is kept."""
        if name in self._loader.held:
            held: bytes = self._loader.held[name]
            return held
        path = getattr(self._configuration, name)
        if not path:
            return None
        return Path(path).read_bytes() if former is None or Path(path).is_file() else former

    def close(self) -> None:
        if self._loader.plugin is not None:
            self._loader.plugin.close()


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
                self.plugin = self._plugin(self._user["exec"])

        def _plugin(self, declared: Any) -> Plugin:
            asked = ExecProvider(declared)
            program, *arguments = map(str, asked.args)
            if os.path.dirname(program):  # relative to the kubeconfig, as in kubectl
                program = os.path.join(os.path.dirname(os.path.abspath(self._user.path)), program)
            return Plugin(
                [program, *arguments],
                asked.env,
                asked.api_version,
                may_ask=declared.safe_get("interactiveMode") != "Never",
                cluster=self._cluster_info() if declared.safe_get("provideClusterInfo") else None,
            )

        def _cluster_info(self) -> dict[str, Any]:
            """What a plugin is told of the cluster, if it asks: `Cluster` of client.authentication.k8s.io."""
            cluster = self._cluster.value
            told = {name: cluster[name] for name in _TOLD if cluster.get(name)}
            authority = self.held.get("ssl_ca_cert")
            if authority is None and cluster.get("certificate-authority"):
                folder = os.path.dirname(os.path.abspath(self._cluster.path))
                authority = Path(folder, cluster["certificate-authority"]).read_bytes()
            if authority is not None:
                told["certificate-authority-data"] = base64.b64encode(authority).decode()
            for one in cluster.get("extensions") or ():
                if one.get("name") == _FOR_PLUGINS:
                    told["config"] = one.get("extension")
            return told

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
            self.__dict__.pop("exec_plugin_expiry", None)
            if status.get("expirationTimestamp"):
                self.exec_plugin_expiry = parse_rfc3339(status["expirationTimestamp"])
            return True

    merged = KubeConfigMerger(os.pathsep.join(str(path) for path in paths))
    return BoundedLoader(config_dict=merged.config, config_base_path=None, active_context=context)
