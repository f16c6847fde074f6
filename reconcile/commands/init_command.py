"""`reconcile init`: a small, working operator to start from."""

import importlib.metadata
import importlib.resources
import importlib.util
import keyword
import re
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from attrs import evolve, frozen

from reconcile.commands.init_lock import SBOM_COMMAND, lock_command, write_lock
from reconcile.commands.init_wheel import wheel
from reconcile.commands.models_command import read_definition, source_of_definition
from reconcile.commands.problems import Problem, write_files
from reconcile.commands.progress import progress
from reconcile.commands.sample_trial import fault_of
from reconcile.shipping.documents import as_yaml
from reconcile.shipping.samples import sample_of, stored_version

_TEMPLATES = importlib.resources.files("reconcile.commands") / "templates"
_WHEELS = "wheels"
_ABOUT_WHEELS = """\
reconcile-runtime was not installed from a package index, so `wheels/` has it as it was when this folder was
made, and the Dockerfile and CI install it from there. A new virtual environment needs it too:
`pip install wheels/*.whl -e '.[dev]'`. When an index has it, delete `wheels/`, and in those files
`COPY wheels wheels` and `wheels/*.whl`.

"""
_TAKEN = frozenset({"controllers", "informers", "reconcile", "tests", "workqueue"})


@frozen
class Project:
    """The parts of a new operator. `models` is the source of its kinds; empty: that of the template."""

    name: str
    kind: str
    plural: str
    group: str
    sample: Mapping[str, Any]
    models: str = ""
    webhooks: bool = False
    """With functions that complete and refuse writes."""

    @property
    def package(self) -> str:
        return self.name.replace("-", "_")

    @property
    def key(self) -> str:
        metadata = self.sample["metadata"]
        return f"{metadata['namespace']}/{metadata['name']}" if "namespace" in metadata else metadata["name"]


@click.command()
@click.argument("name")
@click.option(
    "--crd",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path),
    metavar="FILE",
    help="Reconcile the kind of this CustomResourceDefinition instead of an example kind.",
)
@click.option("--webhooks", is_flag=True, help="Add functions that complete and refuse writes of the kind.")
@click.option("--group", metavar="DOMAIN", help="API group of the example kind. Default: example.com.")
@click.option(
    "--lock",
    is_flag=True,
    help="Also write what the image installs, by hash, and its bill of materials: asks the package index."
    " Needs uv and cyclonedx-bom.",
)
def init(name: str, crd: Path | None, webhooks: bool, group: str | None, lock: bool) -> None:
    """Create a folder NAME with a small, working operator.

    It has a model, a reconciler, unit tests, tests of each fault, order of events and change of the spec, a
    Dockerfile, a CI workflow and a README; it passes its tests and mypy --strict. If reconcile-runtime itself
    was not installed from a package index, the image and CI install it from a wheel that is written beside
    them. The image installs what requirements.lock names, by hash. Hashes are known to the package index
    alone, so that file and sbom.cdx.json are written with --lock, or later by `make lock` in the folder.
    """
    check_name(name)
    if crd is not None and group is not None:
        raise Problem("--crd and --group were both given", "leave out --group: the definition has one")
    folder, vendored = Path(name), wheel()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise Problem(f"{name} already exists", "choose another NAME, or run this in another folder")
    if crd is None:
        definition, project = None, _new(name, group or "example.com")
    else:
        with progress(f"reading {crd}"):
            definition = read_definition(crd)
            project = project_of(name, definition, str(crd))
    project = evolve(project, webhooks=webhooks)
    files: dict[str, str | bytes] = {**files_of(project, with_wheel=vendored is not None)}
    if vendored is not None:
        files[f"{_WHEELS}/{vendored[0]}"] = vendored[1]
    write_files(folder, files)
    with progress("trying sample.yaml"):
        fault = "" if definition is None else fault_of(definition, project.sample)
    if fault:
        click.echo(f"{folder / 'sample.yaml'} is not a valid {project.kind} yet; fill it in: {fault}")
    if lock:
        with progress("locking what the image installs"):
            write_lock(folder, f"--find-links={_WHEELS}" if vendored is not None else "")
    click.echo(f"next: cd {name} && pip install -e '.[dev]' && pytest")


