"""`reconcile run`, as a person meets it."""

import json
import signal
import socket
import sys
import textwrap
from pathlib import Path

import pytest

from reconcile import Manager
from reconcile.commands import main, targets
from reconcile.embedded.listener.admin_kubeconfig import render_kubeconfig
from tests.commands.helpers import output_and_complaint, running

OPERATOR = """
from attrs import frozen
from reconcile import Controller, Manager, Object, resource

@frozen
class SiteSpec:
    image: str = "web"

@resource("example.com/v1")
class Site(Object):
    spec: SiteSpec = SiteSpec()

async def keep_site(ctx):
    return None

sites = Controller(Site, keep_site)
more = [sites]
manager = Manager(sites, namespace="shop")
embedded = Manager(sites, embedded=True)
number = 3
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current directory with a module `site_operator`."""
    (tmp_path / "site_operator.py").write_text(OPERATOR)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("RECONCILE_SYNC_SECONDS", "0.01")  # what is not there is not waited for
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    return tmp_path


def kubeconfig(folder: Path, server: str) -> str:
    path = folder / "kubeconfig"
    path.write_text(render_kubeconfig(server, None, "token"))
    return str(path)


def namespaces_operator(here: Path, body: str) -> str:
    """The target of a controller of namespaces in a module of its own, whose reconciler `body` defines."""
    head = "import asyncio\nfrom reconcile import Controller\nfrom reconcile.kinds import Namespace\n"
    tail = "\nnamespaces = Controller(Namespace, keep)\n"
    (here / "namespaces_operator.py").write_text(head + textwrap.dedent(body) + tail)
    return "namespaces_operator:namespaces"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


# --- targets -----------------------------------------------------------------------------------


@pytest.mark.parametrize("attribute", ["sites", "more"])
def test_a_module_of_the_current_directory_provides_one_controller_or_a_list(attribute: str) -> None:
    manager = targets.load_manager([f"site_operator:{attribute}"])
    assert [controller.name for controller in manager.controllers] == ["site"]


def test_a_module_provides_its_manager_or_else_its_controllers(here: Path) -> None:
    (here / "whole.py").write_text("from site_operator import manager, sites\n")
    (here / "parts.py").write_text("from site_operator import sites\nagain = sites\n")
    assert targets.load_manager(["whole"]).options["namespace"] == "shop"
    for target in ("parts", "parts:sites"):
        assert [controller.name for controller in targets.load_manager([target]).controllers] == ["site"]
    assert len(targets.load_manager(["worker-groups", "parts"]).controllers) == 2


def test_a_manager_runs_with_its_own_configuration() -> None:
    manager = targets.load_manager(["site_operator:manager"])
    assert isinstance(manager, Manager)
    assert manager.options["namespace"] == "shop"


def test_controllers_of_several_targets_share_one_manager() -> None:
    manager = targets.load_manager(["worker-groups", "site_operator:sites"])
    assert [controller.name for controller in manager.controllers][1] == "site"
    assert len(manager.controllers) == 2


def test_bundled_controllers_run_beside_a_package_named_controllers(here: Path) -> None:
    (here / "controllers").mkdir()
    (here / "controllers" / "__init__.py").write_text("from site_operator import sites\n")
    with running("run", "worker-groups", "controllers:sites", "--embedded", home=here) as command:
        command.wait_for_log('"site"')
        assert command.seconds_to_end() < 2
        assert command.process.returncode == 0


@pytest.mark.parametrize(
    ("target", "wanted"),
    [
        ("nonsense", "there is no module nonsense, neither in {here} nor installed"),
        ("nonsense", "the bundled controllers are"),
        ("nonsense", "worker-groups"),
        ("twice", "the module twice has 2 managers: name one: twice:first"),
        ("empty", "the module empty has no Manager and no Controller"),
        ("whole parts", "there is no module whole parts"),
        ("no_such_module:manager", "there is no module no_such_module"),
        ("site_operator.py:manager", "name the module, not its file"),
        ("site_operator:nothing", "it has sites, manager, embedded"),
        ("site_operator:number", "is an int: expected a Manager, a Controller or a list of Controllers"),
        ("site_operator:", "write my_module:manager"),
        ("broken:manager", "ZeroDivisionError: division by zero ({here}/broken.py, line 2)"),
        ("unfinished:manager", "SyntaxError"),
        ("needy:manager", "No module named 'no_such_library'"),
        ("exits:manager", "SystemExit"),
    ],
)
def test_a_target_that_cannot_be_run_is_reported_with_the_next_step(
    target: str, wanted: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "broken.py").write_text("def f():\n    return 1 / 0\nmanager = f()\n")
    (here / "unfinished.py").write_text("def f(:\n")
    (here / "needy.py").write_text("import no_such_library\n")
    (here / "twice.py").write_text("from reconcile import Manager\nfirst, second = Manager(), Manager()\n")
    (here / "empty.py").write_text("x = 1\n")
    (here / "exits.py").write_text("raise SystemExit(0)\n")
    out, err = output_and_complaint(capsys, "run", target, "--embedded")
    assert wanted.format(here=here) in err
    assert out == ""


