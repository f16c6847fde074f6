"""`reconcile crds`: definitions of a module's classes, as files and as text, taken by servers."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from reconcile.commands.main import main, reconcile
from tests.commands.helpers import running

KUBECTL = shutil.which("kubectl")
ROOT = Path(__file__).parents[2]
SAMPLES = sorted((ROOT.parent / "shared" / "samples").glob("*/crd-*.yaml"))

MODULE = '''
from typing import Annotated

from attrs import frozen
from reconcile import Object, resource
from reconcile.models import Scale, Schema
from reconcile.kinds import Deployment


@frozen
class GateSpec:
    """What passes."""

    size: Annotated[int, Schema(minimum=0)] = 1
    colour: str | None = None


@frozen
class GateStatus:
    size: int = 0
    selector: str = ""


@resource("gates.example.com/v1beta1", kind="Gate")
class OldGate(Object):
    spec: GateSpec
    status: GateStatus = GateStatus()


@resource("gates.example.com/v1", scale=Scale(replicas=".spec.size", status=".status.size"))
class Gate(Object):
    spec: GateSpec
    status: GateStatus = GateStatus()


@resource("gates.example.com/v1", namespaced=False)
class Wall(Object):
    pass
'''


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    name = f"gates_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return name


def test_each_kind_of_the_module_is_one_document_and_imported_kinds_are_not(module: str) -> None:
    result = CliRunner().invoke(reconcile, ["crds", module])
    assert result.exit_code == 0
    documents = list(yaml.safe_load_all(result.stdout))
    assert [d["metadata"]["name"] for d in documents] == [
        "gates.gates.example.com",
        "walls.gates.example.com",
    ]
    versions = documents[0]["spec"]["versions"]
    assert [(v["name"], v["storage"]) for v in versions] == [("v1", True), ("v1beta1", False)]


def test_json_prints_one_list_of_the_same_documents(module: str) -> None:
    text = CliRunner().invoke(reconcile, ["crds", module])
    made = json.loads(CliRunner().invoke(reconcile, ["crds", module, "--json"]).stdout)
    assert (made["apiVersion"], made["kind"]) == ("v1", "List")
    assert made["items"] == list(yaml.safe_load_all(text.stdout))


def test_a_folder_that_cannot_be_written_is_reported_in_one_line(
    module: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "taken").write_text("a file")
    assert main(["crds", module, "--out", str(tmp_path / "taken" / "crds")]) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: cannot write ")
    assert said.count("\n") == 1
    assert main(["crds", module, "--out", "crds", "--json"]) == 2


def test_out_writes_a_file_for_each_kind_and_the_same_ones_again(module: str) -> None:
    first = CliRunner().invoke(reconcile, ["crds", module, "--out", "a"])
    second = CliRunner().invoke(reconcile, ["crds", module, "--out", "b"])
    assert (first.exit_code, second.exit_code) == (0, 0)
    names = ["gates.example.com_gates.yaml", "gates.example.com_walls.yaml"]
    assert sorted(path.name for path in Path("a").iterdir()) == names
    assert [(Path("a") / n).read_bytes() for n in names] == [(Path("b") / n).read_bytes() for n in names]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1", "defines no kinds"),
        (
            """
from attrs import frozen
from reconcile import Object, resource
from reconcile.models import Scale

@frozen
class Spec:
    size: int

@resource("a.example.com/v1", scale=Scale(replicas=".spec.size"))
class Sized(Object):
    spec: Spec
""",
            ".spec.size has no default",
        ),
    ],
)
def test_a_class_without_a_definition_is_reported_in_one_line(
    text: str,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    name = f"bad_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert main(["crds", name]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.rule("model-accepted")
@pytest.mark.skipif(KUBECTL is None, reason="this machine has no kubectl")
def test_kubectl_applies_them_in_a_dry_run_of_the_server(module: str, tmp_path: Path) -> None:
    """Those of our own kinds, and what is left of the samples when they have been classes."""
    modules = {module: "own", "controllers.workergroups": "own", "controllers.registrysecrets": "own"}
    for number, sample in enumerate(SAMPLES):
        name = f"{module}_{number}"
        written = CliRunner().invoke(reconcile, ["models", str(sample), "--out", f"{name}.py"])
        assert written.exit_code == 0, written.output
        modules[name] = "samples"
    for name, folder in modules.items():
        made = CliRunner().invoke(reconcile, ["crds", name, "--out", f"crds/{folder}/{name}"])
        assert made.exit_code == 0, made.output
    kubeconfig = tmp_path / "embedded.kubeconfig"
    environment = {"HOME": str(tmp_path), "KUBECONFIG": str(kubeconfig), "PATH": os.environ["PATH"]}
    with running("apiserver", "--kubeconfig-out", str(kubeconfig), home=tmp_path) as server:
        server.wait_for("API server on https://")
        said = ""
        # a RayCluster's definition is too long for the annotation that a client-side apply leaves
        for arguments in (["crds/own"], ["crds/samples", "--server-side"]):
            if not Path(arguments[0]).exists():
                continue
            done = subprocess.run(
                [str(KUBECTL), "apply", "--dry-run=server", "--recursive", "-f", *arguments],
                capture_output=True,
                text=True,
                env=environment,
                timeout=30,
            )
            assert done.returncode == 0, done.stderr
            said += done.stdout
    assert len(re.findall(r"\(server dry run\)", said)) == 4 + len(SAMPLES)


@pytest.mark.rule("model-stable")
@pytest.mark.parametrize("seed", ["0", "1", "random"])
def test_the_text_does_not_depend_on_the_order_of_hashes(module: str, tmp_path: Path, seed: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "reconcile", "crds", module],
        capture_output=True,
        text=True,
        env={"PYTHONHASHSEED": seed, "PYTHONPATH": f"{tmp_path}:{ROOT}"},
        timeout=30,
    )
    assert done.stdout == CliRunner().invoke(reconcile, ["crds", module]).stdout, done.stderr


# --- conversion -----------------------------------------------------------------------------------------

CONVERTED = """
from reconcile import Object, resource
from reconcile.webhooks import converts


@resource("doors.example.com/v1beta1", kind="Door")
class OldDoor(Object):
    size: int = 1


@resource("doors.example.com/v1", kind="Door")
class Door(Object):
    width: int = 1


@converts(OldDoor, Door)
def up(old: OldDoor) -> Door:
    return Door(width=old.size)


@converts(Door, OldDoor)
def down(new: Door) -> OldDoor:
    return OldDoor(size=new.width)
"""


@pytest.fixture
def doors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    name = f"doors_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(CONVERTED)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return name


def test_versions_that_functions_convert_need_the_service_of_the_webhooks(
    doors: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["crds", doors]) == 2
    assert "reconcile crds --webhook-service NAMESPACE/NAME" in capsys.readouterr().err
    result = CliRunner().invoke(reconcile, ["crds", doors, "--webhook-service", "shop/hooks"])
    assert result.exit_code == 0
    conversion = yaml.safe_load(result.stdout)["spec"]["conversion"]
    assert conversion["strategy"] == "Webhook"
    assert conversion["webhook"]["clientConfig"]["service"] == {
        "namespace": "shop",
        "name": "hooks",
        "path": "/convert/doors.doors.example.com",
        "port": 443,
    }
    assert main(["check", doors]) in (0, 1)


def test_a_service_without_namespace_is_refused(module: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["crds", module, "--webhook-service", "hooks"]) == 2
    assert "expected NAMESPACE/NAME" in capsys.readouterr().err
