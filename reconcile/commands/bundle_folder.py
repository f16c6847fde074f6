"""Writes the bundle of an operator into a folder, and says what catalogues would miss."""

from collections.abc import Sequence
from pathlib import Path

import click

from reconcile.commands.problems import Problem, write_files
from reconcile.commands.progress import progress
from reconcile.commands.release_files import faulty_samples, release_of
from reconcile.commands.targets import Operator
from reconcile.shipping.bundle import BESIDE, MANIFESTS, bundle_of, gaps_of
from reconcile.shipping.documents import Document
from reconcile.shipping.installation import Installation
from reconcile.shipping.service_version import BundleError


def write_bundle(
    folder: Path,
    operator: Operator,
    installation: Installation,
    definitions: Sequence[Document],
    version: str,
    replaces: str,
) -> None:
    """Write the files, and what is left to do to stderr. Raises Problem before anything is written."""
    release = release_of(operator, definitions, version, replaces)
    try:
        files = bundle_of(installation, definitions, release)
    except BundleError as error:
        raise Problem(str(error)) from None
    _check_leftovers(folder, {folder / path for path in files})
    with progress("trying the samples"):
        gaps = [*gaps_of(installation, release), *faulty_samples(definitions, release.samples)]
    write_files(folder, files)
    if BESIDE in files:
        gaps.insert(0, f"OLM does not install the objects of {folder / BESIDE}: apply them yourself")
    for gap in gaps:
        click.echo(f"note: {gap}", err=True)


def _check_leftovers(folder: Path, written: set[Path]) -> None:
    """The objects of an earlier bundle would be installed too."""
    found = {file for file in (folder / BESIDE, *(folder / MANIFESTS).glob("*")) if file.exists()}
    if others := sorted(found - written):
        raise Problem(
            f"{others[0].parent} has {others[0].name}, which is not a file of this bundle",
            "delete it, or choose another DIR",
        )