def test_two_controllers_of_one_name_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    _, err = output_and_complaint(capsys, "run", "site_operator:sites", "site_operator:more", "--embedded")
    assert "two controllers are named 'site'" in err


def test_a_manager_is_run_only_without_other_targets(capsys: pytest.CaptureFixture[str]) -> None:
    _, err = output_and_complaint(capsys, "run", "site_operator:manager", "worker-groups", "--embedded")
    assert "name it alone" in err


# --- which server ------------------------------------------------------------------------------


def test_the_first_line_names_context_server_and_namespaces(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server = f"http://127.0.0.1:{free_port()}"
    out, err = output_and_complaint(
        capsys, "run", "site_operator:sites", "--kubeconfig", kubeconfig(here, server)
    )
    assert out.splitlines()[0] == f"context embedded, server {server}, all namespaces"
    assert "nothing listens" in err


def test_the_first_line_names_the_only_namespace(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    server = f"http://127.0.0.1:{free_port()}"
    config = kubeconfig(here, server)
    for arguments, namespace in (
        (["site_operator:sites", "-n", "blue"], "blue"),
        (["site_operator:manager"], "shop"),
        (["site_operator:manager", "--namespace", "blue"], "blue"),
    ):
        out, _ = output_and_complaint(capsys, "run", *arguments, "--kubeconfig", config)
        assert out.splitlines()[0] == f"context embedded, server {server}, namespace {namespace}"


def test_a_remote_server_needs_yes_without_a_terminal(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = kubeconfig(here, "https://192.0.2.1:6443")
    out, err = output_and_complaint(capsys, "run", "site_operator:sites", "--kubeconfig", config)
    assert "server https://192.0.2.1:6443" in out
    assert "--yes" in err


def test_each_of_several_clusters_is_named_and_must_be_confirmed(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clusters = ("--clusters", "east=embedded,west=embedded", "--sync-seconds", "1")
    server = f"http://127.0.0.1:{free_port()}"
    monkeypatch.setenv("KUBECONFIG", kubeconfig(here, server))
    assert main(["run", "site_operator:sites", *clusters]) == 2
    out, err = capsys.readouterr()
    assert out.splitlines()[:2] == [f"context embedded, server {server}, all namespaces"] * 2
    assert err.splitlines()[-1].startswith("error: cannot list")
    _, err = output_and_complaint(capsys, "run", "site_operator:sites", *clusters, "--context", "embedded")
    assert "--kubeconfig and --context do not apply to a manager that names its clusters" in err
    monkeypatch.setenv("KUBECONFIG", kubeconfig(here, "https://192.0.2.1:6443"))
    _, err = output_and_complaint(capsys, "run", "site_operator:sites", *clusters)
    assert "--yes" in err


def test_with_yes_a_remote_server_is_used(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "*")
    config = kubeconfig(here, "http://no-such-host.invalid:6443")
    _, err = output_and_complaint(capsys, "run", "site_operator:sites", "--kubeconfig", config, "--yes")
    assert "no-such-host.invalid" in err
    assert "--yes" not in err


@pytest.mark.parametrize(("answer", "goes_on"), [("y\n", True), ("n\n", False), ("\n", False)])
def test_on_a_terminal_it_asks_before_using_a_remote_server(
    answer: str,
    goes_on: bool,
    here: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers = iter([answer.strip()])
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("click.termui.visible_prompt_func", lambda _prompt: next(answers))
    monkeypatch.setenv("NO_PROXY", "*")
    config = kubeconfig(here, "http://no-such-host.invalid:6443")
    _, err = output_and_complaint(capsys, "run", "site_operator:sites", "--kubeconfig", config)
    assert ("nothing was started" in err) is not goes_on
    assert ("no-such-host.invalid" in err) is goes_on


@pytest.mark.parametrize(
    ("content", "wanted"),
    [("{", "is not YAML"), ("[]", "not a kubeconfig"), (None, "does not exist"), ("", "is empty")],
)
def test_a_bad_kubeconfig_is_reported_in_one_line(
    content: str | None, wanted: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if content is not None:
        (here / "bad").write_text(content)
    out, err = output_and_complaint(capsys, "run", "site_operator:sites", "--kubeconfig", str(here / "bad"))
    assert wanted in err
    assert out == ""


def test_without_a_cluster_the_embedded_server_is_suggested(capsys: pytest.CaptureFixture[str]) -> None:
    _, err = output_and_complaint(capsys, "run", "site_operator:sites")
    assert "--embedded" in err


def test_an_embedded_run_takes_no_kubeconfig(capsys: pytest.CaptureFixture[str]) -> None:
    for target in (["site_operator:sites", "--embedded"], ["site_operator:embedded"]):
        _, err = output_and_complaint(capsys, "run", *target, "--context", "kind")
        assert "--kubeconfig and --context" in err


@pytest.mark.rule("start-waits")
def test_a_server_that_is_not_there_yet_is_waited_for_with_one_line(here: Path) -> None:
    target = namespaces_operator(here, "async def keep(ctx): pass")
    port = free_port()
    config = kubeconfig(here, f"http://127.0.0.1:{port}")
    (here / "server").mkdir()
    with running("run", target, "--kubeconfig", config, home=here) as command:
        command.wait_for_log("waiting for the API server")
        with running("apiserver", "--insecure-http", "--port", str(port), home=here / "server"):
            command.wait_for_log('"started"')
            assert command.complaints.count("waiting for the API server") == 1
            command.seconds_to_end()
            assert command.process.returncode == 0


def test_a_kind_that_the_server_does_not_serve_is_reported_in_one_line(here: Path) -> None:
    with running("apiserver", "--insecure-http", home=here) as server:
        url = server.wait_for("API server on").removeprefix("API server on ")
        options = ("--kubeconfig", kubeconfig(here, url), "--sync-seconds", "1")
        with running("run", "site_operator:sites", *options, home=here) as command:
            command.wait_for(f"context embedded, server {url}, all namespaces")
            assert command.process.wait(timeout=10) == 2
            problems = [line for line in command.complaints.splitlines() if not line.startswith("{")]
            assert len(problems) == 1
            assert "install its CustomResourceDefinition" in problems[0]


# --- staying up and ending ---------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_embedded_run_ends_cleanly_within_two_seconds(number: signal.Signals, here: Path) -> None:
    with running("run", "site_operator:embedded", home=here) as command:
        command.wait_for("context embedded, server https://127.0.0.1:")
        file = Path(command.wait_for("export KUBECONFIG=").removeprefix("export KUBECONFIG="))
        assert file.stat().st_mode & 0o077 == 0
        command.wait_for_log('"site"')
        assert command.seconds_to_end(number) < 2
        assert command.process.returncode == 0
        assert not file.parent.exists()
        started = [json.loads(line) for line in command.complaints.splitlines()]
    assert {"configuration", "started"} == {line["event"] for line in started}
    assert ["site"] in [line.get("controllers") for line in started]
    assert not (here / ".kube").exists()


@pytest.mark.rule("survival-end")
def test_a_manager_that_dies_is_an_error_in_the_log_and_status_1(here: Path) -> None:
    kill = """
        async def keep(ctx):
            for task in asyncio.all_tasks():
                if task.get_name() == "informer of namespaces":
                    task.cancel()
    """
    with running("run", namespaces_operator(here, kill), "--embedded", home=here) as command:
        assert command.process.wait(timeout=20) == 1
        assert "stopped" not in command.said
        *lines, last = command.complaints.splitlines()
    assert last.startswith(
        "error: the manager has ended: Interrupted: the informer of namespaces was cancelled"
    )
    (line,) = [one for one in map(json.loads, lines) if one["level"] == "error"]
    assert line["event"] == "the manager has ended"


@pytest.mark.rule("survival-run")
def test_a_run_that_raises_cancelled_error_does_not_end_the_command(here: Path) -> None:
    target = namespaces_operator(here, "async def keep(ctx): raise asyncio.CancelledError")
    with running("run", target, "--embedded", home=here) as command:
        command.wait_for_log("keep raised CancelledError")
        assert command.process.poll() is None
        assert command.seconds_to_end() < 5
        assert command.process.returncode == 0


def test_bundled_controllers_import_nothing_from_the_current_directory(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry not in ("", str(here))])
    targets.load_manager(["worker-groups", "registry-secrets"])
    assert str(here) not in sys.path
    targets.load_manager(["site_operator:manager"])
    assert sys.path[0] == str(here)
