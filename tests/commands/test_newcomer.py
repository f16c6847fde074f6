"""The first hour of somebody who has never seen the project: an empty folder, and the built wheel."""

import csv
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from attrs import frozen

from tests.commands.helpers import running

ROOT = Path(__file__).parents[2]
KUBECTL = shutil.which("kubectl")
PATIENCE = 60.0
"""Seconds from the installation to the first reconcile, at most."""
DEV_SECONDS = float(os.environ.get("NEWCOMER_DEV_SECONDS", "3"))
"""So long `reconcile dev` stays up; `make newcomer` gives it 10."""

pytestmark = [
    pytest.mark.skipif(KUBECTL is None, reason="this machine has no kubectl"),
    pytest.mark.timeout(180),  # the first test also waits for the installation
]


@frozen
class Newcomer:
    """An empty folder, and an interpreter for which the wheel is installed. `since` is when that was done."""

    home: Path
    python: str
    since: float

    def run(self, folder: Path, *command: str) -> str:
        environment = {"HOME": str(self.home), "PATH": os.environ["PATH"]}
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=100
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def reconcile(self, folder: Path, *arguments: str) -> str:
        return self.run(folder, self.python, "-m", "reconcile", *arguments)

    def kubectl(self, kubeconfig: str, *arguments: str) -> str:
        return self.run(self.home, str(KUBECTL), "--kubeconfig", kubeconfig, *arguments)


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """The wheel and the sdist, of one moment."""
    folder = tmp_path_factory.mktemp("dist")
    built = ["hatchling", "build", "-t", "sdist", "-t", "wheel", "-d", str(folder)]
    subprocess.run([sys.executable, "-m", *built], cwd=ROOT, check=True, capture_output=True, timeout=100)
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return {"wheel": wheel, "sdist": sdist}


def installed(folder: Path, archive: Path) -> Newcomer:
    """An empty environment in which the wheel, or the sdist, was installed, and nothing else of ours."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / "venv")], check=True)
    (python,) = (folder / "venv").glob("*/python")
    (packages,) = (folder / "venv").glob("**/site-packages")
    # What we depend on comes from the environment of the tests; .pth files there are not followed from here.
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    pip = ["pip", "--disable-pip-version-check", "--python", str(python)]
    # The editable install of the tests' environment is no former version of this one.
    install = ["install", "--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--ignore-installed"]
    subprocess.run([sys.executable, "-m", *pip, *install, str(archive)], check=True, timeout=100)
    (folder / "home").mkdir()
    return Newcomer(folder / "home", str(python), time.monotonic())


@pytest.fixture(scope="module")
def newcomer(tmp_path_factory: pytest.TempPathFactory, archives: Mapping[str, Path]) -> Newcomer:
    return installed(tmp_path_factory.mktemp("newcomer"), archives["wheel"])


@pytest.fixture(scope="module")
def greeter(newcomer: Newcomer) -> Path:
    newcomer.reconcile(newcomer.home, "init", "greeter")
    return newcomer.home / "greeter"


def test_the_operator_reconciles_within_a_minute_of_the_installation(
    newcomer: Newcomer, greeter: Path
) -> None:
    with running("dev", "greeter", home=greeter, python=newcomer.python, root=None) as command:
        kubeconfig = command.wait_for("export KUBECONFIG=").partition("=")[2]
        command.wait_for("started greeter")
        newcomer.kubectl(kubeconfig, "apply", "-f", str(greeter / "sample.yaml"))
        command.wait_for("run: greeter default/sample success")
        assert time.monotonic() - newcomer.since < PATIENCE
        until = time.monotonic() + DEV_SECONDS
        while time.monotonic() < until:
            message = f"hello {time.monotonic()}"
            newcomer.kubectl(kubeconfig, "patch", "greeter/sample", "--type=merge", "-p", spec(message))
            command.wait_for("run: greeter default/sample success")
            time.sleep(0.5)
        assert command.process.poll() is None
        assert message in newcomer.kubectl(kubeconfig, "get", "configmap/sample-config", "-o", "yaml")
        assert "error" not in command.complaints.lower()
        assert command.seconds_to_end() < 5


def spec(message: str) -> str:
    return json.dumps({"spec": {"message": message}})


def test_its_tests_pass(newcomer: Newcomer, greeter: Path) -> None:
    said = newcomer.run(greeter, newcomer.python, "-m", "pytest", "-q", "-p", "no:cacheprovider")
    assert "5 passed" in said
    where = [newcomer.python, "-c", "import reconcile; print(reconcile.__file__)"]
    assert str(ROOT) not in newcomer.run(greeter, *where)


@contextmanager
def server(newcomer: Newcomer) -> Iterator[str]:
    """The kubeconfig of the administrator of an embedded server, on which roles are enforced."""
    with running("apiserver", home=newcomer.home, python=newcomer.python, root=None) as command:
        kubeconfig = command.wait_for("export KUBECONFIG=").partition("=")[2]
        command.wait_for("Ctrl-C stops it")
        yield kubeconfig


def as_account(newcomer: Newcomer, kubeconfig: str) -> Path:
    """A kubeconfig of the operator's ServiceAccount, and of nobody else."""
    token = newcomer.kubectl(kubeconfig, "create", "token", "greeter", "-n", "greeter-system").strip()
    content: dict[str, Any] = yaml.safe_load(Path(kubeconfig).read_text())
    content["users"][0]["user"] = {"token": token}
    path = newcomer.home / "greeter" / "account.yaml"
    path.write_text(yaml.safe_dump(content))
    return path


