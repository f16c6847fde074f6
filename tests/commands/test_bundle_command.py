"""`reconcile manifests --olm`: the files of a project become a bundle."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from reconcile.commands.main import reconcile
from reconcile.shipping.bundle import BESIDE
from tests.shipping.olm_rules import faults_of

SOURCE = '''"""Keeps {doors}."""
from reconcile import Controller, Manager, Object, resource

@resource("doors.example.com/v1")
class Door(Object):
    width: int

async def keep(ctx): ...

manager = Manager(Controller(Door, keep))
'''
PYPROJECT = """
[project]
name = "doors"
version = "1.2.0rc1"
description = "Doors for all"
license = "MIT"
authors = [{name = "Ann", email = "ann@example.com"}]
urls = {Source = "https://example.com/doors"}

[tool.reconcile]
display-name = "Doors of Shops"
categories = ["Networking"]
"""
PINNED = ("--image", "registry.example.com/doors@sha256:" + 64 * "0")
SAMPLE: Mapping[str, Any] = {
    "apiVersion": "doors.example.com/v1",
    "kind": "Door",
    "metadata": {"name": "front", "namespace": "shop"},
    "width": 90,
}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a module in a package."""
    package = tmp_path / f"doors_{abs(hash(tmp_path))}"
    package.mkdir()
    (package / "__init__.py").write_text(SOURCE)
    (tmp_path / "pyproject.toml").write_text(PYPROJECT)
    (tmp_path / "CHANGELOG.md").write_text("## [1.2.0-rc.1]\n### Security\n- Locks\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return package


def invoke(project: Path, *options: str, name: str = "doors") -> Result:
    arguments = ["manifests", f"{project.name}:manager", "--name", name, "--olm", "out", *options]
    return CliRunner().invoke(reconcile, arguments)


def written(project: Path) -> Mapping[str, str]:
    folder = project.parent / "out"
    return {str(file.relative_to(folder)): file.read_text() for file in folder.rglob("*") if file.is_file()}


def version_of(project: Path) -> Mapping[str, Any]:
    version: Mapping[str, Any] = yaml.safe_load(
        written(project)["manifests/doors.clusterserviceversion.yaml"]
    )
    return version


def refused(project: Path, *options: str) -> str:
    result = invoke(project, *options)
    assert result.exit_code == 2, result.output
    (line,) = result.stderr.splitlines()
    assert not (project.parent / "out").exists()
    return line


def test_the_project_says_what_the_catalogue_shows(project: Path) -> None:
    result = invoke(project, *PINNED, "--replaces", "1.1.0")
    assert (result.exit_code, result.stderr) == (0, "")
    assert faults_of(written(project)) == []
    version = version_of(project)
    spec, annotations = version["spec"], version["metadata"]["annotations"]
    assert version["metadata"]["name"] == "doors.v1.2.0-rc.1"
    assert (spec["displayName"], spec["replaces"]) == ("Doors of Shops", "doors.v1.1.0")
    assert spec["maintainers"] == [{"name": "Ann", "email": "ann@example.com"}]
    assert (annotations["repository"], annotations["categories"]) == (
        "https://example.com/doors",
        "Networking",
    )
    assert yaml.safe_load(annotations["artifacthub.io/changes"]) == [
        {"kind": "security", "description": "Locks"}
    ]
    assert annotations["artifacthub.io/prerelease"] == "true"


def test_the_docstring_of_the_module_describes_the_operator(project: Path) -> None:
    assert invoke(project).exit_code == 0
    assert version_of(project)["spec"]["description"] == "Keeps {doors}."


@pytest.mark.parametrize("beside", ["module", "project"])
def test_the_samples_are_those_of_sample_yaml(project: Path, beside: str) -> None:
    folder = project if beside == "module" else project.parent
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "other"}}
    (folder / "sample.yaml").write_text(yaml.safe_dump_all([config, SAMPLE]))
    assert invoke(project).exit_code == 0
    assert json.loads(version_of(project)["metadata"]["annotations"]["alm-examples"]) == [SAMPLE]


def test_a_time_in_a_sample_stays_the_text_that_it_is(project: Path) -> None:
    (project / "sample.yaml").write_text(f"{yaml.safe_dump(SAMPLE)}at: 2030-01-01T00:00:00Z\n")
    assert invoke(project).exit_code == 0
    (sample,) = json.loads(version_of(project)["metadata"]["annotations"]["alm-examples"])
    assert sample["at"] == "2030-01-01T00:00:00Z"


def test_a_sample_that_a_server_refuses_is_named(project: Path) -> None:
    (project / "sample.yaml").write_text(yaml.safe_dump({**SAMPLE, "width": "wide"}))
    result = invoke(project, *PINNED)
    assert result.exit_code == 0
    assert "the sample of Door is not valid, so give it in sample.yaml" in result.stderr
    assert "width" in result.stderr


