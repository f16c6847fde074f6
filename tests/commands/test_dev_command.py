"""`reconcile dev`: an operator at work while it is being written."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import anyio
import pytest
from attrs import evolve
from click.testing import CliRunner
from rich.console import Console

from reconcile.commands.dev_command import Development, _conditions
from reconcile.commands.dev_screen import DevLines, Shown, runs_of, view_of
from reconcile.commands.dev_sources import Sources
from reconcile.commands.embedded_cluster import embedded_cluster
from reconcile.commands.main import reconcile
from reconcile.commands.problems import Problem
from tests.commands.helpers import Command, running

KUBECTL = shutil.which("kubectl")
SITE = Path(__file__).parents[2] / "docs" / "examples" / "site"


@pytest.fixture
def greeter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(reconcile, ["init", "greeter"]).exit_code == 0
    return tmp_path / "greeter"


@pytest.fixture
def command(greeter: Path) -> Iterator[Command]:
    with running("dev", "greeter", home=greeter) as started:
        yield started


def edit(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


@pytest.mark.skipif(KUBECTL is None, reason="this machine has no kubectl")
def test_an_operator_runs_is_reloaded_and_ends(greeter: Path, command: Command) -> None:
    kubeconfig = command.wait_for("export KUBECONFIG=").partition("=")[2]

    def kubectl(*arguments: str) -> str:
        asked = [str(KUBECTL), "--kubeconfig", kubeconfig, *arguments]
        environment = {**os.environ, "HOME": str(greeter)}
        done = subprocess.run(asked, capture_output=True, text=True, timeout=30, env=environment)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert command.wait_for("started") == "started greeter"
    kubectl("apply", "-f", str(greeter / "sample.yaml"))
    command.wait_for("object: Greeter default/sample Ready=True")
    assert "wrote " in command.wait_for("run: greeter default/sample")
    message = ("get", "configmap", "sample-config", "-o", "jsonpath={.data.message}")
    assert kubectl(*message) == "hello"

    reconciler = greeter / "greeter" / "reconciler.py"
    edit(reconciler, "wanted.spec.message}", "wanted.spec.message.upper(}")
    assert "reconciler.py" in command.wait_for("not reloaded: ")
    edit(reconciler, "wanted.spec.message.upper(}", "wanted.spec.message.upper()}")
    command.wait_for("restarted greeter (1)")
    command.wait_for("run: greeter default/sample")
    assert kubectl(*message) == "HELLO"

    edit(greeter / "greeter" / "models.py", "    message: ", "    volume: int = 0\n    message: ")
    command.wait_for("restarted greeter (2)")
    assert "volume" in kubectl(
        "get", "crd", "greeters.example.com", "-o", "jsonpath={.spec.versions[0].schema}"
    )

    assert command.seconds_to_end(signal.SIGINT) < 5
    assert command.process.returncode == 0
    assert Path(kubeconfig) == greeter / ".reconcile" / "greeter" / "kubeconfig"


@pytest.mark.skipif(KUBECTL is None, reason="this machine has no kubectl")
@pytest.mark.rule("workloads-commands")
@pytest.mark.parametrize(
    ("options", "pods", "ready"),
    [((), "2", "True"), (("--no-workloads",), "", "False")],
    ids=["workloads", "no-workloads"],
)
def test_a_site_becomes_ready_unless_something_else_creates_its_pods(
    tmp_path: Path, options: tuple[str, ...], pods: str, ready: str
) -> None:
    shutil.copytree(SITE, tmp_path / "site")
    site = {
        "apiVersion": "example.com/v1",
        "kind": "Site",
        "metadata": {"name": "web"},
        "spec": {"image": "nginx:1.29", "replicas": 2},
    }
    with running("dev", "sites", *options, home=tmp_path, path=tmp_path / "site") as command:
        kubeconfig = command.wait_for("export KUBECONFIG=").partition("=")[2]
        command.wait_for("started site")
        kubectl = [str(KUBECTL), "--kubeconfig", kubeconfig]
        environment = {**os.environ, "HOME": str(tmp_path)}
        subprocess.run(
            [*kubectl, "apply", "-f", "-"],
            input=json.dumps(site),
            text=True,
            env=environment,
            check=True,
            capture_output=True,
        )
        command.wait_for(f"object: Site default/web Ready={ready}")
        said = subprocess.run(
            [*kubectl, "get", "deployment", "web", "-o", "jsonpath={.status.readyReplicas}"],
            text=True,
            env=environment,
            check=True,
            capture_output=True,
        )
        assert said.stdout == pods
        assert not any("simulated" in line for line in command.lines if line.startswith("run: "))


def is_healthy(address: str, seconds: float = 15) -> bool:
    """Whether a manager answers there, before long."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            with urllib.request.urlopen(f"{address}/healthz", timeout=2) as answer:
                return bool(answer.status == 200)
        except OSError:
            time.sleep(0.1)
    return False


