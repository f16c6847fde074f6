"""How a transport proves who it is, and has the server prove the same."""

import asyncio
import base64
import json
import ssl
import sys
import tempfile
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest
import trustme
from attrs import evolve
from cryptography.hazmat.primitives import serialization

import informers.credentials
import informers.exec_plugin
import informers.kubernetes
from informers import HttpRequest
from informers.api_errors import TransportError, Unreachable
from informers.cluster_connection import ConfigurationProblem
from informers.kubernetes import KubernetesTransport
from tests.helpers.tasks import beside
from tests.informers.conftest import Connect
from tests.informers.http_peer import Get, Seen, always, both_ways, get, get_as_stream, reply, serving


def server_tls(authority: trustme.CA, name: str = "127.0.0.1") -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(name).configure_cert(context)
    return context


def trusting(authority: trustme.CA) -> dict[str, str]:
    return {"certificate-authority-data": base64.b64encode(authority.cert_pem.bytes()).decode()}


def showing(authority: trustme.CA) -> dict[str, str]:
    """A user of a kubeconfig with a client certificate."""
    ours = authority.issue_cert("someone@example.com")
    certificate, key = ours.cert_chain_pems[0].bytes(), ours.private_key_pem.bytes()
    return client_certificate(certificate, key)


def client_certificate(certificate: bytes, key: bytes) -> dict[str, str]:
    parts = {"client-certificate-data": certificate, "client-key-data": key}
    return {name: base64.b64encode(pem).decode() for name, pem in parts.items()}


def by_token(accepted: Callable[[], str]) -> Callable[[Seen, asyncio.StreamWriter], Awaitable[None]]:
    async def answer(seen: Seen, writer: asyncio.StreamWriter) -> None:
        known = seen.headers.get("authorization") == f"Bearer {accepted()}"
        writer.write(reply(200 if known else 401))

    return answer