def check_name(name: str) -> None:
    """Raises Problem for a name that no new operator can have."""
    package = name.replace("-", "_")
    if not re.fullmatch(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?", name):
        raise Problem(
            f"{name!r} is not a valid operator name",
            "use at most 40 of a-z, 0-9 and dashes, starting with a letter",
        )
    spec = importlib.util.find_spec(package)
    importable = spec is not None and spec.origin is not None  # a plain folder does not count
    if importable or package in _TAKEN | sys.stdlib_module_names or keyword.iskeyword(package):
        raise Problem(f"{name} is the name of another Python package", "choose another, such as my-" + name)


def _new(name: str, group: str) -> Project:
    if not re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+", group):
        raise Problem(f"{group!r} is not an API group", "write a domain, such as example.com")
    kind = "".join(part.capitalize() for part in name.split("-") if part)
    if kind in _imported():
        raise Problem(
            f"the kind {kind} would hide what the operator imports", f"choose another, such as my-{name}"
        )
    metadata = {"name": "sample", "namespace": "default"}
    spec = {"message": "hello"}
    sample = {"apiVersion": f"{group}/v1", "kind": kind, "metadata": metadata, "spec": spec}
    return Project(name, kind, f"objects of {group}/v1 {kind}", group, sample)


def project_of(name: str, definition: Mapping[str, Any], path: str) -> Project:
    """The parts of an operator for the kind of a definition. Raises Problem."""
    source = source_of_definition(dict(definition), path)
    spec = definition["spec"]
    version = stored_version(definition)["name"]
    model = re.search(
        rf'@resource\(\s*"{re.escape(spec["group"])}/{version}".*?\nclass (\w+)\(', source, re.DOTALL
    )
    if model is None:
        raise Problem(f"{path} has no stored version that a class can express", "see reconcile models")
    if model[1] in _imported():
        raise Problem(
            f"the kind {model[1]} of {path} would hide what the operator imports",
            "see reconcile models, and rename the class: @resource(kind=) keeps the name of the kind",
        )
    return Project(name, model[1], spec["names"]["plural"], spec["group"], sample_of(definition), source)


def _imported() -> frozenset[str]:
    """The names that the templates import from this library."""
    files = [file for folder in ("own", "crd", "") for file in _TEMPLATES.joinpath(folder).iterdir()]
    texts = [file.read_text(encoding="utf-8") for file in files if file.name.endswith(".py.txt")]
    lists = re.findall(r"^from reconcile[.\w]* import (.+)$", "\n".join(texts), re.MULTILINE)
    return frozenset(name for names in lists for name in names.split(", "))


def files_of(project: Project, *, with_wheel: bool = False) -> Mapping[str, str]:
    """The texts of a new operator by their paths in its folder; `with_wheel`: installed from `wheels/`."""
    package = project.package
    values = {
        **{part: getattr(project, part) for part in ("name", "package", "kind", "plural", "group", "key")},
        "versions": _versions(),
        "wheels": f"{_WHEELS}/*.whl " if with_wheel else "",
        "find_wheels": f"--find-links {_WHEELS} " if with_wheel else "",
        "ignore_wheels": f"!{_WHEELS}\n" if with_wheel else "",
        "lock_command": shlex.join(lock_command(f"--find-links={_WHEELS}" if with_wheel else "")),
        "sbom_command": shlex.join(SBOM_COMMAND),
        "copy_wheels": f"COPY {_WHEELS} {_WHEELS}\n" if with_wheel else "",
        "about_wheels": _ABOUT_WHEELS if with_wheel else "",
        "extras": "cli,webhooks" if project.webhooks else "cli",
        "child_namespace": "" if "/" in project.key else ', "default"',
        **_admission_values(project),
    }

    def filled(template: str) -> str:
        text = _TEMPLATES.joinpath(f"{template}.txt").read_text(encoding="utf-8")
        return re.sub(r"@@(\w+)@@", lambda match: values[match[1]], text)

    template = "crd" if project.models else "own"
    files = {
        "README.md": filled("README.md"),
        "pyproject.toml": filled("pyproject.toml"),
        "Dockerfile": filled("Dockerfile"),
        "Makefile": filled("Makefile"),
        ".dockerignore": filled("dockerignore"),
        ".gitignore": filled("gitignore"),
        ".github/workflows/ci.yaml": filled("ci.yaml"),
        "sample.yaml": as_yaml(dict(project.sample)),
        f"{package}/__init__.py": filled("init.py"),
        f"{package}/py.typed": "",
        f"{package}/models.py": project.models or filled("own/models.py"),
        f"{package}/reconciler.py": filled(f"{template}/reconciler.py"),
        f"tests/test_{package}.py": filled("tests.py"),
    }
    if project.webhooks:
        files[f"{package}/admission.py"] = filled(f"{template}/admission.py")
        files[f"tests/test_{package}_admission.py"] = filled("admission_tests.py")
    return files


def _admission_values(project: Project) -> Mapping[str, str]:
    if not project.webhooks:
        return dict.fromkeys(("admission_import", "admission_option", "admission_row"), "")
    file = f"{project.package}/admission.py"
    return {
        "admission_import": f"from {project.package}.admission import admission\n",
        "admission_option": ", admission=admission",
        "admission_row": f"| `{file}` | what happens to an object before it is stored |\n",
    }


def _versions() -> str:
    """The versions that a new operator accepts: this one, and later ones without breaking changes."""
    try:
        major, minor = importlib.metadata.version("reconcile-runtime").split(".")[:2]
    except importlib.metadata.PackageNotFoundError:
        return ""
    breaking = f"{major}.{int(minor) + 1}" if major == "0" else int(major) + 1
    return f">={major}.{minor},<{breaking}"
