"""`reconcile check`: each thing that it looks for, and nothing where all is well."""

import json
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest
import yaml

from controllers import workergroups
from reconcile.commands.main import main

Run: TypeAlias = Callable[..., tuple[int, str]]

HEAD = """
from typing import Annotated

from attrs import frozen
from reconcile import Condition, Object, resource
from reconcile.models import Scale, Schema
"""
GOOD = f"""{HEAD}
@frozen
class Spec:
    replicas: int = 1

@frozen
class Status:
    replicas: int = 0
    selector: str = ""
    conditions: tuple[Condition, ...] = ()
    observed_generation: int | None = None

@resource("example.com/v1", scale=Scale())
class Good(Object):
    spec: Spec
    status: Status = Status()
"""
BAD = f"""{HEAD}
@frozen
class Own:
    type: str

@frozen
class Spec:
    replicas: int
    owner: str

@frozen
class Status:
    conditions: tuple[Own, ...] = ()

@resource("example.com/v1")
class Bad(Object):
    spec: Spec
    status: Status = Status()
"""
CLASH = f"""{HEAD}
@frozen
class Spec:
    pod_ip: str = ""
    other: Annotated[str, Schema(wire="podIp")] = ""

@resource("example.com/v1")
class Clash(Object):
    spec: Spec
"""


RULED = f"""{HEAD}
from reconcile.models import Rule

@frozen
class Spec:
    low: Annotated[int, Schema(rules=Rule("self < 'a'"))]
    high: int = 2
    ports: Annotated[tuple[int, ...], Schema(rules="self.all(port, port >")] = ()

@frozen
class Status:
    observed_generation: int | None = None

@resource("example.com/v1", rules=("self.spec.lower <= self.spec.high",))
class Ruled(Object):
    spec: Spec
    status: Status = Status()
"""
SOUND = (
    RULED.replace("self < 'a'", "self > 0").replace("port >", "port > 0)").replace("spec.lower", "spec.low")
)
NO_COLUMN = SOUND.replace("rules=(", 'columns={"Low": "spec.low"}, rules=(')
VERSIONS = f"""{HEAD}
@frozen
class Spec:
    image: str

@frozen
class OldSpec:
    image: str
    colour: str | None = None

@resource("example.com/v1")
class Site(Object):
    spec: Spec

@resource("example.com/v1beta1", kind="Site")
class OldSite(Object):
    spec: OldSpec
"""
BUILT_IN = f"""{HEAD}
@resource("apps/v1")
class Deployment(Object):
    spec: dict
""".replace("spec: dict", "metadata_only: str = ''")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command on a module with that text: its exit status, and all that it prints."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))

    def run(command: str, text: str, *options: str) -> tuple[int, str]:
        module = f"checked_{zlib.crc32(text.encode())}"
        (tmp_path / f"{module}.py").write_text(text)
        return main([command, module, *options]), "".join(capsys.readouterr())

    return run


@pytest.mark.parametrize(
    ("text", "status", "words"),
    [
        (GOOD, 0, "no faults"),
        (CLASH, 2, "Spec.pod_ip and .other are both 'podIp' in JSON"),
        (NO_COLUMN, 1, "Ruled definition.spec.additionalPrinterColumns[0].JSONPath: an API server"),
    ],
)
def test_the_result_decides_the_exit_status(run: Run, text: str, status: int, words: str) -> None:
    found, said = run("check", text)
    assert found == status
    assert words in said


def test_each_fault_is_one_line(run: Run) -> None:
    status, said = run("check", BAD)
    assert status == 1
    replicas, status_field, conditions = said.splitlines()
    assert replicas.startswith("Bad .spec.replicas:")
    assert "Scale()" in replicas
    assert status_field.startswith("Bad .status:")
    assert "observed_generation" in status_field
    assert conditions.startswith("Bad .status.conditions:")
    assert "list_map_keys" in conditions


def test_json_prints_a_list_with_the_same_exit_status(run: Run) -> None:
    status, said = run("check", BAD, "--json")
    found = json.loads(said)
    assert status == 1
    assert (found[0]["kind"], found[0]["path"]) == ("Bad", ".spec.replicas")
    assert all(one["problem"] for one in found)
    assert run("check", GOOD, "--json") == (0, "[]\n")


def test_fields_that_became_required_are_reported(run: Run, tmp_path: Path) -> None:
    _, before = run("crds", BAD.replace("    owner: str\n", ""))
    (tmp_path / "crd.yaml").write_text(before)
    status, said = run("check", BAD, "--against", "crd.yaml")
    assert status == 1
    assert "Bad .spec.owner: it is required now" in said


def test_the_definition_of_another_kind_is_refused(run: Run, tmp_path: Path) -> None:
    _, before = run("crds", GOOD)
    assert yaml.safe_load(before)["metadata"]["name"] == "goods.example.com"
    (tmp_path / "crd.yaml").write_text(before)
    status, said = run("check", BAD, "--against", "crd.yaml")
    assert status == 2
    assert "has no goods.example.com" in said


def test_rules_that_do_not_compile_are_reported_with_their_fields(run: Run) -> None:
    status, said = run("check", RULED)
    assert status == 1
    lines = said.splitlines()
    assert [line.split(": ")[0] for line in lines] == [
        "Ruled .x-kubernetes-validations[0].rule",
        "Ruled .spec.low.x-kubernetes-validations[0].rule",
        "Ruled .spec.ports.x-kubernetes-validations[0].rule",
    ]
    assert "undefined field 'lower'" in lines[0]
    assert "no matching overload" in lines[1]
    assert "Syntax error" in lines[2]
    assert run("check", SOUND)[0] == 0


def test_without_the_extra_it_reports_that_rules_are_not_compiled(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "reconcile.embedded.schema.cel", None)
    status, said = run("check", SOUND)
    assert status == 2
    assert "pip install 'reconcile-runtime[embedded]'" in said
    assert "no faults" not in said
    assert run("check", GOOD)[0] == 0


@pytest.mark.rule("model-versions")
def test_versions_that_lose_fields_are_refused_as_by_crds(run: Run) -> None:
    status, said = run("check", VERSIONS)
    assert (status, said) == run("crds", VERSIONS)
    assert status == 2
    assert "only v1beta1 has .spec.colour, which a write in v1 loses" in said


def test_models_of_built_in_kinds_have_no_definition(run: Run) -> None:
    assert run("check", BUILT_IN)[0] == 0
    status, said = run("crds", BUILT_IN)
    assert status == 2
    assert "built-in kinds only: these are served without a definition" in said
    status, said = run("crds", f"{BUILT_IN}\n{GOOD}")
    assert status == 0
    assert said.count("kind: CustomResourceDefinition") == 1


@pytest.mark.parametrize("module", ["controllers.nodegroups", "controllers.registrysecrets"])
def test_bundled_kinds_have_no_faults(module: str) -> None:
    assert main(["check", module]) == 0


def test_the_scale_that_the_definition_of_worker_groups_adds_is_not_seen(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """`spec.replicas` of a RayCluster is there for clusters of one group, so it has no default."""
    assert main(["check", "controllers.workergroups"]) == 1
    assert len(capsys.readouterr().out.splitlines()) == 1
    assert "scale" in workergroups.definition()["spec"]["versions"][0]["subresources"]
