"""What `reconcile manifests` prints for an operator with admission and conversion."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from reconcile.commands.main import reconcile

SOURCE = """
from reconcile import Controller, Manager
from reconcile.webhooks import Admission
from tests.commands.test_crds_command import CONVERTED

exec(CONVERTED)

async def keep(ctx): ...

def wide(door, old, request):
    return []

doors = Controller(Door, keep, admission=Admission(Door, refuses=wide))
manager = Manager(doors{options})
"""


def made(folder: Path, patch: pytest.MonkeyPatch, options: str = "") -> dict[str, Mapping[str, Any]]:
    """By kind."""
    return {one["kind"]: one for one in everything(folder, patch, options)}


def everything(folder: Path, patch: pytest.MonkeyPatch, options: str = "") -> Sequence[Mapping[str, Any]]:
    name = f"webhooks_{folder.name.replace('-', '_')}"
    (folder / f"{name}.py").write_text(SOURCE.replace("{options}", options))
    patch.syspath_prepend(str(folder))
    result = CliRunner().invoke(reconcile, ["manifests", f"{name}:manager", "--json", "--name", "shop"])
    assert result.exit_code == 0, result.output
    items: Sequence[Mapping[str, Any]] = json.loads(result.output)["items"]
    return items


def test_webhooks_are_reached_through_a_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = made(tmp_path, monkeypatch)
    (webhook,) = found["ValidatingWebhookConfiguration"]["webhooks"]
    service = found["Service"]
    assert webhook["clientConfig"]["service"]["name"] == service["metadata"]["name"] == "shop-webhooks"
    pod = found["Deployment"]["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    assert "--webhooks=:9443" in container["args"]
    (port,) = service["spec"]["ports"]
    assert port["targetPort"] in [one["name"] for one in container["ports"]]
    assert service["spec"]["selector"] == pod["metadata"]["labels"]
    assert found["Deployment"]["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] == 0
    conversion = found["CustomResourceDefinition"]["spec"]["conversion"]["webhook"]["clientConfig"]
    assert conversion["service"]["name"] == "shop-webhooks"
    assert "shop-system:shop" in webhook["matchConditions"][0]["expression"]


def test_an_operator_may_keep_its_own_certificates_and_nothing_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects = everything(tmp_path, monkeypatch)
    rules = {
        one["kind"]: one["rules"]
        for one in objects
        if one["metadata"]["name"] == "shop-webhooks" and "rules" in one
    }
    assert rules["Role"] == [
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["create"]},
        {
            "apiGroups": [""],
            "resources": ["secrets"],
            "resourceNames": ["shop-webhooks-certificates"],
            "verbs": ["get", "update"],
        },
        {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]},
    ]
    named = {(one["resources"][0], *one["resourceNames"]): one["verbs"] for one in rules["ClusterRole"]}
    found = {one["kind"]: one["metadata"]["name"] for one in objects}
    definition, configuration = found["CustomResourceDefinition"], found["ValidatingWebhookConfiguration"]
    assert named == {
        ("customresourcedefinitions", definition): ["get", "patch"],
        ("validatingwebhookconfigurations", configuration): ["get", "patch"],
    }
    deployment = next(one for one in objects if one["kind"] == "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert "--webhook-service=shop-system/shop-webhooks" in container["args"]


def test_a_folder_of_certificates_is_mounted_and_its_authority_injected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = made(tmp_path, monkeypatch, ", webhook_certificates='/webhooks'")
    pod = found["Deployment"]["spec"]["template"]["spec"]
    assert pod["volumes"] == [{"name": "webhook-certificates", "secret": {"secretName": "shop-webhooks"}}]
    assert pod["containers"][0]["volumeMounts"][0]["mountPath"] == "/webhooks"
    for kind in ("ValidatingWebhookConfiguration", "CustomResourceDefinition"):
        annotations = found[kind]["metadata"]["annotations"]
        assert annotations == {"cert-manager.io/inject-ca-from": "shop-system/shop-webhooks"}


def test_each_rule_is_explained_with_its_place_and_why_no_weaker_one_suffices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "explained_admission"
    (tmp_path / f"{name}.py").write_text(RULED)
    monkeypatch.syspath_prepend(str(tmp_path))
    result = CliRunner().invoke(reconcile, ["manifests", name, "--explain-admission"])
    assert result.exit_code == 0, result.output
    rows = {line.split("  ")[1]: line for line in map(_squeezed, result.output.splitlines())}
    assert rows["RULE"] == "KIND  RULE  ENFORCED BY  BECAUSE"
    assert rows[".spec.width minimum 1"] == "Gate v1  .spec.width minimum 1  schema"
    assert "CEL in the definition  a schema sees one field" in rows[".spec self.width <= self.height"]
    assert (
        "CEL in the definition  a schema does not see the stored" in rows[".spec self.width >= oldSelf.width"]
    )
    assert "webhook  a default of a schema is a constant" in rows["defaults=tall"]
    assert "webhook  it is Python" in rows["refuses=odd"]
    assert "configuration of the webhook" in rows["conditions=named: has(object.metadata.name)"]
    assert "kind of Kubernetes" in rows["refuses=pods"]
    made = CliRunner().invoke(reconcile, ["manifests", name, "--explain-admission", "--json"])
    assert len(json.loads(made.output)) == len(result.output.splitlines()) - 1


def _squeezed(line: str) -> str:
    return re.sub(" {2,}", "  ", line)


RULED = """
from typing import Annotated
from attrs import frozen
from reconcile import Controller, Object, resource
from reconcile.kinds import Pod
from reconcile.models import Rule, Schema
from reconcile.webhooks import Admission

