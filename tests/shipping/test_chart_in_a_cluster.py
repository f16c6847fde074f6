"""Helm installs, upgrades, rolls back and uninstalls the chart on the embedded API server."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.commands.helpers import running
from tests.shipping.charts import DOORS, base, chart, installed
from tests.shipping.record_charts import unpack

KUBECTL = shutil.which("kubectl")
KINDS = "deployments,roles,rolebindings,clusterroles,clusterrolebindings,services,serviceaccounts,jobs"


def names(documents: Any) -> set[tuple[str, str]]:
    """Of the objects of those kinds that are the operator's."""
    kinds = {"Deployment", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding", "Service"}
    return {
        (one["kind"], one["metadata"]["name"])
        for one in documents
        if one["kind"] in kinds and one["metadata"]["name"].startswith("doors")
    }


@pytest.mark.skipif(shutil.which("helm") is None, reason="there is no helm on the PATH")
@pytest.mark.skipif(KUBECTL is None, reason="there is no kubectl on the PATH")
def test_helm_takes_a_release_through_its_life(tmp_path: Path) -> None:
    made = chart(DOORS)
    unpack(made.files, tmp_path / "chart")
    options = ("--json", "--nodes", "1", "--workloads")
    with running("apiserver", *options, home=tmp_path) as server:
        kubeconfig = json.loads(server.wait_for(""))["kubeconfig"]
        environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "KUBECONFIG": kubeconfig}

        def command(*words: str) -> str:
            done = subprocess.run(
                words, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
            )
            assert done.returncode == 0, done.stderr
            return done.stdout

        def present() -> set[tuple[str, str]]:
            return names(json.loads(command("kubectl", "get", KINDS, "-A", "-o", "json"))["items"])

        assert "doors runs in the namespace doors-system" in command("helm", "install", "front", "chart")
        assert present() == names(base(DOORS))
        command("helm", "upgrade", "front", "chart", "--set", "sharding.enabled=true,namespaces={default}")
        kept = made.objects({"sharding": {"enabled": True}, "namespaces": ["default"]})
        assert present() == names(installed(kept).values())
        command("helm", "rollback", "front", "1")
        assert present() == names(base(DOORS))
        assert "doors.doors.example.com" in command("helm", "uninstall", "front", "--timeout", "40s")
        assert present() == set()
        assert "doors.doors.example.com" in command("kubectl", "get", "crd", "-o", "name")
        command("helm", "install", "front", "chart")
        assert present() == names(base(DOORS))
