"""Completion by shells: `reconcile completion`, and what kubectl asks on TAB."""

import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.shell_completion import CompletionItem, ShellComplete

from reconcile.commands.kubectl_completion import answer
from reconcile.commands.main import COMMANDS, Subcommand, reconcile
from tests.commands.helpers import complaint
from tests.commands.scripts import scripts as scripts

CHECKERS = {"bash": ("bash", "-n"), "zsh": ("zsh", "-n"), "fish": ("fish", "--no-execute")}
INSTALL = {"bash": "~/.bashrc", "zsh": "~/.zshrc", "fish": "~/.config/fish/completions/reconcile.fish"}

KUBECONFIG = """
contexts:
- name: kind-dev
- name: arn:aws:eks:eu-west-1:1234:cluster/shop
- name: $(touch hacked)
- name: "two words"
- name: [7]
- 3
"""


def completed(*words: str) -> list[str]:
    """What could stand in place of the last word."""
    items = ShellComplete(reconcile, {}, "reconcile", "").get_completions(list(words[:-1]), words[-1])
    return [item.value for item in items]


def run(
    environment: dict[str, str], *words: str, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, env=environment, cwd=cwd, capture_output=True, text=True, timeout=50)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    return tmp_path


# --- scripts ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shell", CHECKERS)
def test_a_script_is_accepted_by_its_shell_and_ends_with_how_to_install_it(
    shell: str, scripts: dict[str, str], tmp_path: Path
) -> None:
    printed = run(scripts, "reconcile", "completion", shell)
    assert printed.stderr == ""
    last = printed.stdout.splitlines()[-1]
    assert last.startswith("# ")
    assert f"reconcile completion {shell}" in last
    assert INSTALL[shell] in last
    if shutil.which(shell) is None:
        pytest.skip(f"this machine has no {shell}")
    (tmp_path / "script").write_text(printed.stdout)
    checked = run(scripts, *CHECKERS[shell], str(tmp_path / "script"))
    assert (checked.returncode, checked.stderr) == (0, "")


def test_bash_completes_commands_options_and_modules(scripts: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "sites.py").write_text("raise SystemExit('imported')")

    def asked(*words: str) -> list[str]:
        ask = f"""
            source <(reconcile completion bash)
            COMP_WORDS=({shlex.join(words)}); COMP_CWORD={len(words) - 1}
            _reconcile_completion reconcile
            printf '%s\\n' "${{COMPREPLY[@]}}"
        """
        done = run(scripts, "bash", "--norc", "-c", ask, cwd=tmp_path)
        assert done.stderr == ""
        return done.stdout.split()

    assert asked("reconcile", "") == list(COMMANDS)
    assert asked("reconcile", "tri") == ["trigger"]
    assert asked("reconcile", "top", "--o") == ["--once"]
    assert asked("reconcile", "crds", "") == ["sites"]


def test_a_shell_that_is_not_known_is_refused_with_those_that_are(capsys: pytest.CaptureFixture[str]) -> None:
    error = complaint(capsys, "completion", "tcsh")
    assert "'tcsh' is not one of 'bash', 'zsh', 'fish'" in error
    assert "see reconcile completion --help" in error


# --- values -------------------------------------------------------------------------------------------


def test_the_list_of_commands_is_completed_without_importing_them() -> None:
    look = (
        "import sys; from reconcile.commands.main import reconcile\n"
        "from click.shell_completion import ShellComplete\n"
        "found = ShellComplete(reconcile, {}, 'reconcile', '').get_completions([], '')\n"
        "assert len(found) > 10 and all(item.help for item in found)\n"
        "print(*sys.modules)"
    )
    done = run({"PYTHONPATH": str(Path(__file__).parents[2])}, sys.executable, "-c", look)
    assert done.stderr == ""
    assert not [name for name in done.stdout.split() if name.endswith("_command")]


def test_modules_are_those_of_the_folder_that_could_hold_an_operator(folder: Path) -> None:
    for name in ("sites.py", "conftest.py", "test_sites.py", "_private.py", "not-a-name.py", "notes.txt"):
        (folder / name).touch()
    for package in ("shop", "empty"):
        (folder / package).mkdir()
    for name in ("__init__.py", "orders.py"):
        (folder / "shop" / name).touch()
    for command in ("crds", "check", "manifests"):
        assert completed(command, "") == ["shop", "sites"]
    assert completed("crds", "si") == ["sites"]
    assert completed("crds", "shop.") == ["shop.orders"]
    assert completed("crds", "elsewhere.") == []


