"""`reconcile init`: the operator that it makes passes its own tests and mypy --strict."""

import hashlib
import importlib.metadata
import io
import os
import re
import subprocess
import sys
import tomllib
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
    assert "5 passed" in run(made / name, "pytest", "-q", "-p", "no:cacheprovider")


@pytest.mark.parametrize("name", ["web-hooked", "gadgets"])
def test_a_new_operator_with_webhooks_tests_its_admission(made: Path, name: str) -> None:
    assert "7 passed" in run(made / name, "pytest", "-q", "-p", "no:cacheprovider")
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
    assert "install --no-cache-dir --find-links wheels --require-hashes -r requirements.lock\n" in docker
    assert "!wheels\n" in (folder / ".dockerignore").read_text()
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


def test_the_image_has_what_its_build_copies_and_nothing_else_gets_in(made: Path) -> None:
    folder = made / "web-greeter"
    copied = [
        line.split()[1:-1] for line in (folder / "Dockerfile").read_text().splitlines() if "COPY" in line
    ]
    from_folder = {file for files in copied for file in files if not files[0].startswith("--from")}
    assert from_folder == {"wheels", "requirements.lock", "web_greeter"}
    ignored = (folder / ".dockerignore").read_text().splitlines()
    assert "*" in ignored
    assert {line[1:] for line in ignored if line.startswith("!")} == from_folder


def test_the_image_runs_as_a_number_and_needs_no_shell(made: Path) -> None:
    lines = (made / "web-greeter" / "Dockerfile").read_text().splitlines()
    last = lines[len(lines) - lines[::-1].index("FROM ${BASE}") :]
    assert not [line for line in last if line.startswith("RUN")]
    assert "USER 65532:65532" in last
    assert 'ENTRYPOINT ["reconcile"]' in last
    assert any(line.startswith("ENV") and "PYTHONDONTWRITEBYTECODE=1" in line for line in last)


def test_the_image_is_installed_by_hash_alone(made: Path, tmp_path: Path) -> None:
    """Its build, run by a shell with the folders in another place and without an index."""
    folder = made / "web-greeter"
    (made_wheel,) = (folder / "wheels").iterdir()
    digest = hashlib.sha256(made_wheel.read_bytes()).hexdigest()
    text = (folder / "Dockerfile").read_text().replace("\\\n", "")
    (command,) = (line for line in text.splitlines() if line.startswith("RUN") and "pip" in line)
    script = command.removeprefix("RUN ").replace("/venv", f"{tmp_path}/venv")
    script = (
        script.replace("RUN ", "")
        .replace("pip --python", f"{sys.executable} -m pip --python")
        .replace("--require-hashes", "--require-hashes --no-index --no-deps -q")
    )
    for digits, status, said in ((64 * "0", 1, "DO NOT MATCH THE HASHES"), (digest, 0, "")):
        lock = f"reconcile-runtime=={made_wheel.name.split('-')[1]} --hash=sha256:{digits}\n"
        (folder / "requirements.lock").write_text(lock)
        done = subprocess.run(["sh", "-euc", script], cwd=folder, capture_output=True, text=True, timeout=120)
        assert done.returncode == status, done.stderr
        assert said in done.stderr
    assert (tmp_path / "venv" / "bin" / "reconcile").exists()
    assert not (tmp_path / "venv" / "bin" / "pip").exists()
    (folder / "requirements.lock").unlink()


IN_THE_IMAGE = """
import sys
for name in {missing}:
    sys.modules[name] = None
from reconcile.commands.main import main
sys.exit(main({arguments}))
"""


@pytest.mark.parametrize("name", ["web-greeter", "web-hooked"])
def test_the_image_runs_the_operator_with_the_packages_of_its_lock_alone(made: Path, name: str) -> None:
    """The libraries of the extras that it does not name are missing, and it gets as far as its cluster."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    wanted = tomllib.loads((made / name / "pyproject.toml").read_text())["project"]["dependencies"][0]
    named = {*re.search(r"\[(.*)\]", wanted)[1].split(",")}  # type: ignore[index]
    assert named == ({"cli", "webhooks"} if name == "web-hooked" else {"cli"})
    imported = {"cel-expr-python": "cel_expr_python", "google-re2": "re2", "protobuf": "google.protobuf"}
    packages = {extra: {re.split(r"[^\w.-]", one)[0] for one in needs} for extra, needs in extras.items()}
    present = set().union(*(packages[extra] for extra in named))
    missing = {imported.get(one, one.replace("-", "_")) for one in set().union(*packages.values()) - present}
    assert {"trustme", "pytest", "re2"} <= missing
    assert ("cryptography" in missing) == (name == "web-greeter")
    webhooks = ["--webhooks=127.0.0.1:0", "--webhook-service=a/b"] if name == "web-hooked" else []
    arguments = ["run", f"{name.replace('-', '_')}:manager", "--yes", "--kubeconfig=none", *webhooks]
    code = IN_THE_IMAGE.format(missing=sorted(missing), arguments=arguments)
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=made / name,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "Error: " not in done.stderr
    assert done.stderr.startswith("error: "), done.stderr
    assert "none" in done.stderr
    assert done.returncode == 2


def tool(folder: Path, name: str, script: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


WRITE = 'for option; do case $option in --output-file=*) echo "$0 $@" >"${option#*=}";; esac; done'


def test_a_lock_and_its_bill_of_materials_are_made_by_the_commands_of_the_makefile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("uv", "cyclonedx-py"):
        tool(tmp_path / "bin", name, WRITE)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    for name in ("MAKEFLAGS", "ARGS"):  # those of `make test ARGS=...` are not for the make below
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    assert invoke("locked", "--lock").exit_code == 0
    folder = tmp_path / "locked"
    files = [folder / "requirements.lock", folder / "sbom.cdx.json"]
    before = [file.read_text() for file in files]
    assert "--generate-hashes" in before[0]
    assert "--spec-version=1.6" in before[1]
    subprocess.run(["make", "-s", "lock"], cwd=folder, check=True, timeout=30)
    assert [file.read_text().split() for file in files] == [text.split() for text in before]


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (None, "requirements.lock is not written: uv is not installed: pip install uv cyclonedx-bom"),
        ("echo 'no index' >&2; exit 2", "requirements.lock is not written: uv says 'no index': then run"),
        ("true", "requirements.lock is not written: uv says 'status 0'"),
    ],
)
def test_a_lock_that_cannot_be_made_is_reported_with_the_next_step(
    script: str | None, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    if script is not None:
        tool(tmp_path / "bin", "uv", script)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    monkeypatch.chdir(tmp_path)
    problem = refused("plain", "--lock")
    assert said in problem.message
    assert "`make lock` in plain" in problem.message
    assert (tmp_path / "plain" / "Makefile").exists()


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
    for file in ("Dockerfile", "Makefile", ".dockerignore", "README.md", ".github/workflows/ci.yaml"):
        assert "wheels" not in (tmp_path / "plain" / file).read_text()


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


HIDING = [("manager", "Manager"), ("context", "Context"), ("config-map", "ConfigMap")]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["Big"], "'Big' is not a valid operator name"),
        (["json"], "json is the name of another Python package"),
        (["yaml"], "yaml is the name of another Python package"),
        (["class"], "class is the name of another Python package"),
        *(([name], f"the kind {kind} would hide what the operator imports") for name, kind in HIDING),
        (["new", "--crd", "hiding.yaml"], "the kind Manager of hiding.yaml would hide what"),
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
    hiding = yaml.safe_dump(definition(SPEC)).replace("kind: Gadget", "kind: Manager")
    (tmp_path / "hiding.yaml").write_text(hiding)
    assert said in refused(*arguments).message
    assert not (tmp_path / "new").exists()