def test_the_manager_keeps_its_address_when_it_is_reloaded(greeter: Path, command: Command) -> None:
    address = command.wait_for("reconcile top --manager ").rpartition(" ")[2]
    for reload in (1, 2):
        with (greeter / "greeter" / "reconciler.py").open("a") as file:
            file.write(f"# {reload}\n")
        command.wait_for(f"restarted greeter ({reload})")
        assert is_healthy(address)


async def test_a_reload_takes_another_port_if_the_former_one_is_in_use(
    greeter: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(greeter)
    monkeypatch.syspath_prepend(str(greeter))
    sources = Sources("greeter")
    work = Development(sources, sources.load(), Console(file=StringIO()), None)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        work._address = f"127.0.0.1:{port}"
        async with embedded_cluster(tmp_path / "kubeconfig") as cluster, anyio.create_task_group() as group:
            group.start_soon(work._run, cluster, anyio.Event())
            with anyio.fail_after(20):
                while work._running is None or not work._running.address:
                    await anyio.sleep(0.05)
            assert not work._running.address.endswith(f":{port}")
            group.cancel_scope.cancel()


def test_a_missing_module_is_reported_at_once(tmp_path: Path) -> None:
    with running("dev", "nowhere", home=tmp_path) as command:
        assert command.process.wait(timeout=30) == 2
        assert command.complaints.startswith("error: there is no module nowhere")


# --- reloading ------------------------------------------------------------------------------------------


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sources:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    (tmp_path / "beside_it.py").write_text("name = 'first'\n")
    (tmp_path / "watched_operator.py").write_text(
        "import beside_it\nfrom reconcile import Controller\nfrom reconcile.kinds import Pod\n"
        "async def keep(ctx): ...\ncontroller = Controller(Pod, keep, name=beside_it.name)\n"
    )
    return Sources("watched_operator")


def names(sources: Sources) -> list[str]:
    return [controller.name for controller in sources.reload().manager.controllers]


def test_a_change_of_a_neighbouring_module_is_detected(sources: Sources, tmp_path: Path) -> None:
    assert [one.name for one in sources.load().manager.controllers] == ["first"]
    assert not sources.changed()
    (tmp_path / "beside_it.py").write_text("name = 'second'\n")
    assert sources.changed()
    assert not sources.changed()
    assert names(sources) == ["second"]


def test_a_failed_import_leaves_the_former_modules(sources: Sources, tmp_path: Path) -> None:
    sources.load()
    (tmp_path / "beside_it.py").write_text("name = 1 / 0\n")
    assert sources.changed()
    with pytest.raises(Problem, match="ZeroDivisionError"):
        sources.reload()
    assert sys.modules["beside_it"].name == "first"
    (tmp_path / "beside_it.py").write_text("name = 'third'\n")
    assert sources.changed()
    assert names(sources) == ["third"]


# --- what is shown -------------------------------------------------------------------------------------


def shown(conditions: str = "Ready=True", note: str = "started site", storms: bool = True) -> Shown:
    run = {
        "reconcile_id": "1",
        "ended_ago": 1.0,
        "causes": ["update of sites default/web"],
        "wrote": ["apply deployments default/web"],
        "result": "ok",
        "error": "",
    }
    controller = {
        "runs": 7,
        "failures": 1,
        "workers": 10,
        "queue": {"depths": {"0": 2}},
        "running": [],
        "resting": [],
        "storms": {"default/web": {}} if storms else {},
        "recent": {"default/web": [run]},
    }
    state = {"server": "s", "leading": True, "controllers": {"site": controller}, "informers": []}
    return Shown(["API server on s"], note, [("Site", "default/web", conditions)], state)


def test_the_view_has_objects_queues_runs_and_storms() -> None:
    console = Console(file=StringIO(), width=120, record=True)
    console.print(view_of(shown()))
    said = console.export_text()
    for part in (
        "API server on s",
        "Site  default/web  Ready=True",
        "update of sites",
        "storms",
        "default/web",
    ):
        assert part in said
    row = next(line for line in said.splitlines() if line.startswith("site ") and "7" in line)
    assert row.split() == ["site", "2", "0", "7", "1"]


def with_errors(verbose: bool) -> Shown:
    given = shown()
    error = {"error": "OSError: no disk", "at": "sites.py:12", "count": 7, "last_ago": 1.0}
    traceback = "Traceback (most recent call last):\n  [bold]in read_disk[/bold]\nOSError: no disk\n"
    site = {**given.state["controllers"]["site"], "errors": [{**error, "traceback": traceback}]}
    return evolve(given, state={**given.state, "controllers": {"site": site}}, verbose=verbose)


@pytest.mark.rule("told-place")
@pytest.mark.parametrize("verbose", [False, True])
def test_the_view_shows_errors_with_their_place_and_on_request_the_traceback(verbose: bool) -> None:
    console = Console(file=StringIO(), width=120, record=True)
    console.print(view_of(with_errors(verbose)))
    said = console.export_text()
    row = next(line for line in said.splitlines() if "OSError: no disk" in line)
    assert row.split() == ["site", "OSError:", "no", "disk", "sites.py:12", "7"]
    assert ("[bold]in read_disk[/bold]" in said) is verbose


@pytest.mark.rule("told-place")
def test_a_line_of_a_failed_run_has_the_place() -> None:
    run = {**shown().state["controllers"]["site"]["recent"]["default/web"][0], "at": "sites.py:12"}
    state = {"controllers": {"site": {"recent": {"default/web": [{**run, "error": "OSError: no disk"}]}}}}
    ((line, _),) = runs_of(state)
    assert ": OSError: no disk, at sites.py:12, woken by" in line


def test_the_view_shows_that_nothing_runs_yet() -> None:
    console = Console(file=StringIO(), width=120, record=True)
    console.print(view_of(Shown([], "", [], {})))
    said = console.export_text()
    assert "no objects yet" in said
    assert "no storms" in said


def test_objects_that_are_not_shown_any_more_were_not_deleted() -> None:
    out = StringIO()
    lines = DevLines(Console(file=out, width=40))
    lines.refresh(Shown([], "", [("Site", "default/b", "")], {}))
    lines.refresh(
        Shown([], "", [("Site", "default/a", "")], {}, {("Site", "default/a"), ("Site", "default/b")})
    )
    lines.refresh(Shown([], "", [], {}, {("Site", "default/b")}))
    assert out.getvalue().splitlines() == [
        "object: Site default/b",
        "object: Site default/a",
        "object: Site default/a was deleted",
    ]


@pytest.mark.parametrize(
    ("status", "text"),
    [
        ({"conditions": [{"type": "Ready", "status": "True"}, "odd"]}, "Ready=True"),
        ({"conditions": {"Ready": "True"}}, ""),
        ({"conditions": None}, ""),
        ("Ready", ""),
        (None, ""),
    ],
)
def test_a_kind_may_mean_something_else_by_its_status(status: Any, text: str) -> None:
    assert _conditions({"status": status}) == text


def test_without_a_terminal_each_change_is_printed_once_in_one_line() -> None:
    out = StringIO()
    lines = DevLines(Console(file=out, width=40))
    lines.refresh(shown(storms=False))
    lines.refresh(shown(storms=False))
    lines.refresh(shown("Ready=False"))
    lines.refresh(Shown(["API server on s"], "started site", [], {}))
    assert out.getvalue().splitlines() == [
        "API server on s",
        "started site",
        "object: Site default/web Ready=True",
        "run: site default/web ok, woken by update of sites default/web; wrote apply deployments default/web",
        "object: Site default/web Ready=False",
        "storm: site default/web",
        "object: Site default/web was deleted",
    ]
