"""More of what real kubectl does against `reconcile apiserver`: edit, cascades, rollouts, waits, outputs."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.embedded.kubectl_runs import BUILT_INS, KUBECTL, Kubectl, widget

pytestmark = pytest.mark.skipif(KUBECTL is None, reason="this machine has no kubectl")

EDITOR = f"""#!{sys.executable}
import pathlib, sys
path = pathlib.Path(sys.argv[1])
path.write_text(path.read_text().replace("size: 7", "size: 8").replace("debug", "info"))
"""


def owned(name: str, owner: dict[str, Any], **more: Any) -> str:
    reference = {
        "apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"], **more,
    }  # fmt: skip
    metadata = {"name": name, "ownerReferences": [reference]}
    return json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})


def test_an_object_is_edited_in_an_editor(kubectl: Kubectl, tmp_path: Path) -> None:
    kubectl("create", "-f", "-", given=widget("one", size=7))
    kubectl("create", "-f", "-", given=BUILT_INS)
    editor = tmp_path / "editor"
    editor.write_text(EDITOR)
    editor.chmod(0o755)
    kubectl = Kubectl({**kubectl.environment, "KUBE_EDITOR": str(editor)}, kubectl.namespace)
    assert "edited" in kubectl("edit", "widget", "one")
    assert kubectl.read("wd/one")["spec"]["size"] == 8
    assert "edited" in kubectl("edit", "configmap", "settings")
    assert kubectl.read("cm/settings")["data"] == {"level": "info"}
    assert "no changes made" in kubectl.run("edit", "configmap", "settings").stderr


def test_a_deletion_deletes_orphans_or_waits_for_dependents(kubectl: Kubectl) -> None:
    for cascade in ("background", "foreground", "orphan"):
        kubectl("create", "-f", "-", given=widget(cascade))
        owner = kubectl.read(f"wd/{cascade}")
        kubectl("create", "-f", "-", given=owned(f"of-{cascade}", owner, blockOwnerDeletion=True))
        kubectl("delete", "wd", cascade, f"--cascade={cascade}", "--timeout=10s")
    kubectl("wait", "--for=delete", "cm/of-background", "cm/of-foreground", "--timeout=10s")
    assert "ownerReferences" not in kubectl.read("cm/of-orphan")["metadata"]


def test_a_rollout_status_follows_the_written_status(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", given=BUILT_INS)
    following = subprocess.Popen(
        kubectl.command("rollout", "status", "deployment/web", "--timeout=20s"),
        env=kubectl.environment, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    counts = dict.fromkeys(("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"), 2)
    status = {"status": {"observedGeneration": 1, **counts}}
    time.sleep(0.3)
    kubectl("patch", "deployment/web", "--subresource=status", "--type=merge", "-p", json.dumps(status))
    said, _ = following.communicate(timeout=20)
    assert said.endswith('deployment "web" successfully rolled out\n')
    assert "restarted" in kubectl("rollout", "restart", "deployment/web")


def test_a_value_is_waited_for(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", given=widget("one", size=7))
    waiting = subprocess.Popen(
        kubectl.command("wait", "wd/one", "--for=jsonpath={.spec.size}=9", "--timeout=20s"),
        env=kubectl.environment, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    kubectl("patch", "wd/one", "--type=merge", "-p", '{"spec":{"size":9}}')
    assert waiting.communicate(timeout=20)[0] == "widget.demo.example.com/one condition met\n"
    assert "timed out" in kubectl.refused("wait", "wd/one", "--for=jsonpath={.spec.size}=1", "--timeout=1s")


def test_a_deployment_is_autoscaled(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", given=BUILT_INS)
    assert "autoscaled" in kubectl("autoscale", "deployment", "web", "--min=3", "--max=5", "--cpu-percent=60")
    newer = kubectl.read("horizontalpodautoscalers.v2.autoscaling/web")
    assert newer["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"] == 60
    kubectl("wait", "deployment/web", "--for=jsonpath={.spec.replicas}=3", "--timeout=10s")
    (row,) = kubectl.table("hpa")
    assert (row["REFERENCE"], row["MINPODS"], row["MAXPODS"]) == ("Deployment/web", "3", "5")
    older = kubectl.read("horizontalpodautoscalers.v1.autoscaling/web")
    assert older["spec"]["targetCPUUtilizationPercentage"] == 60
    assert "Deployment/web" in kubectl("describe", "hpa", "web")


def test_an_object_is_replaced_or_recreated(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", given=widget("one", size=1, a="b"))
    before = kubectl.read("wd/one")["metadata"]["uid"]
    kubectl("replace", "-f", "-", given=widget("one", size=2))
    replaced = kubectl.read("wd/one")
    assert (replaced["spec"]["size"], replaced["metadata"]["uid"]) == (2, before)
    assert "labels" not in replaced["metadata"]
    kubectl("replace", "--force", "-f", "-", given=widget("one", size=3))
    assert kubectl.read("wd/one")["metadata"]["uid"] != before
