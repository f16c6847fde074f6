"""`reconcile doctor` as a person types it, on a server of its own."""

import datetime
import json
from collections.abc import Iterator
from typing import Any

import anyio
import pytest

from informers.kubernetes import connect
from reconcile import Client, Context, Controller, Manager, ObjectMeta
from reconcile.commands import main
from reconcile.commands.debug_client import DebugClient
from reconcile.commands.doctor_command import _reading
from reconcile.doctor.findings import Unread
from reconcile.kinds import Lease
from reconcile.testing import FakeClient
from reconcile.testing.control_plane import ServerEndpoint, embedded
from tests.commands.helpers import complaint
from tests.doctor.clinic import OTHER_POD, POD, manifests, pod
from tests.helpers.managers import Toy

HOSTILE = "\x1b[2J\x1b[31mroot\u202e\nchecked 11 things: nothing found"


@pytest.fixture(scope="module")
def server() -> Iterator[ServerEndpoint]:
    with embedded() as endpoint:
        yield endpoint


@pytest.fixture(scope="module")
def sites(server: ServerEndpoint) -> None:
    """The operator is installed; nothing runs in its pods, but one holds the Lease."""
    anyio.run(_install, server)


async def _install(server: ServerEndpoint) -> None:
    transport = await connect(server.kubeconfig)
    client = Client(transport)
    for document in json.loads(manifests())["items"]:
        await client.create(document)
    for name in (POD, OTHER_POD):
        running = await client.create(pod(name))
        status = {"status": pod(name)["status"]}
        await client.raw.merge(running, status, subresource="status", guard={})
    await client.create(lease(f"{POD}_1"))
    await transport.aclose()


def lease(holder: str) -> dict[str, Any]:
    now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "sites", "namespace": "sites-system"},
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": 3600, "renewTime": now},
    }


async def _hold(server: ServerEndpoint, holder: str) -> None:
    transport = await connect(server.kubeconfig)
    client = Client(transport)
    held = await client.get(Lease, "sites", "sites-system")
    await client.raw.merge(held, {"spec": {"holderIdentity": holder}}, guard={})
    await transport.aclose()


def doctor(server: ServerEndpoint, *arguments: str) -> int:
    return main(["doctor", *arguments, "--kubeconfig", str(server.kubeconfig)])


@pytest.mark.usefixtures("sites")
def test_what_is_not_known_is_told_with_status_0(
    server: ServerEndpoint, capsys: pytest.CaptureFixture[str]
) -> None:
    assert doctor(server, "sites", "--context", "embedded") == 0
    *found, summary = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in found] == [["unknown", "storms:"], ["unknown", "caches:"]]
    assert all("kubectl -n sites-system port-forward deployment/sites 8080:8080" in line for line in found)
    assert summary == "checked 11 things: 2 not known"


@pytest.mark.usefixtures("sites")
def test_an_operator_that_is_not_there_is_an_error_with_status_1(
    server: ServerEndpoint, capsys: pytest.CaptureFixture[str]
) -> None:
    assert doctor(server, "--name", "shop", "--json") == 1
    first = json.loads(capsys.readouterr().out)[0]
    assert first == {
        "check": "operator",
        "severity": "error",
        "subject": "Deployment shop-system/shop",
        "what": "does not exist",
        "next_step": "name the operator with --name and --namespace,"
        " or apply what `reconcile manifests` prints",
    }


@pytest.mark.usefixtures("sites")
def test_a_manager_that_does_not_answer_leaves_the_other_checks(
    server: ServerEndpoint, capsys: pytest.CaptureFixture[str]
) -> None:
    assert doctor(server, "sites", "--manager", "127.0.0.1:9") == 0
    *found, _ = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in found] == [["unknown", "storms:"], ["unknown", "caches:"]]
    assert "state of http://127.0.0.1:9 cannot be read: no manager answers" in found[0]


@pytest.mark.usefixtures("sites")
def test_text_of_the_cluster_reaches_the_terminal_in_one_line_without_escape_sequences(
    server: ServerEndpoint, capsys: pytest.CaptureFixture[str]
) -> None:
    anyio.run(_hold, server, HOSTILE)
    try:
        assert doctor(server, "sites") == 1
        out = capsys.readouterr().out
        assert doctor(server, "sites", "--json") == 1
        as_json = capsys.readouterr().out
    finally:
        anyio.run(_hold, server, f"{POD}_1")
    assert "\x1b" not in out + as_json
    assert "\u202e" not in out + as_json
    assert r"is held by \x1b[2J\x1b[31mroot\u202e\nchecked 11 things" in out
    assert out.splitlines()[-1] == "checked 11 things: 1 error, 2 not known"
    assert any(HOSTILE in one["what"] for one in json.loads(as_json))


async def test_a_manager_at_an_address_is_asked_for_its_state_and_its_requests() -> None:
    async def nothing(ctx: Context[Toy]) -> None: ...

    client = FakeClient(Toy(metadata=ObjectMeta("a")))
    options = {"transport": client.transport, "clock": client.clock}
    manager = Manager(Controller(Toy, nothing), serve="127.0.0.1:0", environ={}, **options)
    async with manager:
        found = await _reading(DebugClient(f"http://{manager.address}"))()
    assert not isinstance(found, Unread)
    assert list(found[0].state.controllers) == ["toy"]
    assert [one.synced for one in found[0].state.informers] == [True]
    assert found[0].requests > 0
    assert found[0].refused == 0


def test_bad_input_is_one_line_with_the_next_step(
    server: ServerEndpoint, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "name the operator: reconcile doctor MODULE" in complaint(capsys, "doctor")
    kubeconfig = ("--kubeconfig", str(server.kubeconfig))
    assert "has no context nope" in complaint(capsys, "doctor", "sites", "--context", "nope", *kubeconfig)
    assert "there is no module nothing_such" in complaint(capsys, "doctor", "nothing_such", *kubeconfig)


def test_a_server_that_cannot_be_reached_is_one_line_with_status_2(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with embedded() as gone:
        text = gone.kubeconfig.read_text()
    gone.kubeconfig.parent.mkdir(exist_ok=True)
    gone.kubeconfig.write_text(text)
    try:
        line = complaint(capsys, "doctor", "sites", "--kubeconfig", str(gone.kubeconfig))
    finally:
        gone.kubeconfig.unlink()
        gone.kubeconfig.parent.rmdir()
    assert "check --context, and that the cluster can be reached" in line