def test_an_icon_beside_the_module_is_taken(project: Path) -> None:
    (project / "icon.png").write_bytes(b"\x89PNG\r\n")
    assert invoke(project).exit_code == 0
    assert version_of(project)["spec"]["icon"] == [{"base64data": "iVBORw0K", "mediatype": "image/png"}]


def test_what_is_left_to_say_goes_to_stderr(project: Path) -> None:
    (project.parent / "pyproject.toml").write_text('[project]\nversion = "1.0.0"')
    result = invoke(project)
    assert result.exit_code == 0
    assert [line.partition(":")[0] for line in result.stderr.splitlines()] == ["note"] * 4
    assert "not pinned: give --image NAME@sha256:DIGEST" in result.stderr


def test_a_bundle_of_the_same_version_is_written_anew(project: Path) -> None:
    assert invoke(project).exit_code == 0
    before = written(project)
    assert invoke(project).exit_code == 0
    assert written(project) == before


@pytest.mark.parametrize("path", ["manifests/old.yaml", "manifests/annotations.yaml", BESIDE])
def test_a_file_of_an_earlier_bundle_is_not_shipped(project: Path, path: str) -> None:
    old = project.parent / "out" / path
    old.parent.mkdir(parents=True)
    old.write_text("kind: ConfigMap")
    result = invoke(project)
    assert result.exit_code == 2
    assert f"has {old.name}, which is not a file of this bundle: delete it" in result.stderr
    assert list(written(project)) == [path]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--replaces", "1.2.0-rc.1"), "--replaces: 1.2.0-rc.1 is the version of this bundle"),
        (("--replaces", "last"), "--replaces: the version is 'last': expected MAJOR.MINOR.PATCH"),
        (("--version", "two"), "the version is 'two': expected MAJOR.MINOR.PATCH"),
        (("--version", "1.0.0+a"), "a ClusterServiceVersion cannot be named doors.v1.0.0+a"),
        (("--namespaces", "shop"), "OLM installs operators for all namespaces"),
        (("--json",), "--olm writes a bundle and nothing else"),
    ],
)
def test_a_bad_option_is_refused_in_one_line(project: Path, options: tuple[str, ...], message: str) -> None:
    assert message in refused(project, *options)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("pyproject.toml", "[project", "pyproject.toml is not TOML"),
        ("pyproject.toml", "", "there is no version"),
        ("pyproject.toml", b"\xff", "cannot read"),
        ("sample.yaml", "a: [", "sample.yaml is not YAML"),
        ("sample.yaml", "- a", "has a document that is not an object"),
        ("sample.yaml", "{apiVersion: v1, kind: Door, metadata: }", "has a document that is not an object"),
        ("sample.yaml", "{kind: Door, kind: Wall}", "'kind' is there twice"),
        ("sample.yaml", "#" * 300_000, "has more than 262144 bytes"),
        ("icon.svg", "#" * 300_000, "has more than 262144 bytes"),
    ],
)
def test_a_bad_file_is_refused_in_one_line(
    project: Path, name: str, content: str | bytes, message: str
) -> None:
    (project.parent / name).write_bytes(content.encode() if isinstance(content, str) else content)
    assert message in refused(project)


def test_versions_are_for_bundles_alone(project: Path) -> None:
    result = CliRunner().invoke(reconcile, ["manifests", f"{project.name}:manager", "--version", "1.0.0"])
    assert "--version and --replaces are for a bundle: give --olm DIR too" in result.stderr


def test_a_chart_shows_the_same_on_artifact_hub(project: Path) -> None:
    (project / "sample.yaml").write_text(yaml.safe_dump(SAMPLE))
    image = "registry.example.com/doors:1.2.0-rc.1"
    arguments = [
        "manifests",
        f"{project.name}:manager",
        "--name",
        "doors",
        "--helm",
        "chart",
        "--image",
        image,
    ]
    result = CliRunner().invoke(reconcile, arguments)
    assert result.exit_code == 0, result.output
    about = yaml.safe_load((project.parent / "chart" / "Chart.yaml").read_text())
    annotations = about["annotations"]
    assert (about["version"], annotations["artifacthub.io/license"]) == ("1.2.0-rc.1", "MIT")
    assert yaml.safe_load(annotations["artifacthub.io/crdsExamples"]) == [SAMPLE]
    assert yaml.safe_load(annotations["artifacthub.io/images"]) == [{"name": "doors", "image": image}]
    assert yaml.safe_load(annotations["artifacthub.io/changes"])[0]["description"] == "Locks"
