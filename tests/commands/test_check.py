"""`reconcile check`: each thing that it looks for, and nothing where all is well."""

import itertools
import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from controllers import workergroups
from reconcile.commands.main import main, reconcile

_NUMBERS = itertools.count()

HEAD = """
from attrs import frozen
from reconcile import Condition, Object, Scale, field, resource
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
    other: str = field(default="", wire="podIp")

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


def test_a_good_module_has_nothing_to_mend(
    written: Callable[[str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", written(GOOD)]) == 0
    assert "nothing to mend" in capsys.readouterr().out


def test_each_thing_to_mend_is_one_line(
    written: Callable[[str], str], capsys: pytest.CaptureFixture[str]
) -> None:
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


def test_as_json_it_is_a_list_and_the_same_status(
    written: Callable[[str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", written(BAD), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found[0]["kind"], found[0]["path"]) == ("Bad", ".spec.replicas")
    assert all(one["problem"] for one in found)
    assert main(["check", written(GOOD), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []


def test_fields_that_became_required_are_told(
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


def test_clashing_names_are_told(written: Callable[[str], str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", written(CLASH)]) == 2
    assert "Spec.pod_ip and .other are both 'podIp' in JSON" in capsys.readouterr().err


@pytest.mark.parametrize("module", ["controllers.nodegroups", "controllers.registrysecrets"])
def test_our_own_kinds_have_nothing_to_mend(module: str) -> None:
    assert main(["check", module]) == 0


def test_of_worker_groups_it_sees_no_scale_which_their_definition_adds(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """`spec.replicas` of a RayCluster is there for clusters of one group, so it has no default."""
    assert main(["check", "controllers.workergroups"]) == 1
    assert len(capsys.readouterr().out.splitlines()) == 1
    assert "scale" in workergroups.definition()["spec"]["versions"][0]["subresources"]