@pytest.mark.parametrize("options", [(), ("--namespaces", "default")], ids=["everywhere", "one namespace"])
def test_it_runs_in_a_cluster_under_the_rights_of_its_manifests(
    newcomer: Newcomer, greeter: Path, options: Sequence[str]
) -> None:
    newcomer.reconcile(greeter, "manifests", "greeter", "--out", "deploy", *options)
    with server(newcomer) as kubeconfig:
        newcomer.kubectl(kubeconfig, "apply", "-k", str(greeter / "deploy"))
        deployments = newcomer.kubectl(kubeconfig, "get", "deployments", "-n", "greeter-system", "-o", "json")
        (deployment,) = json.loads(deployments)["items"]
        arguments = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
        arguments = [one.replace("--serve=:8080", "--serve=127.0.0.1:0") for one in arguments]
        way = ("--kubeconfig", str(as_account(newcomer, kubeconfig)))
        with running(*arguments, *way, home=greeter, python=newcomer.python, root=None) as command:
            command.wait_for_log("started")
            newcomer.kubectl(kubeconfig, "apply", "-f", str(greeter / "sample.yaml"))
            ready = ("wait", "greeter/sample", "--for=condition=Ready", "--timeout=20s")
            newcomer.kubectl(kubeconfig, *ready)
            newcomer.kubectl(kubeconfig, "delete", "greeter/sample")
            assert command.seconds_to_end() < 10
            assert "forbidden" not in command.complaints.lower()
            assert command.process.returncode == 0


# --- both forms, beside a namesake ------------------------------------------------------------------------


def files_of(newcomer: Newcomer) -> Mapping[str, str]:
    """What was installed of ours, by its hash, as the record of the installation has it."""
    (record,) = Path(newcomer.python).parents[1].glob("**/reconcile_runtime-*.dist-info/RECORD")
    rows = csv.reader(record.read_text().splitlines())
    return {path: digest for path, digest, _ in rows if digest and ".dist-info/" not in path}


def test_the_sdist_installs_the_same_and_plays_the_demo_beside_another_package_named_controllers(
    newcomer: Newcomer, archives: Mapping[str, Path], tmp_path: Path
) -> None:
    other = installed(tmp_path, archives["sdist"])
    ours = {path: digest for path, digest in files_of(newcomer).items() if not path.startswith("..")}
    assert ours == {path: digest for path, digest in files_of(other).items() if not path.startswith("..")}
    folder = other.home / "shop"
    (folder / "controllers").mkdir(parents=True)
    (folder / "controllers" / "__init__.py").write_text("raise ImportError('a package of the shop')\n")
    assert "reconcile" in other.reconcile(folder, "--version")
    assert "holds" in other.reconcile(folder, "demo", "--once", "--only", "fleet-scaled-by-hpa")


# --- how soon it answers ----------------------------------------------------------------------------------


def test_help_appears_within_three_tenths_of_a_second(newcomer: Newcomer) -> None:
    """The best of five, as machines have other work; a slow one gets twelve times what it takes to start."""
    help_, nothing = ("-m", "reconcile", "--help"), ("-c", "pass")
    best = {
        arguments: min(seconds_of(newcomer, arguments) for _ in range(5)) for arguments in (help_, nothing)
    }
    assert best[help_] < max(0.3, 12 * best[nothing]), best


def seconds_of(newcomer: Newcomer, arguments: Sequence[str]) -> float:
    started = time.monotonic()
    newcomer.run(newcomer.home, newcomer.python, *arguments)
    return time.monotonic() - started
