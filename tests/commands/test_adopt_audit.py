"""`reconcile adopt kopf audit` as a person types it, on a server of its own."""

import datetime
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from informers.kubernetes import connect
from reconcile import Client
from reconcile.commands.main import main
from reconcile.predecessors import entry_of
from reconcile.testing.control_plane import ServerEndpoint, embedded
from tests.adoption.kopf_objects import GROUP, SECRET, managed, record
from tests.clients.gadgets import deployment, gadget_definition
from tests.commands.helpers import complaint
from tests.helpers.definitions import definition

OTHER = "other.example.com"
OPERATOR = f"""
import kopf

@kopf.on.startup()
def configure(settings, **_):
    settings.peering.name = "gadgets"

@kopf.on.create("{GROUP}", "v1", "gadgets")
def make(**_):
    pass

@kopf.on.event("configmaps")
def look(**_):
    pass
"""


@pytest.fixture(scope="module")
def server() -> Iterator[ServerEndpoint]:
    with embedded() as endpoint:
        anyio.run(_fill, endpoint)
        yield endpoint


async def _fill(server: ServerEndpoint) -> None:
    transport = await connect(server.kubeconfig)
    client = Client(transport)
    for document in (
        gadget_definition(GROUP),
        gadget_definition(OTHER, kind="Gizmo"),
        definition("KopfPeering", group="kopf.dev", subresources={}),
        managed("a"),
        managed("b", handled=False, make=record()),
        {
            **managed("c"),
            "apiVersion": f"{OTHER}/v1",
            "kind": "Gizmo",
            "metadata": {"name": "c", "namespace": "default"},
        },
        _peering("default", lifetime=600),
        _peering("gadgets", lifetime=0),
        deployment("gadgets", "gadgets:1"),
        _webhook(),
    ):
        created = await client.create(_accepted(document))
        if document["kind"] == "KopfPeering":
            await client.raw.merge(created, {"status": document["status"]}, guard={})
    await transport.aclose()


def _accepted(document: dict[str, Any]) -> dict[str, Any]:
    """Without what only the server writes."""
    metadata = {name: value for name, value in document["metadata"].items() if name != "managedFields"}
    return {**document, "metadata": metadata}


def _peering(name: str, lifetime: int) -> dict[str, Any]:
    now = datetime.datetime.now(datetime.UTC)
    status = {f"{name}@host": entry_of(0, lifetime, now)}
    return {
        "apiVersion": "kopf.dev/v1",
        "kind": "KopfPeering",
        "metadata": {"name": name, "namespace": "default"},
        "status": status,
    }


def _webhook() -> dict[str, Any]:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "auto.kopf.dev"},
        "webhooks": [],
    }


@pytest.fixture
def operator(tmp_path: Path) -> str:
    (tmp_path / "gadgets_on_kopf.py").write_text(OPERATOR)
    return str(tmp_path / "gadgets_on_kopf.py")


def audit(server: ServerEndpoint, *arguments: str) -> int:
    return main(["adopt", "kopf", "audit", *arguments, "--kubeconfig", str(server.kubeconfig)])


def test_an_audit_of_everything_names_the_kinds_with_traces_and_what_stands_against_a_switch(
    server: ServerEndpoint, capsys: pytest.CaptureFixture[str]
) -> None:
    assert audit(server) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"gadgets.{GROUP}: 2 objects, 2 with traces of kopf: 2 held by")
    assert not any("gizmos" in line for line in lines)
    assert any(
        line.startswith("peer default@host in KopfPeering default/default: priority 0") for line in lines
    )
    (error,) = [line for line in lines if line.startswith("error ")]
    assert "default/b (make; since 2026-11-23T10:00:00+00:00; 2 attempts)" in error
    (warning,) = [line for line in lines if line.startswith("warning ")]
    assert "ValidatingWebhookConfiguration auto.kopf.dev" in warning
    assert lines[-1].startswith("not ready: ")
    assert SECRET not in "\n".join(lines)


def test_an_audit_of_an_operator_reads_the_kinds_and_names_of_its_code(
    server: ServerEndpoint, operator: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert audit(server, operator, "--json", "--deployment", "default/gadgets") == 1
    found = json.loads(capsys.readouterr().out)
    assert [kind["resource"] for kind in found["kinds"]] == [f"gadgets.{GROUP}", "configmaps"]
    assert found["kinds"][0]["halfCreated"]["count"] == 1
    assert found["peers"] == []
    assert found["deployments"] == [{"name": "default/gadgets", "replicas": 1, "pods": 0}]
    assert found["ready"] is False


def test_an_audit_of_one_kind_without_traces_is_ready(
    server: ServerEndpoint, capsys: pytest.CaptureFixture[str]
) -> None:
    assert audit(server, "--kind", f"gizmos.{OTHER}", "--peering", "gadgets") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"gizmos.{OTHER}: 1 object, 0 with traces of kopf")
    assert lines[-1] == "ready: no operator on kopf is seen to be alive; start the new one"


def test_a_kind_that_is_not_served_is_an_error(
    server: ServerEndpoint, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("adopt", "kopf", "audit", "--kind", "nothings", "--kubeconfig", str(server.kubeconfig))
    assert complaint(capsys, *arguments).startswith("error: the server has no kind nothings: ")