@pytest.mark.parametrize("command", ["run", "dev"])
def test_commands_that_run_an_operator_complete_bundled_controllers_too(command: str, folder: Path) -> None:
    (folder / "sites.py").touch()
    assert completed(command, "")[0] == "sites"
    assert completed(command, "worker-") == ["worker-groups"]


@pytest.mark.parametrize("command", ["run", "shards"])
def test_contexts_are_those_of_the_kubeconfig_that_are_safe_in_a_shell(command: str, folder: Path) -> None:
    (folder / ".kube").mkdir()
    (folder / ".kube" / "config").write_text(KUBECONFIG)
    assert completed(command, "--context", "") == ["kind-dev", "arn:aws:eks:eu-west-1:1234:cluster/shop"]
    assert completed(command, "--context", "kind") == ["kind-dev"]


def test_contexts_come_from_the_named_kubeconfig(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("one", "two", "three"):
        (folder / name).write_text(f"contexts: [{{name: {name}}}]")
    monkeypatch.setenv("KUBECONFIG", f"{folder}/one:{folder}/missing:{folder}/two")
    assert completed("run", "--context", "") == ["one", "two"]
    assert completed("run", "--kubeconfig", f"{folder}/three", "--context", "") == ["three"]


@pytest.mark.parametrize(
    "text", ["", "[]", "contexts: 3", "contexts: {a: b}", "{", "\x00", "[" * 5000, "date: 2026-99-99"]
)
def test_a_kubeconfig_that_cannot_be_read_has_no_contexts(text: str, folder: Path) -> None:
    (folder / "config").write_text(text)
    assert completed("run", "--kubeconfig", "config", "--context", "") == []


def test_a_kubeconfig_and_a_folder_to_write_to_are_completed_by_the_shell() -> None:
    assert kinds("run", "--kubeconfig", "") == {"file"}
    assert kinds("manifests", "--out", "") == {"dir"}


def kinds(*words: str) -> set[str]:
    items = ShellComplete(reconcile, {}, "reconcile", "").get_completions(list(words[:-1]), words[-1])
    return {item.type for item in items}


def test_help_completes_commands() -> None:
    assert completed("help", "man") == ["manifests"]


def test_a_command_whose_library_is_missing_completes_to_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object) -> click.Command:
        raise ModuleNotFoundError("No module named 'cel_expr_python'")

    monkeypatch.setattr(Subcommand, "load", missing)
    assert "dev" in completed("dev")
    assert completed("dev", "--no") == []


# --- kubectl ------------------------------------------------------------------------------------------


@pytest.fixture
def asked_by_kubectl(scripts: dict[str, str], tmp_path: Path) -> Callable[..., list[str]]:
    if shutil.which("kubectl") is None:
        pytest.skip("this machine has no kubectl")

    def ask(*words: str) -> list[str]:
        return run(scripts, "kubectl", "__complete", "reconcile", *words, cwd=tmp_path).stdout.splitlines()

    return ask


def test_kubectl_completes_commands_with_their_summaries(asked_by_kubectl: Callable[..., list[str]]) -> None:
    *lines, directive = asked_by_kubectl("t")
    assert lines == [f"{name}\t{COMMANDS[name].summary}" for name in ("transitions", "top", "trigger")]
    assert directive == ":36"


def test_kubectl_completes_options_modules_and_nothing(
    asked_by_kubectl: Callable[..., list[str]], tmp_path: Path
) -> None:
    (tmp_path / "sites.py").touch()
    assert asked_by_kubectl("top", "--on") == ["--once\tShow it once and exit.", ":36"]
    assert asked_by_kubectl("manifests", "") == ["sites", ":36"]
    assert asked_by_kubectl("manifests", "--namespace", "") == [":36"]


def test_kubectl_leaves_files_and_folders_to_the_shell(asked_by_kubectl: Callable[..., list[str]]) -> None:
    assert asked_by_kubectl("run", "--kubeconfig", "") == [":0"]
    assert asked_by_kubectl("manifests", "--out", "") == [":16"]


def test_a_description_takes_one_line() -> None:
    items = [CompletionItem("--a", help="first\n  second\tthird"), CompletionItem("--b")]
    assert answer(items) == "--a\tfirst second third\n--b\n:36"
