"""How a pod proves who it is: by the account that the kubelet keeps fresh in a folder."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import trustme

import informers.credentials
from informers import HttpRequest
from informers.api_errors import Unreachable
from informers.cluster_connection import ConfigurationProblem
from informers.kubernetes import KubernetesTransport
from informers.service_account import find_pod_connection, load_in_cluster
from tests.informers.http_peer import Peer, Seen, always, get, reply, serving
from tests.informers.test_kubernetes_credentials import by_token, server_tls

InPod = Callable[[Peer], KubernetesTransport]


@pytest.fixture
def account(authority: trustme.CA, tmp_path: Path) -> Path:
    authority.cert_pem.write_to_path(str(tmp_path / "ca.crt"))
    (tmp_path / "token").write_text("old\n")
    (tmp_path / "namespace").write_text("web\n")
    return tmp_path


@pytest.fixture
def in_pod(account: Path, monkeypatch: pytest.MonkeyPatch) -> InPod:
    def in_pod(peer: Peer) -> KubernetesTransport:
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
        monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(peer.port))
        return KubernetesTransport(*load_in_cluster(account))

    return in_pod


async def test_a_refused_token_is_read_again_and_the_request_repeated_once(
    authority: trustme.CA, account: Path, in_pod: InPod
) -> None:
    async with serving(by_token(lambda: "new"), server_tls(authority)) as peer:
        transport = in_pod(peer)
        assert (transport.connection.context, transport.connection.namespace) == ("in-cluster", "web")
        assert transport.server == f"https://127.0.0.1:{peer.port}"
        (account / "token").write_text("new\n")
        assert (await get(transport)).status == 200
        await transport.aclose()
    assert [seen.headers["authorization"] for seen in peer.seen] == ["Bearer old", "Bearer new"]


async def test_a_rotated_token_is_presented_before_the_old_one_is_refused(
    authority: trustme.CA, account: Path, in_pod: InPod, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(informers.credentials, "REREAD_SECONDS", 0.0)
    async with serving(always(reply()), server_tls(authority)) as peer:
        transport = in_pod(peer)
        for token in ("old", "new", ""):  # the last is a file that is being written
            (account / "token").write_text(token)
            await get(transport)
        await transport.aclose()
    assert [seen.headers["authorization"] for seen in peer.seen] == [
        "Bearer old",
        "Bearer new",
        "Bearer new",
    ]


async def test_a_rotated_authority_is_trusted_and_one_that_is_missing_for_a_moment_is_kept(
    account: Path, in_pod: InPod, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(informers.credentials, "REREAD_SECONDS", 0.0)
    other = trustme.CA()
    async with serving(always(reply()), server_tls(other)) as peer:
        transport = in_pod(peer)
        with pytest.raises(Unreachable, match="not to be trusted"):
            await get(transport)
        other.cert_pem.write_to_path(str(account / "ca.crt"))
        assert (await get(transport)).status == 200
        (account / "ca.crt").unlink()  # while it is replaced
        assert (await get(transport)).status == 200
        await transport.aclose()


@pytest.mark.parametrize("half_written", [b"", b"-----BEGIN CERTIFICATE-----\nMIIB"])
async def test_certificates_read_while_they_are_written_cut_no_request(
    half_written: bytes,
    authority: trustme.CA,
    account: Path,
    in_pod: InPod,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(informers.credentials, "REREAD_SECONDS", 0.0)
    rotated = asyncio.Event()

    async def answer(seen: Seen, writer: asyncio.StreamWriter) -> None:
        if seen.target == "/slow":
            await rotated.wait()
        writer.write(reply())

    async with serving(answer, server_tls(authority)) as peer:
        transport = in_pod(peer)
        slow = asyncio.create_task(transport.request(HttpRequest("POST", "/slow", body=b"{}")))
        await get(transport)
        for content in (half_written, authority.cert_pem.bytes() + trustme.CA().cert_pem.bytes()):
            (account / "ca.crt").write_bytes(content)
            assert (await get(transport)).status == 200
        rotated.set()
        assert (await slow).status == 200
        await transport.aclose()


async def test_a_token_that_stays_refused_is_the_answer_and_looked_up_once_for_many_requests(
    authority: trustme.CA, in_pod: InPod
) -> None:
    async def refuse(seen: Seen, writer: asyncio.StreamWriter) -> None:
        writer.write(reply(401))

    async with serving(refuse, server_tls(authority)) as peer:
        transport = in_pod(peer)
        answers = await asyncio.gather(*(transport.request(HttpRequest("GET", "/x")) for _ in range(5)))
        await transport.aclose()
    assert [answer.status for answer in answers] == [401] * 5
    assert len(peer.seen) == 5


def test_the_connection_of_a_pod_is_found_before_an_event_loop_runs(
    account: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    connection = find_pod_connection(account)
    assert (connection.server, connection.loopback) == ("https://[fd00::1]:443", False)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda account, _: (account / "token").write_text("\n"), r"token is empty$"),
        (lambda account, _: (account / "token").unlink(), r"No such file .*token'$"),
        (lambda account, _: (account / "ca.crt").unlink(), r"No such file .*ca\.crt'$"),
        (lambda account, _: (account / "namespace").unlink(), r"No such file .*namespace'$"),
        (lambda account, _: (account / "token").write_bytes(b"\xff"), r"can't decode byte"),
        (lambda _, patch: patch.delenv("KUBERNETES_SERVICE_PORT"), r"_HOST and .*_PORT are not both set$"),
    ],
)
def test_an_unusable_account_is_a_configuration_problem_in_one_line(
    damage: Callable[[Path, pytest.MonkeyPatch], object],
    message: str,
    account: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    damage(account, monkeypatch)
    with pytest.raises(ConfigurationProblem, match="^the pod's service account cannot be used: .*" + message):
        load_in_cluster(account)


def test_a_token_is_in_no_representation(account: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    (account / "token").write_text("hunter2")
    connection, credentials = load_in_cluster(account)
    assert "hunter2" not in f"{connection!r} {credentials!r} {vars(credentials)!r}"


IMPORTS = """
import sys
from informers.kubernetes import KubernetesTransport, connect
from informers.service_account import load_in_cluster
print(*({"kubernetes_asyncio", "yaml"} & sys.modules.keys()))
"""


def test_a_pod_imports_no_library_that_reads_kubeconfigs() -> None:
    done = subprocess.run(
        (sys.executable, "-c", IMPORTS), env=os.environ, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []
