"""`reconcile init`: the operator that it makes passes its own tests and mypy --strict."""

import importlib.metadata
import io
import os
import subprocess
import sys
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from reconcile.commands.init_wheel import wheel
from reconcile.commands.main import reconcile
from reconcile.commands.problems import Problem
from reconcile.shipping.samples import sample_of

ROOT = Path(__file__).parents[2]


def definition(spec: Mapping[str, Any], scope: str = "Namespaced") -> dict[str, Any]:
    names = {"kind": "Gadget", "plural": "gadgets", "singular": "gadget", "listKind": "GadgetList"}
    schema = {"type": "object", "required": ["spec"], "properties": {"spec": spec}}
    old = {"name": "v1beta1", "served": True, "storage": False, "schema": {"openAPIV3Schema": schema}}
    new = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "gadgets.acme.dev"},
        "spec": {"group": "acme.dev", "scope": scope, "names": names, "versions": [old, new]},
    }


SPEC: Mapping[str, Any] = {
    "type": "object",
    "required": ["size", "color", "parts", "owner", "since"],
    "properties": {
        "size": {"type": "integer", "minimum": 3},
        "color": {"type": "string", "enum": ["red", "blue"]},
        "parts": {"type": "array", "minItems": 1, "items": {"type": "string", "minLength": 8}},
        "owner": {
            "type": "object",
            "required": ["name"],
            "properties": {"name": {"type": "string"}, "mail": {"type": "string"}},
        },
        "since": {"type": "string", "format": "date-time"},
        "note": {"type": "string"},
    },
}
STRANGE: Mapping[str, Any] = {
    "type": "object",
    "required": ["code"],
    "properties": {"code": {"type": "string", "pattern": "^[A-Z]{3}$"}},
}


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(reconcile, ["init", *arguments], standalone_mode=False)


def refused(*arguments: str) -> Problem:
    error = invoke(*arguments).exception
    assert isinstance(error, Problem), error
    assert error.hint
    return error


