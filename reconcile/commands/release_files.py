"""What a bundle takes from the files of a project: pyproject.toml, CHANGELOG.md, samples and an icon."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from inspect import cleandoc
from pathlib import Path
from types import ModuleType
from typing import Any

import yaml
from attrs import evolve, frozen

from reconcile.client.manifests import documents_in
from reconcile.commands.problems import Problem
from reconcile.commands.sample_trial import fault_of
from reconcile.commands.targets import Operator
from reconcile.shipping.artifact_hub import served_versions
from reconcile.shipping.changes import changes_of
from reconcile.shipping.documents import Document
from reconcile.shipping.project import Project, ProjectError, project_of, semantic_version
from reconcile.shipping.samples import sample_of
from reconcile.shipping.service_version import DEFAULT_ICON, ICONS, Icon, Release

_SAMPLES = "sample.yaml"
_LARGEST = 256 * 1024
"""Bytes of an icon or of samples: all of a bundle must fit into an object."""


@frozen
class Folders:
    """Where the files of an operator are looked for: beside its module, then beside its pyproject.toml."""

    module: Path | None
    project: Path | None

    def find(self, name: str) -> Path | None:
        folders = dict.fromkeys(folder for folder in (self.module, self.project) if folder is not None)
        return next((folder / name for folder in folders if (folder / name).is_file()), None)


def folders_of(operator: Operator) -> Folders:
    file = getattr(_module_of(operator), "__file__", None)
    if file is None:
        return Folders(None, None)
    folder = Path(file).resolve().parent
    installed = {"site-packages", "dist-packages"} & set(folder.parts)  # a project further up is another one
    above = () if installed else (folder, *folder.parents)
    return Folders(folder, next((one for one in above if (one / "pyproject.toml").is_file()), None))


def project_in(folders: Folders, operator: Operator, version: str) -> Project:
    """What the project says of the operator, and what this version changes. Raises Problem."""
    pyproject = folders.project / "pyproject.toml" if folders.project else None
    try:
        project = project_of(_text(pyproject), operator.name, version)
    except ProjectError as error:
        where = f"in {pyproject}" if pyproject else "no pyproject.toml above the module"
        raise Problem(f"{error} ({where})", "correct it, or give --version for a version") from None
    changelog = folders.project / "CHANGELOG.md" if folders.project else None
    return evolve(project, changes=changes_of(_text(changelog), project.version))


def release_of(operator: Operator, definitions: Sequence[Document], version: str, replaces: str) -> Release:
    """A version of the operator as a catalogue offers it. Raises Problem."""
    folders = folders_of(operator)
    project = project_in(folders, operator, version)
    documented = cleandoc(_module_of(operator).__doc__ or "")
    kinds = ", ".join(one["spec"]["names"]["kind"] for one in definitions)
    return Release(
        project=project,
        samples=samples_of(folders, definitions),
        icon=_icon(folders),
        description=documented or project.summary or f"Reconciles {kinds}.",
        replaces=_replaced(operator, project, replaces),
    )


def samples_of(folders: Folders, definitions: Sequence[Document]) -> Sequence[Document]:
    """A sample or more for each served version: those of sample.yaml, else one with the required fields."""
    written = list(_written(folders.find(_SAMPLES)))
    samples: list[Document] = []
    for definition in definitions:
        for version in served_versions(definition):
            own = [one for one in written if _is_of(one, definition, version)]
            samples += own or [sample_of(definition, version)]
    return samples


def faulty_samples(definitions: Sequence[Document], samples: Sequence[Document]) -> Iterator[str]:
    """The samples that an API server would refuse, each with the reason."""
    for definition in definitions:
        # Another version than the stored one would need the functions of the operator, which do not run here.
        stored = {**definition, "spec": {**definition["spec"], "conversion": {"strategy": "None"}}}
        for version in definition["spec"]["versions"]:
            for sample in samples:
                if not version["storage"] or not _is_of(sample, definition, version):
                    continue
                if fault := fault_of(stored, sample):
                    yield f"the sample of {sample['kind']} is not valid, so give it in {_SAMPLES}: {fault}"


def _module_of(operator: Operator) -> ModuleType:
    return sys.modules[operator.targets[0].partition(":")[0]]


def _text(file: Path | None) -> str:
    if file is None or not file.is_file():
        return ""
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Problem(f"cannot read {file}", str(error)) from None


def _written(file: Path | None) -> Iterator[Document]:
    if file is None:
        return
    _check_size(file)
    try:
        documents = documents_in(_text(file))
    except yaml.YAMLError as error:
        raise Problem(f"{file} is not YAML", str(error)) from None
    for one in documents:
        of_object = isinstance(one, dict) and {"apiVersion", "kind"} <= set(one)
        if not of_object or not isinstance(one.get("metadata"), dict):
            raise Problem(
                f"{file} has a document that is not an object", "expected apiVersion, kind, metadata"
            )
        yield one


def _is_of(sample: Document, definition: Document, version: Mapping[str, Any]) -> bool:
    spec = definition["spec"]
    named = (f"{spec['group']}/{version['name']}", spec["names"]["kind"])
    return (sample["apiVersion"], sample["kind"]) == named


def _icon(folders: Folders) -> Icon:
    for ending, media_type in ICONS.items():
        if file := folders.find(f"icon.{ending}"):
            _check_size(file)
            try:
                return Icon(file.read_bytes(), media_type)
            except OSError as error:
                raise Problem(f"{file} cannot be read", error.strerror or str(error)) from None
    return DEFAULT_ICON


def _check_size(file: Path) -> None:
    if file.stat().st_size > _LARGEST:
        raise Problem(
            f"{file} has more than {_LARGEST} bytes", "make it smaller: it becomes part of an object"
        )


def _replaced(operator: Operator, project: Project, text: str) -> str:
    """A version, of which the name of the ClusterServiceVersion is taken too."""
    if not text:
        return ""
    try:
        version = semantic_version(text.removeprefix(f"{operator.name}.v"))
    except ProjectError as error:
        raise Problem(f"--replaces: {error}", f"or its name, such as {operator.name}.v1.2.0") from None
    if version == project.version:
        raise Problem(f"--replaces: {version} is the version of this bundle", "name the one before it")
    return version
