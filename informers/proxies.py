"""Which proxy the environment names for a server, as curl and kubectl read it."""

import os
import sys
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
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
    proxies = urllib.request.getproxies()
    if urllib.request.proxy_bypass(parts.netloc) or _excepted(parts.hostname or "", proxies.get("no", "")):
        return None
    url = proxies.get(parts.scheme)
    return f"http://{url}" if url and "://" not in url else url


def _excepted(host: str, exceptions: str) -> bool:
    """Whether NO_PROXY names the address, or a network that has it: urllib reads names alone."""
    try:
        address = ip_address(host)
    except ValueError:
        return False
    return any(_includes(text.strip(), address) for text in exceptions.split(","))


def _includes(network: str, address: IPv4Address | IPv6Address) -> bool:
    try:
        return address in ip_network(network.strip("[]"), strict=False)
    except ValueError:
        return False
