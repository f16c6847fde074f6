"""`reconcile upgrade --plan`: what a new version of an operator means for a cluster."""

import json
from pathlib import Path

import anyio
import pytest

from reconcile.commands import main
from reconcile.testing.control_plane import ServerEndpoint
from tests.commands.gates import COLOUR, NAME, SECRET, gate, install, make, module, post

ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
HOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
APPLIED = ', definitions="apply"'


def plan(cluster: ServerEndpoint, name: str, *options: str) -> int:
    return main(["upgrade", name, "--plan", "--kubeconfig", str(cluster.kubeconfig), *options])


def install_all(cluster: ServerEndpoint, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The definition and the ClusterRole of that version of the operator."""
    install(cluster, name, capsys)
    assert main(["manifests", f"{name}:manager", "--json"]) == 0
    items = json.loads(capsys.readouterr().out)["items"]
    anyio.run(post, cluster, ROLES, *(one for one in items if one["kind"] == "ClusterRole"))


def test_a_version_that_only_adds_is_planned_with_the_rights_that_it_lacks(
    folder: Path, cluster: ServerEndpoint, capsys: pytest.CaptureFixture[str]
) -> None:
    install_all(cluster, module(folder, "first"), capsys)
    make(cluster, gate("a"))
    second = module(folder, "second", fields=COLOUR, controller=", owns=[Deployment], reads=[ConfigMap]")
    assert plan(cluster, f"{second}:manager") == 0
    out = capsys.readouterr().out
    assert out.startswith("operator gates in gates-system\ndefinitions:\n")
    assert f"  {NAME}, stored as v1: 1 change\n    + v1: spec.colour: is new\n" in out
    assert "stored objects: all in the version to store\n" in out
    assert "  ClusterRole gates: " in out
    assert "deployments.apps" in out
    assert "Role gates-system/gates-leader: " in out  # it was never installed
    assert "webhooks: no changes\n" in out
    assert "refused" not in out


@pytest.mark.parametrize("manager", ["", APPLIED])
def test_a_version_that_an_object_does_not_fit_would_be_refused(
    manager: str, folder: Path, cluster: ServerEndpoint, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "applied" if manager else "checked"
    install_all(cluster, module(folder, f"{name}_wide", fields=COLOUR), capsys)
    make(cluster, gate("red", colour=SECRET))
    narrow = module(folder, f"{name}_narrow", manager=manager)
    assert plan(cluster, f"{narrow}:manager") == 1
    out = capsys.readouterr().out
    assert "default/red: spec.colour (a string of 7 characters): is gone, so servers drop it" in out
    assert "this upgrade would be refused" in out
    assert SECRET not in out


def test_a_plan_is_json_too(
    folder: Path, cluster: ServerEndpoint, capsys: pytest.CaptureFixture[str]
) -> None:
    name = module(folder, "told", manager=APPLIED)
    install_all(cluster, name, capsys)
    labels = {"app.kubernetes.io/name": "gates"}
    hook = {
        "name": "old.gates.example.com",
        "clientConfig": {"url": "https://127.0.0.1/x"},
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
    }
    body = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "gates.example.com", "labels": labels},
        "webhooks": [hook],
    }
    anyio.run(post, cluster, HOOKS, body)
    assert plan(cluster, f"{name}:manager", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["operator"], found["namespace"], found["refused"]) == ("gates", "gates-system", False)
    assert [one["definition"] for one in found["definitions"]] == [NAME]
    gone = ["ValidatingWebhookConfiguration gates.example.com: old.gates.example.com"]
    assert found["webhooks"] == {"come": [], "go": gone}
    assert {right["role"] for right in found["missingRights"]} == {"Role gates-system/gates-leader"}


def test_objects_in_an_older_version_are_planned_to_be_rewritten(
    folder: Path, cluster: ServerEndpoint, capsys: pytest.CaptureFixture[str]
) -> None:
    name = module(folder, "old_version", manager=APPLIED)
    older = (folder / f"{name}.py").read_text().replace("example.com/v1", "example.com/v1beta1")
    (folder / f"{name}_beta.py").write_text(older)
    install(cluster, f"{name}_beta", capsys)
    assert plan(cluster, f"{name}:manager") == 0
    out = capsys.readouterr().out
    assert "+ v1: is a new version" in out
    assert (
        f"{NAME}: objects are stored as v1beta1, and are to be stored as v1: the manager rewrites them" in out
    )


def test_without_a_plan_it_says_what_changes_definitions(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["upgrade", module(folder, "unplanned")]) == 2
    error = capsys.readouterr().err
    assert "add --plan" in error
    assert "`reconcile manifests`" in error
    assert len(error.splitlines()) == 1


def test_a_namespace_that_is_no_name_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = module(folder, "bad_namespace")
    assert main(["upgrade", f"{name}:manager", "--plan", "-n", "../x"]) == 2
    assert "is not the name of a namespace" in capsys.readouterr().err
