"""What is said to an account that has the role of the guide but for a right that `adopt kopf` needs."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
import yaml

from informers import HttpRequest, SystemClock
from informers.kubernetes import connect
from reconcile import Client, ObjectMeta
from reconcile.commands import main
from reconcile.kinds import ServiceAccount
from reconcile.models import definition_of
from reconcile.predecessors import entry_of
from reconcile.testing.control_plane import ServerEndpoint
from tests.adoption.kopf_objects import record
from tests.adoption.returned_sites import Site, sites
from tests.clients.gadgets import deployment
from tests.docs.blocks import code
from tests.helpers.definitions import definition

MODULE = "tests.adoption.returned_sites"
KOPF = ("adopt", "kopf")
TOKENS = "/api/v1/namespaces/default/serviceaccounts/mover/token"
BINDING = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRoleBinding",
    "metadata": {"name": "adopt-kopf"},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "adopt-kopf"},
    "subjects": [{"kind": "ServiceAccount", "name": "mover", "namespace": "default"}],
}


def role() -> dict[str, Any]:
    """The role of the guide, for the kind of this test."""
    (text,) = code("docs/how-to/move-from-kopf.md", "yaml")
    found: dict[str, Any] = yaml.safe_load(text)
    assert found["rules"][0]["resources"] == ["buckets"]
    found["rules"][0] |= {"apiGroups": ["back.example.com"], "resources": ["sites"]}
    found["rules"][1] |= {"apiGroups": ["back.example.com"], "resources": ["sites/status"]}
    return found


async def prepared(server: ServerEndpoint, rules: Sequence[Mapping[str, Any]]) -> str:
    """Make an object to hand back, and an account that has these rules; returns its token."""
    transport = await connect(server.kubeconfig)
    try:
        client = Client(transport)
        await client.apply(definition_of(Site))
        if await client.find(Site, "a", "default") is None:
            await client.create(Site(metadata=ObjectMeta("a", "default", finalizers=(sites.finalizer,))))
            await client.create(ServiceAccount(metadata=ObjectMeta("mover", "default")))
        await client.apply({**role(), "rules": list(rules)})
        await client.apply(BINDING)
        answer = await transport.request(
            HttpRequest("POST", TOKENS, {}, {"content-type": "application/json"}, b"{}")
        )
        token: str = yaml.safe_load(answer.body)["status"]["token"]
        return token
    finally:
        await transport.aclose()


def run(server: ServerEndpoint, rules: Sequence[Mapping[str, Any]], folder: Path, *arguments: str) -> int:
    config = yaml.safe_load(server.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": anyio.run(prepared, server, rules)}
    (folder / "mover").write_text(yaml.safe_dump(config))
    return main([*KOPF, *arguments, "--kubeconfig", str(folder / "mover")])


async def kept_by_kopf(server: ServerEndpoint) -> None:
    """A peer that is about to expire, its Deployment, and an object that it created by half."""
    transport = await connect(server.kubeconfig)
    try:
        client = Client(transport)
        await client.apply(definition_of(Site))
        peerings = definition("ClusterKopfPeering", group="kopf.dev", subresources={})
        peerings["spec"]["scope"] = "Cluster"
        await client.create(peerings)
        head = {"apiVersion": "kopf.dev/v1", "kind": "ClusterKopfPeering", "metadata": {"name": "default"}}
        made = await client.create(head)
        entry = entry_of(0, 5, SystemClock().now())
        await client.raw.merge(made, {"status": {"me@host": entry}}, guard={})
        await client.create(deployment("operator", "operator:1"))
        half = ObjectMeta("half", "default", annotations={"kopf.zalando.org/make": record()})
        await client.create(Site(metadata=half))
    finally:
        await transport.aclose()


@pytest.mark.parametrize(("number", "missing"), [(2, "patch"), (3, "patch"), (4, "list")])
def test_a_right_that_a_switch_needs_is_named_where_it_is_missing(
    number: int, missing: str, cluster: ServerEndpoint, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    anyio.run(kept_by_kopf, cluster)
    rules = role()["rules"]
    del rules[number]
    options = ("--kind", "sites.back.example.com", "--deployment", "operator", "--unfinished", "run")
    assert run(cluster, rules, tmp_path, "switch", *options, "--drain", "0", "--yes") != 0
    assert f"cannot {missing}" in capsys.readouterr().err


def test_without_the_right_to_patch_nothing_is_handed_back(
    cluster: ServerEndpoint, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rules = role()["rules"]
    rules[0]["verbs"].remove("patch")
    assert run(cluster, rules, tmp_path, "back", MODULE, "--yes") != 0
    assert "cannot patch" in capsys.readouterr().err
