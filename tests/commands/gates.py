"""An operator of gates in a module of its own, and its definition and objects on a server."""

import json
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from informers.kubernetes import connect
from informers.transport import HttpRequest
from reconcile.commands import main
from reconcile.testing.control_plane import ServerEndpoint

GROUP = "gates.example.com"
NAME = f"gates.{GROUP}"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SECRET = "hunter2"

CLASSES = """
from typing import Annotated

from attrs import frozen
from reconcile import Context, Controller, Manager, Object, resource
from reconcile.kinds import ConfigMap, Deployment
from reconcile.models import Schema


@frozen
class Spec:
    size: Annotated[int, Schema(minimum=0{bound})] = 1
{fields}

@resource("gates.example.com/v1", kind="Gate")
class Gate(Object):
    spec: Spec = Spec()


async def keep(ctx: Context[Gate]) -> None: ...


manager = Manager(
    Controller(Gate, keep, name="gates", operator="gates.example.com"{controller}), name="gates"{manager}
)
"""
COLOUR = "    colour: str | None = None\n"


def module(
    folder: Path, name: str, *, bound: str = "", fields: str = "", controller: str = "", manager: str = ""
) -> str:
    """A module with a kind and an operator, which further text makes others."""
    name = f"{name}_{folder.name.replace('-', '_')}"
    (folder / f"{name}.py").write_text(
        CLASSES.format(bound=bound, fields=fields, controller=controller, manager=manager)
    )
    return name


async def post(endpoint: ServerEndpoint, path: str, *bodies: dict[str, Any]) -> None:
    transport = await connect(endpoint.kubeconfig)
    try:
        for body in bodies:
            kind = {"content-type": "application/json"}
            sent = msgspec.json.encode(body)
            answer = await transport.request(HttpRequest("POST", path, {}, kind, sent))
            assert answer.status == 201, answer.body
    finally:
        await transport.aclose()


def install(cluster: ServerEndpoint, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["crds", name, "--json"]) == 0
    anyio.run(post, cluster, DEFINITIONS, *json.loads(capsys.readouterr().out)["items"])


def gate(name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": f"{GROUP}/v1", "kind": "Gate", "metadata": {"name": name}, "spec": spec}


def make(cluster: ServerEndpoint, *gates: dict[str, Any]) -> None:
    anyio.run(post, cluster, f"/apis/{GROUP}/v1/namespaces/default/gates", *gates)
