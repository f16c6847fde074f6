"""Which proxy the environment names."""

import pytest

from informers.cluster_connection import ClusterConnection
from informers.http import Origin
from informers.proxies import proxy_for


@pytest.mark.parametrize(
    ("server", "exceptions", "excepted"),
    [
        ("https://172.30.0.1", ".cluster.local,.svc, 10.128.0.0/14,172.30.0.0/16", True),
        ("https://172.31.0.1:443", ".svc,172.30.0.0/16", False),
        ("https://[fd00::1]:443", "fd00::1", True),
        ("https://[fd00::1]", "10.0.0.0/8,fd00::/8", True),
        ("https://[fe00::1]", "fd00::/8,[fd00::1]", False),
        ("https://api.example.com", "example.com,10.0.0.0/8", True),
    ],
)
def test_the_environment_excepts_networks_from_its_proxy(
    server: str, exceptions: str, excepted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.setenv("NO_PROXY", exceptions)
    monkeypatch.setenv("HTTPS_PROXY", "proxy.example.com:3128")
    proxy = proxy_for(ClusterConnection("context", server, "default", loopback=False), None)
    assert (proxy is None) == excepted
    assert proxy is None or proxy.origin == Origin.of("http://proxy.example.com:3128")