@frozen
class GateSpec:
    width: Annotated[int, Schema(minimum=1)] = 1
    height: int = 1

RULES = (Rule("self.width <= self.height"), Rule("self.width >= oldSelf.width"))

@resource("gates.example.com/v1")
class Gate(Object):
    spec: Annotated[GateSpec, Schema(rules=RULES)] = GateSpec()

async def keep(ctx): ...
def tall(gate, request):
    return gate
def odd(gate, old, request):
    return []
def pods(pod, old, request):
    return []

gates = Controller(Gate, keep, admission=[
    Admission(Gate, defaults=tall, refuses=odd, conditions={"named": "has(object.metadata.name)"}),
    Admission(Pod, refuses=pods, operator="gates.example.com"),
])
"""


def test_the_order_of_the_objects_lets_them_be_applied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds = list(made(tmp_path, monkeypatch))
    assert kinds.index("Deployment") < kinds.index("Service") < kinds.index("ValidatingWebhookConfiguration")


def test_rules_alone_need_a_policy_and_no_webhook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ruled.py").write_text(
        "from reconcile import Controller, Manager\n"
        "from reconcile.kinds import Pod\n"
        "from reconcile.webhooks import Admission\n"
        "from tests.webhooks.boxes import Box\n"
        "async def keep(ctx): ...\n"
        "pods = Admission(Pod, rules='object.spec.hostPID != true', operator='shop.example.com')\n"
        "manager = Manager(Controller(Box, keep, admission=pods))\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    result = CliRunner().invoke(reconcile, ["manifests", "ruled:manager", "--json", "--name", "shop"])
    found = {one["kind"]: one for one in json.loads(result.output)["items"]}
    policy = found["ValidatingAdmissionPolicy"]
    assert policy["metadata"]["labels"] == {"app.kubernetes.io/name": "shop"}
    assert "system:serviceaccount:shop-system:shop" in policy["spec"]["matchConditions"][0]["expression"]
    assert found["ValidatingAdmissionPolicyBinding"]["spec"]["policyName"] == policy["metadata"]["name"]
    assert not {"ValidatingWebhookConfiguration", "Service"} & found.keys()
    assert "admissionregistration.k8s.io" not in json.dumps(found["ClusterRole"])
    result = CliRunner().invoke(reconcile, ["manifests", "ruled:manager", "--explain-admission"])
    (row,) = [_squeezed(line) for line in result.output.splitlines() if "hostPID" in line]
    assert row == (
        "Pod v1  rules=object.spec.hostPID != true  policy  "
        "the definition of a kind of Kubernetes cannot be changed"
    )
