"""`reconcile check`: each thing that it looks for, and nothing where all is well."""

import itertools
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from controllers import workergroups
from reconcile.commands.main import main, reconcile

_NUMBERS = itertools.count()

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


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))

    def write(text: str) -> str:
        name = f"checked_{next(_NUMBERS)}"
        (tmp_path / f"{name}.py").write_text(text)
        return name

    return write


def test_a_good_module_has_no_faults(
    written: Callable[[str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", written(GOOD)]) == 0
    assert "no faults" in capsys.readouterr().out


def test_each_fault_is_one_line(written: Callable[[str], str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", written(BAD)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == [
        "Bad .spec.replicas",
        "Bad .status",
        "Bad .status.conditions",
    ]
    assert "Scale()" in lines[0]
    assert "observed_generation" in lines[1]
    assert "list_map_keys" in lines[2]


def test_json_prints_a_list_with_the_same_exit_status(
    written: Callable[[str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", written(BAD), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found[0]["kind"], found[0]["path"]) == ("Bad", ".spec.replicas")
    assert all(one["problem"] for one in found)
    assert main(["check", written(GOOD), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []


def test_fields_that_became_required_are_reported(
    written: Callable[[str], str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = CliRunner().invoke(reconcile, ["crds", written(BAD.replace("    owner: str\n", ""))])
    (tmp_path / "crd.yaml").write_text(before.stdout)
    assert main(["check", written(BAD), "--against", "crd.yaml"]) == 1
    assert "Bad .spec.owner: it is required now" in capsys.readouterr().out


def test_another_kind_s_definition_is_refused(
    written: Callable[[str], str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = CliRunner().invoke(reconcile, ["crds", written(GOOD)])
    assert yaml.safe_load(before.stdout)["metadata"]["name"] == "goods.example.com"
    (tmp_path / "crd.yaml").write_text(before.stdout)
    assert main(["check", written(BAD), "--against", "crd.yaml"]) == 2
    assert "has no goods.example.com" in capsys.readouterr().err


def test_fields_of_one_name_in_json_are_reported(
    written: Callable[[str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", written(CLASH)]) == 2
    assert "Spec.pod_ip and .other are both 'podIp' in JSON" in capsys.readouterr().err


RULED = f"""{HEAD}
from reconcile.models import Rule

@frozen
class Spec:
    low: Annotated[int, Schema(rules=Rule("self < 'a'"))] = 1
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


def test_rules_that_do_not_compile_are_reported_with_their_fields(
    written: Callable[[str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", written(RULED)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(": ")[0] for line in lines] == [
        "Ruled .x-kubernetes-validations[0].rule",
        "Ruled .spec.low.x-kubernetes-validations[0].rule",
        "Ruled .spec.ports.x-kubernetes-validations[0].rule",
    ]
    assert "undefined field 'lower'" in lines[0]
    assert "no matching overload" in lines[1]
    assert "Syntax error" in lines[2]
    assert main(["check", written(SOUND)]) == 0


def test_other_refusals_of_the_server_are_reported_too(
    written: Callable[[str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    text = RULED.replace("rules=(", 'columns={"Low": ".spec.low["}, rules=(')
    assert main(["check", written(text.replace("spec.lower", "spec.low"))]) == 1
    assert (
        "Ruled definition.spec.additionalPrinterColumns[0].jsonPath: an API server" in capsys.readouterr().out
    )


def test_without_the_extra_it_reports_that_rules_are_not_compiled(
    written: Callable[[str], str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "reconcile.embedded.schema.cel", None)
    assert main(["check", written(SOUND)]) == 2
    said = capsys.readouterr()
    assert "pip install 'reconcile-runtime[embedded]'" in said.err
    assert "no faults" not in said.out
    assert main(["check", written(GOOD)]) == 0


@pytest.mark.rule("model-versions")
def test_versions_that_lose_fields_are_refused_as_by_crds(
    written: Callable[[str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    module = written(VERSIONS)
    refused = []
    for command in ("check", "crds"):
        assert main([command, module]) == 2
        refused.append(capsys.readouterr().err)
    assert refused[0] == refused[1]
    assert "only v1beta1 has .spec.colour, which a write in v1 loses" in refused[0]


def test_models_of_built_in_kinds_have_no_definition(
    written: Callable[[str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    module = written(BUILT_IN)
    assert main(["check", module]) == 0
    assert main(["crds", module]) == 2
    assert "built-in kinds only: these are served without a definition" in capsys.readouterr().err
    both = written(f"{BUILT_IN}\n{GOOD}")
    assert main(["crds", both]) == 0
    assert capsys.readouterr().out.count("kind: CustomResourceDefinition") == 1


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
