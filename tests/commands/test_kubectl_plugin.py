"""`kubectl reconcile`, by the real kubectl."""

import shutil
import subprocess

import pytest

from reconcile.commands.main import GROUPS
from tests.commands.scripts import scripts as scripts

pytestmark = pytest.mark.skipif(shutil.which("kubectl") is None, reason="this machine has no kubectl")


def kubectl(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["kubectl", *arguments], env=environment, capture_output=True, text=True, timeout=50
    )


def test_kubectl_lists_reconcile_among_its_plugins(scripts: dict[str, str]) -> None:
    listed = kubectl(scripts, "plugin", "list", "--name-only").stdout.splitlines()
    assert "kubectl-reconcile" in listed


def test_its_help_is_that_of_the_command_under_the_name_that_was_typed(scripts: dict[str, str]) -> None:
    shown = kubectl(scripts, "reconcile", "--help").stdout
    assert shown.startswith("Usage: kubectl reconcile [OPTIONS] COMMAND")
    assert all(f"\n{title}:\n" in shown for title in GROUPS)


def test_examples_and_usage_of_a_command_name_kubectl(scripts: dict[str, str]) -> None:
    shown = kubectl(scripts, "reconcile", "help", "top").stdout
    assert shown.startswith("Usage: kubectl reconcile top [OPTIONS]")
    assert shown.endswith("  kubectl reconcile top --once --json --manager http://127.0.0.1:9090\n")


def test_options_and_the_exit_status_pass_through_kubectl(scripts: dict[str, str]) -> None:
    refused = kubectl(scripts, "reconcile", "top", "--nonsense")
    assert refused.returncode == 2
    assert refused.stderr.splitlines()[-1].endswith("see kubectl reconcile top --help")
    silent = kubectl(scripts, "reconcile", "top", "--once", "--manager", "http://127.0.0.1:9")
    assert silent.returncode == 2
    assert silent.stderr.startswith("error: no manager answers on http://127.0.0.1:9")
