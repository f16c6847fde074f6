"""What `make run` and the other targets install: the lock, the extras and the dependency groups agree."""

import importlib.metadata
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
ENTRY = re.compile(r"^# for: (.+)\n([\w.-]+)==(?:.*\\\n)+ +--hash=sha256:[0-9a-f]{64}\n", re.MULTILINE)

LOADING_THE_DEMO = """
import sys
for name in ("cattrs", "hypothesis", "pytest", "mypy", "opentelemetry", "zstandard"):
    sys.modules[name] = None
import reconcile.commands.demo_command
from reconcile.controller.entry_points import CONTROLLERS, INCIDENTS, entries, load
print(len([load(entry) for group in (CONTROLLERS, INCIDENTS) for entry in entries(group)]))
"""


def locked() -> Mapping[str, set[str]]:
    """The packages of constraints.txt and the targets that need each."""
    text = (ROOT / "constraints.txt").read_text()
    return {package: set(targets.split()) for targets, package in ENTRY.findall(text)}


def names(requirements: list[str | dict[str, str]]) -> set[str]:
    """The packages that requirements name, those of included groups too."""
    packages = set()
    for requirement in requirements:
        if isinstance(requirement, dict):
            packages |= names(PROJECT["dependency-groups"][requirement["include-group"]])
        else:
            packages.add(re.split(r"[^\w.-]", requirement)[0].lower())
    return packages


def test_the_demo_installs_at_most_45_packages() -> None:
    for_run = {package for package, targets in locked().items() if "run" in targets}
    assert len(for_run) + len(["reconcile-runtime"]) <= 45
    assert for_run.isdisjoint({"mypy", "basedpyright", "mkdocs", "pytest", "hypothesis", "cattrs", "ruff"})


def test_the_demo_needs_none_of_the_packages_that_only_tests_install() -> None:
    command = (sys.executable, "-c", LOADING_THE_DEMO)
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= len(PROJECT["project"]["entry-points"]["reconcile.incidents"])


@pytest.mark.parametrize(
    ("target", "extras"),
    [
        ("run", ("cli", "embedded")),
        ("test", ("testing", "tracing", "zstd")),
        ("docs", ()),
        ("check", ("testing", "tracing", "zstd")),
        ("bench", ("testing", "zstd")),
        ("quality", ("testing",)),
    ],
)
def test_the_lock_has_everything_that_a_target_needs(target: str, extras: tuple[str, ...]) -> None:
    optional = PROJECT["project"]["optional-dependencies"]
    needed = names(PROJECT["project"]["dependencies"]) | names(PROJECT["dependency-groups"][target])
    for extra in extras:
        needed |= names(optional[extra])
    lock = locked()
    assert needed <= set(lock)
    assert {package for package in needed if not lock[package] & {"run", target}} == set()


def versions() -> Mapping[str, Version]:
    """What constraints.txt locks for this machine; an entry for another platform is left out."""
    text = (ROOT / "constraints.txt").read_text()
    pins = re.findall(r"^([\w.-]+)==([^\s;]+)(?: ; ([^\\\n]+))?", text, re.MULTILINE)
    here = [(name, version) for name, version, marker in pins if not marker or Marker(marker).evaluate()]
    return {canonicalize_name(name): Version(version) for name, version in here}


def requirements() -> Iterator[Requirement]:
    """Everything that pyproject.toml asks for: always, by an extra, by a group, to build."""
    project, groups = PROJECT["project"], PROJECT["dependency-groups"]
    lists = [project["dependencies"], *project["optional-dependencies"].values(), *groups.values()]
    for requirement in (one for each in (*lists, PROJECT["build-system"]["requires"]) for one in each):
        if isinstance(requirement, str):
            yield Requirement(requirement)


@pytest.mark.parametrize("requirement", list(requirements()), ids=str)
def test_the_locked_version_is_one_that_pyproject_allows(requirement: Requirement) -> None:
    locked_version = versions()[canonicalize_name(requirement.name)]
    assert requirement.specifier.contains(locked_version, prereleases=True), locked_version


def test_the_installed_versions_are_the_locked_ones() -> None:
    lock = versions()
    installed = {
        canonicalize_name(one.name): Version(one.version) for one in importlib.metadata.distributions()
    }
    both = installed.keys() & lock.keys()
    assert both >= {"aiohttp", "attrs", "msgspec", "pytest"}
    assert {name: installed[name] for name in both} == {name: lock[name] for name in both}


def test_every_entry_of_the_lock_has_a_hash_and_a_target() -> None:
    text = (ROOT / "constraints.txt").read_text()
    assert len(locked()) == len(re.findall(r"^[\w.-]+==", text, re.MULTILINE))
