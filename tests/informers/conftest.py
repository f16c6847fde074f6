"""Transports to a server of bare sockets, as a kubeconfig of the test's own making names it."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import trustme
import yaml

from informers.kubernetes import KubernetesTransport, Timeouts, connect

Connect = Callable[..., Awaitable[KubernetesTransport]]


@pytest.fixture
async def connecting(tmp_path: Path) -> AsyncIterator[Connect]:
    """Connects as a kubeconfig of these parts says; every transport is closed at the end."""
    made: list[KubernetesTransport] = []

    async def connecting(
        port: int,
        *,
        scheme: str = "http",
        cluster: dict[str, Any] | None = None,
        user: dict[str, Any] | None = None,
        timeouts: Timeouts | None = None,
    ) -> KubernetesTransport:
        path = tmp_path / "kubeconfig"
        content = {
            "current-context": "test",
            "contexts": [{"name": "test", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [
                {"name": "c", "cluster": {"server": f"{scheme}://127.0.0.1:{port}"} | (cluster or {})}
            ],
            "users": [{"name": "u", "user": user or {}}],
        }
        path.write_text(yaml.safe_dump(content))
        transport = await connect(path)
        if timeouts:
            await transport.aclose()
            transport = KubernetesTransport(transport.connection, transport._credentials, timeouts)
        made.append(transport)
        assert yaml.safe_load(path.read_text()) == content
        return transport

    yield connecting
    for transport in made:
        await transport.aclose()


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()
