"""docs/how-to/monitor-an-operator.md, followed with the real kubectl on the embedded API server."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from reconcile.commands.main import reconcile
from reconcile.testing.control_plane import embedded
from tests.docs.blocks import all_blocks
from tests.shipping.prometheus_operator import SPECS, definition

PAGE = "docs/how-to/monitor-an-operator.md"
COMMANDS = [command for block in all_blocks() if block.page == PAGE for command in block.commands]
WATCHING = "servicemonitor,podmonitor,prometheusrule,service,configmap"

pytestmark = [
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="this machine has no kubectl"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


def test_what_watches_an_operator_is_applied_and_taken_away_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    make, apply, *_, delete = COMMANDS
    done = CliRunner().invoke(reconcile, make.split()[1:])
    assert done.exit_code == 0, done.output
    definitions = tmp_path / "definitions.yaml"
    definitions.write_text(yaml.safe_dump_all(definition(kind) for kind in SPECS))
    with embedded() as endpoint:
        environment = {
            "HOME": str(tmp_path),
            "PATH": os.environ["PATH"],
            "KUBECONFIG": str(endpoint.kubeconfig),
        }

        def kubectl(command: str) -> str:
            program, *arguments = command.split()
            assert program == "kubectl"
            answer = subprocess.run(
                [program, *arguments],
                env=environment,
                cwd=tmp_path,
                capture_output=True,
                text=True,
                timeout=50,
                check=False,
            )
            assert answer.returncode == 0, answer.stderr
            return answer.stdout

        def present() -> list[str]:
            return kubectl(f"kubectl -n sites-system get {WATCHING} -o name").split()

        kubectl(f"kubectl apply -f {definitions.name}")
        kubectl(apply)
        assert present() == [
            "servicemonitor.monitoring.coreos.com/sites-metrics",
            "prometheusrule.monitoring.coreos.com/sites-alerts",
            "service/sites-metrics",
            "configmap/sites-dashboard-cache",
            "configmap/sites-dashboard-overview",
            "configmap/sites-dashboard-process",
        ]
        assert "unchanged" in kubectl(apply)
        kubectl(delete)
        assert present() == []
        assert kubectl("kubectl -n sites-system get deployment sites -o name") == "deployment.apps/sites\n"
