"""Which proxy the environment names for a server, as curl and kubectl read it."""

import os
import sys
from urllib.parse import urlsplit

from informers.cluster_connection import ClusterConnection, ConfigurationProblem, without_user
from informers.http import Proxy


def proxy_for(connection: ClusterConnection, named: str | None) -> Proxy | None:
    """The proxy that the kubeconfig names, else the environment's, which never applies to this machine.

    Raises ConfigurationProblem for one that is neither http nor https.
    """
    url = named or (None if connection.loopback else _of_the_environment(connection.server))
    if not url:
        return None
    try:
        if urlsplit(url).scheme in ("http", "https"):
            return Proxy.of(url)
    except ValueError:
        pass
    raise ConfigurationProblem(
        f"the proxy {without_user(url)} for {connection.server} is not supported: "
        "only http and https proxies are"
    )


def _of_the_environment(server: str) -> str | None:
    # urllib.request brings 3 MB of http.client and email, which a pod without proxies need not pay for.
    if sys.platform == "linux" and not any(name.lower().endswith("_proxy") for name in os.environ):
        return None
    import urllib.request

    parts = urlsplit(server)
    if urllib.request.proxy_bypass(parts.netloc):
        return None
    return urllib.request.getproxies().get(parts.scheme)
