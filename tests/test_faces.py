"""Faces of packages: what `dir` shows, and that they work from a zip file, as zipapp and shiv install."""

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

import reconcile
from tests.docs.public import PUBLIC, names_of

ROOT = Path(__file__).parent.parent
USE_ALL_NAMES = """
import importlib, sys
for module in sys.argv[2:]:
    face = importlib.import_module(module)
    assert face.__file__.startswith(sys.argv[1]), face.__file__
    for name in face.__all__:
        getattr(face, name)
"""


@pytest.fixture(scope="module")
def zipped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, which is a zip file that Python imports from."""
    folder = tmp_path_factory.mktemp("wheel")
    (wheel,) = WheelBuilder(str(ROOT)).build(directory=str(folder), versions=["standard"])
    return Path(wheel)


def run_from(zipped: Path, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(zipped)}
    return subprocess.run(
        [sys.executable, *arguments], cwd=cwd, env=environment, capture_output=True, text=True, timeout=50
    )


def test_every_public_name_can_be_imported_from_a_zip_file(zipped: Path, tmp_path: Path) -> None:
    run = run_from(zipped, "-c", USE_ALL_NAMES, str(zipped), *PUBLIC, cwd=tmp_path)
    assert run.returncode == 0, run.stderr


def test_a_command_that_reads_files_of_the_package_works_from_a_zip_file(
    zipped: Path, tmp_path: Path
) -> None:
    run = run_from(zipped, "-m", "reconcile", "init", "shop", cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    assert "shop" in (tmp_path / "shop" / "README.md").read_text()


READ_THE_PAGE = """
from reconcile.status import page_assets
assert "site-packages" not in page_assets.__file__ and ".whl" in page_assets.__file__, page_assets.__file__
for name, asset in sorted(page_assets.page_assets().items()):
    print(name, len(asset.body), asset.content_type)
"""


def test_the_status_page_is_whole_in_a_zip_file(zipped: Path, tmp_path: Path) -> None:
    run = run_from(zipped, "-c", READ_THE_PAGE, cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    folder = ROOT / "reconcile" / "status" / "page"
    sizes = {file.name: file.stat().st_size for file in folder.iterdir()}
    assert {name: int(size) for name, size, *_ in map(str.split, run.stdout.splitlines())} == sizes
    assert sum(sizes.values()) < 150_000


@pytest.mark.parametrize("module", PUBLIC)
def test_dir_shows_the_public_names_before_they_are_used(module: str) -> None:
    assert set(names_of(module)) <= set(dir(importlib.import_module(module)))


@pytest.mark.parametrize("module", PUBLIC)
def test_no_two_public_names_of_a_package_differ_by_case_alone(module: str) -> None:
    names = names_of(module)
    assert len({name.lower() for name in names}) == len(names)


def test_the_public_interface_for_operators_stays_small() -> None:
    assert len(reconcile.__all__) <= 55
