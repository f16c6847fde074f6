"""`reconcile adopt kopf draft`: an operator to fill in, from the handlers of one on kopf."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click
from attrs import evolve, frozen

import reconcile.kinds
from reconcile.adoption.kopf_draft import Draft, built_in_named
from reconcile.adoption.kopf_draft_modules import modules_of
from reconcile.adoption.kopf_draft_steps import records_field, with_records
from reconcile.adoption.kopf_handlers import KopfOperator, ResourceNames
from reconcile.commands.init_command import Project, check_name, files_of, project_of
from reconcile.commands.init_wheel import wheel
from reconcile.commands.kopf_options import code_options, read_or_refuse
from reconcile.commands.models_command import read_definition
from reconcile.commands.problems import Problem, write_files
from reconcile.commands.progress import progress
from reconcile.commands.sample_trial import fault_of
from reconcile.models import kind_of
from reconcile.shipping.documents import as_yaml

_SAMPLE_ROW: Final = "| `sample.yaml` |"


@click.command()
@click.argument("name")
@code_options
@click.option(
    "--crd",
    "crds",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path),
    metavar="FILE",
    help="A CustomResourceDefinition whose handlers are drafted.",
)
@click.option(
    "--kind",
    "built_in",
    multiple=True,
    metavar="KIND",
    help="A kind of Kubernetes whose handlers are drafted, like `configmaps`.",
)
@click.option(
    "--operator",
    "domain",
    metavar="DOMAIN",
    help="A domain that belongs to the operator, for --kind. Default: the group of the first definition.",
)
def draft(
    name: str,
    files: tuple[str, ...],
    modules: tuple[str, ...],
    registry: str,
    crds: tuple[Path, ...],
    built_in: tuple[str, ...],
    domain: str | None,
) -> None:
    """Create a folder NAME with an operator to fill in, from the handlers of one on kopf.

    FILE and MODULE are imported as by `read`. The folder is like one of `reconcile init --crd`: classes from
    the definitions, tests, a Dockerfile; each kind has a controller, and a function for each of the handlers
    of that kind, whose docstring says what called it and what it becomes; sub-handlers become steps, done
    once and recorded in the status. It runs, passes its tests and mypy --strict as it is. Until all functions
    are written it takes no object over, and a cleanup that is not written keeps its object. MOVING.md says
    where each function went, and which have no place in it.
    """
    folder = Path(name)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise Problem(f"{name} already exists", "choose another NAME, or run this in another folder")
    check_name(name)
    if not (crds or built_in):
        raise Problem(
            "no kind was named", "name definitions by --crd FILE, kinds of Kubernetes by --kind KIND"
        )
    operator = read_or_refuse(files, modules, registry)
    kinds = [*_custom(name, crds), *_of_kubernetes(name, built_in)]
    drafts = _drafts(operator, kinds, domain or (kinds[0].project.group if crds else ""))
    vendored = wheel()
    texts: dict[str, str | bytes] = {**_files(drafts, kinds, with_wheel=vendored is not None)}
    texts.update(modules_of(drafts, name))
    if vendored is not None:
        texts[f"wheels/{vendored[0]}"] = vendored[1]
    write_files(folder, texts)
    with progress("trying the samples"):
        faults = [fault_of(kind.definition, kind.project.sample) for kind in kinds]
    for one, kind, fault in zip(drafts, kinds, faults, strict=True):
        if fault:
            where = folder / one.sample
            click.echo(f"{where} is not a valid {kind.project.kind} yet; fill it in: {fault}")
    click.echo(f"next: cd {name} && pip install -e '.[dev]' && pytest, then MOVING.md")


@frozen
class _Kind:
    """A kind that is drafted; one of Kubernetes has no definition."""

    project: Project
    names: ResourceNames
    definition: Mapping[str, Any] | None = None


def _custom(name: str, crds: Sequence[Path]) -> Iterator[_Kind]:
    """Raises Problem."""
    for crd in crds:
        with progress(f"reading {crd}"):
            definition = read_definition(crd)
            project = project_of(name, definition, str(crd))
        yield _Kind(project, ResourceNames.of_definition(definition), definition)


def _of_kubernetes(name: str, words: Sequence[str]) -> Iterator[_Kind]:
    """Raises Problem."""
    for word in words:
        found = built_in_named(word)
        if found is None:
            raise Problem(
                f"--kind: {word} is not a kind of Kubernetes that a class is known for",
                "name it as in `configmaps` or `deployments.apps`; draft your own kinds by --crd",
            )
        kind, names = found
        resource = kind_of(getattr(reconcile.kinds, kind)).resource
        place = {"namespace": "default"} if resource.namespaced else {}
        sample = {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {"name": "sample", **place},
        }
        yield _Kind(Project(name, kind, resource.plural, resource.group, sample), names)


def _drafts(operator: KopfOperator, kinds: Sequence[_Kind], domain: str) -> Sequence[Draft]:
    """A draft for each kind. Raises Problem."""
    found = []
    for kind in kinds:
        beside = [other.names for other in kinds if other is not kind]
        if any(other.kind.lower() == kind.names.kind.lower() for other in beside):
            raise Problem(
                f"two of the kinds are named {kind.names.kind}", "draft one of them into a folder of its own"
            )
        if kind.definition is None and not domain:
            raise Problem(
                f"{kind.names.kind} is a kind of Kubernetes, and other operators may keep it too",
                "give --operator DOMAIN, a domain of yours, for finalizers and field managers",
            )
        own = "" if kind.definition is not None else domain
        project, first = kind.project, kind is kinds[0]
        field = records_field(kind.definition) if kind.definition is not None else ""
        one = Draft(project.package, project.kind, operator, kind.names, beside, first, own, field)
        if one.is_empty:
            resource = f"{kind.names.plural}.{kind.names.group}".rstrip(".")
            raise Problem(
                f"no handler is for {resource}",
                "name the kinds whose objects they handle; reconcile adopt kopf read lists theirs",
            )
        found.append(one)
    return found


def _files(drafts: Sequence[Draft], kinds: Sequence[_Kind], *, with_wheel: bool) -> Mapping[str, str]:
    """The files of a new operator without what is drafted of it: models, samples, and what ships it."""
    project = evolve(kinds[0].project, webhooks=any(one.admits for one in drafts))
    package = project.package
    files = {**files_of(project, with_wheel=with_wheel)}
    for path in (f"tests/test_{package}_admission.py", f"{package}/admission.py", f"{package}/models.py"):
        files.pop(path, None)
    for one, kind in zip(drafts, kinds, strict=True):
        files[one.sample] = as_yaml(dict(kind.project.sample))
        if kind.definition is not None:
            files[f"{package}/{one.module('models')}.py"] = _models(one, kind)
    if not drafts[0].admits:
        files["README.md"] = _without(f"`{package}/admission.py`", files["README.md"])
    files["README.md"] = files["README.md"].replace(_SAMPLE_ROW, _rows(drafts[1:]) + _SAMPLE_ROW)
    if kinds[0].definition is None:
        for path in ("README.md", ".github/workflows/ci.yaml"):
            files[path] = _without(f"{package}.models", _without(f"{package}/models.py", files[path]))
    return files


def _models(draft: Draft, kind: _Kind) -> str:
    """The classes of a kind, with a field for the records of steps where there are any."""
    if kind.definition is None or not draft.stepped:
        return kind.project.models
    return with_records(kind.definition, draft.steps_field)


def _rows(drafts: Sequence[Draft]) -> str:
    """The rows of the README for further kinds."""
    return "".join(
        f"| `{one.package}/{one.module('reconciler')}.py`, `{one.sample}` | the same for {one.kind} |\n"
        for one in drafts
    )


def _without(word: str, text: str) -> str:
    return "".join(line for line in text.splitlines(keepends=True) if word not in line)
