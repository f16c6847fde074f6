"""`reconcile adopt kopf draft`: an operator to fill in, from the handlers of one on kopf."""

from pathlib import Path

import click
from attrs import evolve

from reconcile.adoption.kopf_draft import Draft
from reconcile.adoption.kopf_draft_modules import modules_of
from reconcile.adoption.kopf_handlers import ResourceNames
from reconcile.commands.init_command import check_name, files_of, project_of
from reconcile.commands.init_wheel import wheel
from reconcile.commands.kopf_options import code_options, read_or_refuse
from reconcile.commands.models_command import read_definition
from reconcile.commands.problems import Problem, write_files
from reconcile.commands.progress import progress
from reconcile.commands.sample_trial import fault_of


@click.command()
@click.argument("name")
@code_options
@click.option(
    "--crd",
    required=True,
    type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path),
    metavar="FILE",
    help="The CustomResourceDefinition whose handlers are drafted.",
)
def draft(name: str, files: tuple[str, ...], modules: tuple[str, ...], registry: str, crd: Path) -> None:
    """Create a folder NAME with an operator to fill in, from the handlers of one on kopf.

    FILE and MODULE are imported as by `read`. The folder is like one of `reconcile init --crd`: classes from
    the definition, tests, a Dockerfile; its reconciler has a function for each one of theirs, whose docstring
    says what called it and what it becomes. It runs, passes its tests and mypy --strict as it is; a cleanup
    that is not written keeps its object. MOVING.md says where each function went. Handlers of kinds without
    a place in it are listed there too: draft those of another definition into a folder of its own.
    """
    folder = Path(name)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise Problem(f"{name} already exists", "choose another NAME, or run this in another folder")
    check_name(name)
    operator = read_or_refuse(files, modules, registry)
    with progress(f"reading {crd}"):
        definition = read_definition(crd)
        project = project_of(name, definition, str(crd))
    drafted = Draft(project.package, project.kind, operator, ResourceNames.of_definition(definition))
    if drafted.is_empty:
        raise Problem(
            f"no handler is for {drafted.names.plural}.{drafted.names.group}",
            "name the definition whose objects they handle; reconcile adopt kopf read lists theirs",
        )
    project = evolve(project, webhooks=drafted.admits)
    vendored = wheel()
    texts: dict[str, str | bytes] = {**files_of(project, with_wheel=vendored is not None)}
    texts.pop(f"tests/test_{project.package}_admission.py", None)
    texts.update(modules_of(drafted, name))
    if vendored is not None:
        texts[f"wheels/{vendored[0]}"] = vendored[1]
    write_files(folder, texts)
    with progress("trying sample.yaml"):
        fault = fault_of(definition, project.sample)
    if fault:
        click.echo(f"{folder / 'sample.yaml'} is not a valid {project.kind} yet; fill it in: {fault}")
    click.echo(f"next: cd {name} && pip install -e '.[dev]' && pytest, then MOVING.md")