def run(folder: Path, *command: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=170,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with four operators: two with a kind of their own, and two for a definition."""
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(home)
        for name, scope, more in (
            ("gadgets", "Namespaced", ("--webhooks",)),
            ("wide-gadgets", "Cluster", ()),
        ):
            (home / f"{name}.yaml").write_text(yaml.safe_dump(definition(SPEC, scope)))
            result = invoke(name, "--crd", f"{name}.yaml", *more)
            assert result.exit_code == 0, result.exception
        assert invoke("web-hooked", "--webhooks").exit_code == 0
        result = invoke("web-greeter", "--group", "acme.dev")
        assert result.output.splitlines()[-1] == "next: cd web-greeter && pip install -e '.[dev]' && pytest"
    return home


@pytest.mark.parametrize("name", ["web-greeter", "wide-gadgets"])
def test_a_new_operator_passes_its_own_tests(made: Path, name: str) -> None:
    assert "3 passed" in run(made / name, "pytest", "-q", "-p", "no:cacheprovider")


@pytest.mark.parametrize("name", ["web-hooked", "gadgets"])
def test_a_new_operator_with_webhooks_tests_its_admission(made: Path, name: str) -> None:
    assert "5 passed" in run(made / name, "pytest", "-q", "-p", "no:cacheprovider")
    package = name.replace("-", "_")
    assert f"`{package}/admission.py`" in (made / name / "README.md").read_text()


@pytest.mark.timeout(180)
def test_new_operators_pass_mypy_strict(made: Path) -> None:
    names = ("web-greeter", "web-hooked", "gadgets")
    files = [f"{name}/{part}" for name in names for part in (name.replace("-", "_"), "tests")]
    assert "no issues found in 16 source files" in run(made, "mypy", "--strict", *files)


def test_its_models_have_no_faults(made: Path) -> None:
    assert "no faults" in run(made / "web-greeter", "reconcile", "check", "web_greeter.models")


def test_the_readme_and_the_image_name_files_that_exist(made: Path) -> None:
    folder = made / "web-greeter"
    for file in ("README.md", "Dockerfile", "pyproject.toml", ".github/workflows/ci.yaml"):
        text = (folder / file).read_text()
        assert "web_greeter" in text
        assert "@@" not in text
    yaml.safe_load((folder / ".github/workflows/ci.yaml").read_text())


def test_image_and_ci_install_from_a_wheel_if_no_index_has_it(made: Path, tmp_path: Path) -> None:
    folder = made / "web-greeter"
    (made_wheel,) = (folder / "wheels").iterdir()
    docker = (folder / "Dockerfile").read_text()
    assert "COPY wheels wheels\n" in docker
    assert "pip install --no-cache-dir wheels/*.whl .; \\\n" in docker
    assert "pip install wheels/*.whl -e '.[dev]'" in (folder / ".github/workflows/ci.yaml").read_text()
    assert "`wheels/`" in (folder / "README.md").read_text()
    run(folder, "pip", "install", "--no-deps", "--no-index", "-q", "--target", str(tmp_path), str(made_wheel))
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    code = "import reconcile, controllers.fleets as f; print(reconcile.__file__, f.__file__)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    places = [tmp_path / package / "__init__.py" for package in ("reconcile", "controllers/fleets")]
    assert done.stdout.split() == list(map(str, places)), done.stderr
    names = {entry.name for entry in importlib.metadata.distributions(path=[str(tmp_path)])}
    assert names == {"reconcile-runtime"}


@pytest.mark.parametrize("locked", [False, True])
def test_an_image_installs_by_hash_once_there_is_a_lock(made: Path, tmp_path: Path, locked: bool) -> None:
    text = (made / "web-greeter" / "Dockerfile").read_text()
    command = text.partition("\nRUN ")[2].partition("\n\n")[0].replace("\\\n", "")
    said = tmp_path / "said"
    pip = tmp_path / "venv" / "bin" / "pip"
    pip.parent.mkdir(parents=True)
    pip.write_text(f'#!/bin/sh\necho "$@" >>{said}\n')
    pip.chmod(0o755)
    if locked:
        (tmp_path / "requirements.txt").touch()
    script = command.replace("python -m venv /venv", "true").replace("/venv/", f"{tmp_path}/venv/")
    subprocess.run(["sh", "-euc", script], cwd=tmp_path, check=True)
    hashed = [
        "install --no-cache-dir --find-links wheels --require-hashes -r requirements.txt",
        "install --no-cache-dir --no-deps .",
    ]
    assert said.read_text().splitlines() == (hashed if locked else ["install --no-cache-dir wheels/*.whl ."])


def test_the_same_files_build_the_same_wheel_with_all_installed_files() -> None:
    first, again = wheel(), wheel()
    assert first is not None
    assert first == again
    with zipfile.ZipFile(io.BytesIO(first[1])) as archive:
        names = archive.namelist()
        assert archive.testzip() is None
    for name in (
        "reconcile/py.typed",
        "reconcile/commands/templates/Dockerfile.txt",
        "controllers/fleets/sample.yaml",
    ):
        assert name in names
    assert not any("__pycache__" in name for name in names)


def test_an_installation_from_an_index_needs_no_wheel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    about = tmp_path / "reconcile_runtime-0.1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.4\nName: reconcile-runtime\nVersion: 0.1.0\n")
    found = importlib.metadata.Distribution.at(about)
    monkeypatch.setattr(importlib.metadata, "distribution", lambda name: found)
    assert wheel() is None
    monkeypatch.chdir(tmp_path)
    assert invoke("plain").exit_code == 0
    assert not (tmp_path / "plain" / "wheels").exists()
    for file in ("Dockerfile", "README.md", ".github/workflows/ci.yaml"):
        assert "wheels" not in (tmp_path / "plain" / file).read_text()
    assert "pip install --no-cache-dir .; \\\n" in (tmp_path / "plain" / "Dockerfile").read_text()


def test_a_sample_has_what_its_schema_requires_and_no_more() -> None:
    assert sample_of(definition(SPEC)) == {
        "apiVersion": "acme.dev/v1",
        "kind": "Gadget",
        "metadata": {"name": "sample", "namespace": "default"},
        "spec": {
            "size": 3,
            "color": "red",
            "parts": ["samplexx"],
            "owner": {"name": "sample"},
            "since": "2030-01-01T00:00:00Z",
        },
    }


def test_a_sample_that_the_server_would_refuse_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("crd.yaml").write_text(yaml.safe_dump(definition(STRANGE)))
    said = invoke("strange", "--crd", "crd.yaml").output
    assert "strange/sample.yaml is not a valid Gadget yet; fill it in: " in said
    assert "spec.code" in said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["Big"], "'Big' is not a valid operator name"),
        (["json"], "json is the name of another Python package"),
        (["yaml"], "yaml is the name of another Python package"),
        (["class"], "class is the name of another Python package"),
        (["there"], "there already exists"),
        (["new", "--group", "nonsense"], "'nonsense' is not an API group"),
        (["new", "--crd", "crd.yaml", "--group", "acme.dev"], "--crd and --group were both given"),
    ],
)
def test_an_operator_that_cannot_be_created_is_reported_with_the_next_step(
    arguments: Sequence[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").write_text("")
    (tmp_path / "crd.yaml").write_text(yaml.safe_dump(definition(SPEC)))
    assert said in refused(*arguments).message
    assert not (tmp_path / "new").exists()