async def test_a_refused_token_is_looked_up_again_and_the_request_retried_once(
    connecting: Connect, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("old\n")
    async with serving(by_token(lambda: "new")) as peer:
        transport = await connecting(peer.port, user={"tokenFile": str(token)})
        token.write_text("new\n")
        assert (await transport.request(HttpRequest("POST", "/x", body=b"{}"))).status == 200
        assert [(s.headers["authorization"], s.body) for s in peer.seen] == [
            ("Bearer old", b"{}"),
            ("Bearer new", b"{}"),
        ]


async def test_a_stream_is_also_restarted_with_a_new_token(connecting: Connect, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old")
    async with serving(by_token(lambda: "new")) as peer:
        transport = await connecting(peer.port, user={"tokenFile": str(token)})
        token.write_text("new")
        assert (await get_as_stream(transport)).status == 200


async def test_without_another_token_the_refusal_is_the_answer(connecting: Connect) -> None:
    async with serving(by_token(lambda: "another")) as peer:
        transport = await connecting(peer.port, user={"token": "static"})
        assert (await get(transport)).status == 401
        assert len(peer.seen) == 1


async def test_a_token_file_is_reread_without_a_refusal(
    connecting: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(informers.credentials, "REREAD_SECONDS", 0.0)
    token = tmp_path / "token"
    token.write_text("old")
    async with serving(by_token(lambda: "new")) as peer:
        transport = await connecting(peer.port, user={"tokenFile": str(token)})
        token.write_text("new")
        assert (await get(transport)).status == 200
        assert len(peer.seen) == 1


VERSION = "client.authentication.k8s.io/v1"


def running(command: str, *arguments: str) -> dict[str, Any]:
    """A user of a kubeconfig whose credentials that program prints."""
    return {"exec": {"command": command, "args": list(arguments), "apiVersion": VERSION}}


def plugin(folder: Path, expiry: str = "", gate: str = "runs") -> dict[str, Any]:
    """An exec plugin that gives out token-1, token-2, ... or the files status-1, ...; it counts its runs.

    From its second run on it takes until there is a file `gate` in the folder.
    """
    script = folder / "plugin.py"
    script.write_text(
        f"""
import json, pathlib, time
runs = pathlib.Path({str(folder / "runs")!r})
count = int(runs.read_text() or 0) + 1 if runs.exists() else 1
runs.write_text(str(count))
while count > 1 and not runs.with_name({gate!r}).exists():
    time.sleep(0.01)
file = runs.with_name(f"status-{{count}}")
status = json.loads(file.read_text()) if file.exists() else {{"token": f"token-{{count}}"}}
if {expiry!r}:
    status["expirationTimestamp"] = {expiry!r}
version = "client.authentication.k8s.io/v1"
print(json.dumps({{"apiVersion": version, "kind": "ExecCredential", "status": status}}))
"""
    )
    return running(sys.executable, str(script))


@pytest.mark.parametrize("expiry", ["", "2999-01-01T00:00:00Z"])
async def test_an_exec_plugin_runs_again_only_when_its_token_is_refused(
    expiry: str, connecting: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(informers.credentials, "REREAD_SECONDS", 0.0)
    accepted = "token-1"
    async with serving(by_token(lambda: accepted)) as peer:
        transport = await connecting(peer.port, user=plugin(tmp_path, expiry))
        for _ in range(3):
            assert (await get(transport)).status == 200
        assert (tmp_path / "runs").read_text() == "1"
        accepted = "token-2"
        responses = await asyncio.gather(*(get(transport) for _ in range(10)))
    assert {response.status for response in responses} == {200}
    assert (tmp_path / "runs").read_text() == "2"


async def test_an_exec_plugin_runs_in_parallel_with_requests_while_its_last_token_is_valid(
    connecting: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(informers.credentials, "REREAD_SECONDS", 0.0)
    soon = datetime.now(UTC) + timedelta(minutes=2)
    async with serving(always(reply())) as peer:
        transport = await connecting(peer.port, user=plugin(tmp_path, soon.isoformat(), "gate"))
        for _ in range(3):
            await get(transport)
        assert {seen.headers["authorization"] for seen in peer.seen} == {"Bearer token-1"}
        (tmp_path / "gate").touch()
        with anyio.fail_after(10):
            while peer.seen[-1].headers["authorization"] == "Bearer token-1":
                await get(transport)


async def test_a_plugin_that_fails_is_a_configuration_problem_in_one_line(connecting: Connect) -> None:
    user = running(sys.executable, "-c", "import sys; sys.exit('no\\nlogin')")
    with pytest.raises(ConfigurationProblem, match=r"^context test cannot be used: .* no login$"):
        await connecting(1, user=user)


async def test_a_plugin_that_fails_later_leaves_the_refusal_as_the_response(
    connecting: Connect, tmp_path: Path
) -> None:
    async with serving(by_token(lambda: "token-2")) as peer:
        transport = await connecting(peer.port, user=plugin(tmp_path))
        (tmp_path / "plugin.py").write_text("raise SystemExit(1)")
        assert (await get(transport)).status == 401
        assert len(peer.seen) == 1


async def test_a_server_certified_by_the_kubeconfigs_authority_is_trusted(
    connecting: Connect, authority: trustme.CA
) -> None:
    async with serving(always(reply()), server_tls(authority)) as peer:
        transport = await connecting(peer.port, scheme="https", cluster=trusting(authority))
        assert (await get(transport)).status == 200


@both_ways
async def test_a_server_certified_by_another_authority_is_refused_before_anything_is_sent(
    read: Get, connecting: Connect, authority: trustme.CA
) -> None:
    async with serving(always(reply()), server_tls(trustme.CA())) as peer:
        transport = await connecting(
            peer.port, scheme="https", cluster=trusting(authority), user={"token": "secret"}
        )
        with pytest.raises(
            Unreachable, match=r"certificate is not to be trusted: .* certificate-authority of"
        ):
            await read(transport)
    assert peer.seen == []


async def test_a_server_certificate_for_another_name_is_refused_unless_the_kubeconfig_names_it(
    connecting: Connect, authority: trustme.CA
) -> None:
    async with serving(always(reply()), server_tls(authority, "api.example.com")) as peer:
        transport = await connecting(peer.port, scheme="https", cluster=trusting(authority))
        with pytest.raises(Unreachable, match="IP address mismatch"):
            await get(transport)
        named = trusting(authority) | {"tls-server-name": "api.example.com"}
        transport = await connecting(peer.port, scheme="https", cluster=named)
        assert (await get(transport)).status == 200


async def test_only_the_kubeconfig_can_disable_verification(connecting: Connect) -> None:
    async with serving(always(reply()), server_tls(trustme.CA())) as peer:
        transport = await connecting(peer.port, scheme="https", cluster={"insecure-skip-tls-verify": True})
        assert (await get(transport)).status == 200


async def test_a_client_certificate_is_presented(connecting: Connect, authority: trustme.CA) -> None:
    tls = server_tls(authority)
    tls.verify_mode = ssl.CERT_REQUIRED
    authority.configure_trust(tls)
    user = showing(authority)
    async with serving(always(reply()), tls) as peer:
        transport = await connecting(peer.port, scheme="https", cluster=trusting(authority), user=user)
        assert (await get(transport)).status == 200
        stranger = await connecting(peer.port, scheme="https", cluster=trusting(authority))
        with pytest.raises(TransportError):
            await get(stranger, "/x")


async def test_a_plugins_renewed_certificate_is_presented_on_new_connections(
    connecting: Connect, authority: trustme.CA, tmp_path: Path
) -> None:
    tls = server_tls(authority)
    tls.verify_mode = ssl.CERT_OPTIONAL
    authority.configure_trust(tls)
    for number in (1, 2):
        ours = authority.issue_cert(f"run-{number}@example.com")
        status = {
            "clientCertificateData": ours.cert_chain_pems[0].bytes().decode(),
            "clientKeyData": ours.private_key_pem.bytes().decode(),
        }
        (tmp_path / f"status-{number}").write_text(json.dumps(status))

    async def answer(seen: Seen, writer: asyncio.StreamWriter) -> None:
        shown = writer.get_extra_info("peercert")["subjectAltName"]
        writer.write(reply(200 if shown == (("email", "run-2@example.com"),) else 401))

    async with serving(answer, tls) as peer:
        user = plugin(tmp_path)
        transport = await connecting(peer.port, scheme="https", cluster=trusting(authority), user=user)
        responses = await asyncio.gather(*(get(transport) for _ in range(5)))
    assert {response.status for response in responses} == {200}
    assert (tmp_path / "runs").read_text() == "2"


async def test_invalid_certificates_are_a_configuration_problem(connecting: Connect) -> None:
    rubbish = {"certificate-authority-data": base64.b64encode(b"rubbish").decode()}
    with pytest.raises(ConfigurationProblem, match="certificates for the API server cannot be used"):
        await connecting(1, scheme="https", cluster=rubbish)


async def test_https_to_an_http_server_is_reported_as_such(connecting: Connect) -> None:
    async def refuse(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(reply(400, b"Bad Request"))
        writer.close()

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
        transport = await connecting(server.sockets[0].getsockname()[1], scheme="https")
        with pytest.raises(Unreachable, match="Is it an https server"):
            await get(transport)


async def test_a_server_that_hangs_up_in_the_handshake_is_unreachable_for_a_reason(
    connecting: Connect,
) -> None:
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.transport.abort()

    async with await asyncio.start_server(hang_up, "127.0.0.1", 0) as server:
        transport = await connecting(server.sockets[0].getsockname()[1], scheme="https")
        with pytest.raises(Unreachable, match=r"no connection: .*Connection ?[rR]eset"):
            await get(transport)


# --- plugins that hang, and what is left behind -----------------------------------------------------


def hanging(folder: Path) -> dict[str, Any]:
    """A plugin that starts a child, notes both processes and never answers."""
    script = folder / "hangs.py"
    script.write_text(
        f"""
import os, pathlib, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
pathlib.Path({str(folder / "processes")!r}).write_text(f"{{os.getpid()}} {{child.pid}}")
time.sleep(600)
"""
    )
    return running(sys.executable, str(script))


def runs(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def all_ended(folder: Path) -> None:
    processes = [int(text) for text in (folder / "processes").read_text().split()]
    with anyio.fail_after(5):
        while any(map(runs, processes)):
            await anyio.sleep(0.02)


async def test_a_plugin_that_hangs_at_the_start_is_a_configuration_problem(
    connecting: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(informers.exec_plugin, "SECONDS", 2.0)
    with pytest.raises(ConfigurationProblem, match=r"gave no answer within 2 s$"):
        await connecting(1, user=hanging(tmp_path))
    await all_ended(tmp_path)


async def test_a_plugin_that_hangs_later_delays_a_refused_request_for_a_bounded_time(
    connecting: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(by_token(lambda: "token-2")) as peer:
        transport = await connecting(peer.port, user=plugin(tmp_path, gate="never"))
        monkeypatch.setattr(informers.exec_plugin, "SECONDS", 1.0)
        with anyio.fail_after(10):
            assert (await get(transport)).status == 401


async def test_no_plugin_outlives_its_transport(connecting: Connect, tmp_path: Path) -> None:
    async with serving(by_token(lambda: "token-2")) as peer:
        transport = await connecting(peer.port, user=plugin(tmp_path))
        hanging(tmp_path)
        (tmp_path / "plugin.py").write_text((tmp_path / "hangs.py").read_text())
        async with beside(transport.request, HttpRequest("GET", "/x")):
            with anyio.fail_after(10):
                while not (tmp_path / "processes").exists():
                    await anyio.sleep(0.02)
            await anyio.sleep(0.1)
            await transport.aclose()
            await all_ended(tmp_path)


@pytest.mark.parametrize(
    ("printed", "problem"),
    [
        ("", "did not print an ExecCredential"),
        ("[" * 100_000, "did not print an ExecCredential"),
        ("x" * 2_000_000, "printed more than 1048576 bytes"),
        ('{"apiVersion": "v1", "kind": "Pod", "status": {}}', "printed Pod of v1, expected ExecCredential"),
        ("STATUS {}", "printed neither a token nor a certificate"),
        ('STATUS {"token": 3}', "printed neither a token nor a certificate"),
        ('STATUS {"clientCertificateData": "x"}', "printed a certificate without its key"),
    ],
    ids=range(7),
)
async def test_invalid_output_of_a_plugin_is_reported_in_one_line(
    printed: str, problem: str, connecting: Connect, tmp_path: Path
) -> None:
    if printed.startswith("STATUS "):
        status = json.loads(printed.removeprefix("STATUS "))
        printed = json.dumps({"apiVersion": VERSION, "kind": "ExecCredential", "status": status})
    (tmp_path / "printed").write_text(printed)
    with pytest.raises(ConfigurationProblem, match=problem) as caught:
        await connecting(1, user=running("cat", str(tmp_path / "printed")))
    assert "\n" not in str(caught.value)


TELLING = """#!/bin/sh
printf '%s' "$KUBERNETES_EXEC_INFO" > "$(dirname "$0")/told"
printf '%s' '{"apiVersion": "VERSION", "kind": "ExecCredential", "status": STATUS}'
"""


async def test_a_plugin_beside_its_kubeconfig_is_told_of_the_cluster_if_it_asks(
    connecting: Connect, authority: trustme.CA, tmp_path: Path
) -> None:
    program = tmp_path / "bin" / "plugin"
    program.parent.mkdir()
    status = '{"token": "new", "expirationTimestamp": null}'
    program.write_text(TELLING.replace("VERSION", VERSION).replace("STATUS", status))
    program.chmod(0o755)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.crt"))
    extension = {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "shop"}}
    cluster = {"certificate-authority": "ca.crt", "extensions": [{"name": "x", "extension": 1}, extension]}
    user = running("./bin/plugin")
    user["exec"] |= {"provideClusterInfo": True, "interactiveMode": "Never"}
    async with serving(by_token(lambda: "new"), server_tls(authority)) as peer:
        transport = await connecting(peer.port, scheme="https", cluster=cluster, user=user)
        assert (await get(transport)).status == 200
    spec = json.loads((tmp_path / "bin" / "told").read_text())["spec"]
    assert spec == {
        "interactive": False,
        "cluster": {
            "server": f"https://127.0.0.1:{peer.port}",
            "certificate-authority-data": base64.b64encode(authority.cert_pem.bytes()).decode(),
            "config": {"audience": "shop"},
        },
    }


async def test_a_plugin_that_prints_too_much_is_named_even_if_its_child_holds_a_pipe(
    connecting: Connect, tmp_path: Path
) -> None:
    script = "import subprocess, sys; subprocess.Popen(['sleep', '0.5'], start_new_session=True, stdout=2)"
    script += "; sys.stdout.write('x' * 2_000_000); sys.stdout.flush()"
    user = running(sys.executable, "-c", script)
    with anyio.fail_after(10), pytest.raises(ConfigurationProblem, match="printed more than 1048576 bytes"):
        await connecting(1, user=user)
    assert not [task for task in asyncio.all_tasks() if "_read" in repr(task)]


async def test_a_plugin_that_is_not_installed_is_named(connecting: Connect) -> None:
    with pytest.raises(ConfigurationProblem, match="no-such-plugin cannot be started: No such file"):
        await connecting(1, user=running("no-such-plugin"))


async def test_keys_of_a_kubeconfig_are_never_written_to_a_file(
    connecting: Connect, authority: trustme.CA, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = tmp_path / "temporary"
    written.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(written))
    user = showing(authority)
    async with serving(always(reply()), server_tls(authority)) as peer:
        transport = await connecting(peer.port, scheme="https", cluster=trusting(authority), user=user)
        assert (await get(transport)).status == 200
    assert list(written.iterdir()) == []


async def test_an_encrypted_key_is_a_configuration_problem_and_causes_no_prompt(
    connecting: Connect, authority: trustme.CA
) -> None:
    ours = authority.issue_cert("someone@example.com")
    key = serialization.load_pem_private_key(ours.private_key_pem.bytes(), None)
    encrypted = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    )
    user = client_certificate(ours.cert_chain_pems[0].bytes(), encrypted)
    with pytest.raises(ConfigurationProblem, match="the client's key is encrypted"):
        await connecting(1, scheme="https", user=user)


# --- who may see what proves who we are ---------------------------------------------------------------


async def test_a_token_is_not_sent_in_clear_text_beyond_this_machine(connecting: Connect) -> None:
    async with serving(always(reply())) as peer:
        near = await connecting(peer.port, user={"token": "secret"})
        far = KubernetesTransport(evolve(near.connection, loopback=False), near._credentials)
        for transport in (near, far):
            await get(transport)
        await far.aclose()
    assert [seen.headers.get("authorization") for seen in peer.seen] == ["Bearer secret", None]


async def test_a_proxy_of_an_unknown_kind_is_refused_without_its_password(connecting: Connect) -> None:
    problem = "the proxy socks5://proxy:1 for .* only http and https proxies"
    with pytest.raises(ConfigurationProblem, match=problem) as caught:
        await connecting(1, cluster={"proxy-url": "socks5://user:hunter2@proxy:1"})
    assert "hunter2" not in str(caught.value)
