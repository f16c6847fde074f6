"""Mutation testing: which small faults in the code of decisions no test would notice.

    python tools/mutants.py [GROUP ...] [--sample PERCENT] [--seed N] [--only PATTERN]

The groups are the tables of tools/mutants.toml: modules, and the tests that are theirs alone. Each group is
copied to .cache/mutants, and mutmut makes its mutants there and runs them, one at a time. With `--sample`
only so many per cent of each group are run, and the seed says which; `--only` names mutants by a pattern of
fnmatch. Prints what each module's mutants came to, and writes the difference that each survivor makes to
.cache/mutants/GROUP.diff. The exit code is 0 where mutants survive: docs/reference/quality.md judges them.
"""

import argparse
import contextlib
import fnmatch
import json
import math
import os
import random
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from attrs import frozen
from mutmut.configuration import reset_config
from mutmut.mutation.file_mutation import mutate_file_contents
from mutmut.stats import status_by_exit_code
from mutmut.utils.format_utils import get_mutant_name

ROOT = Path(__file__).parent.parent
GROUPS = Path(__file__).with_name("mutants.toml")
SAMPLES = ROOT.parent / "shared"
"""Where tests look for users' manifests: beside the project."""

WORK = ROOT / ".cache" / "mutants"
PACKAGES = ("workqueue", "informers", "reconcile", "controllers")
UNNOTICED = ("survived", "no tests")

Results = Mapping[str, Mapping[str, str]]
"""What came of each mutant, by module and mutant."""


@frozen
class Group:
    """Modules and the tests that are run for each of their mutants."""

    name: str
    modules: Sequence[str]
    tests: Sequence[str]
    leave_out: Sequence[str]

    def settings(self, also_copy: Sequence[str]) -> str:
        """The table `tool.mutmut` for this group. A list of strings is written the same in TOML and JSON."""
        options = ["-p", "no:cacheprovider", "--timeout", "60"]
        table = {
            "source_paths": PACKAGES,
            "only_mutate": self.modules,
            "also_copy": also_copy,
            "pytest_add_cli_args": [*options, *(f"--ignore={test}" for test in self.leave_out)],
            "pytest_add_cli_args_test_selection": self.tests,
            "timeout_multiplier": 3.0,
            "timeout_constant": 5.0,
        }
        return "\n".join(["", "[tool.mutmut]", *(f"{key} = {json.dumps(table[key])}" for key in table), ""])


def read_groups() -> Mapping[str, Group]:
    tables = tomllib.loads(GROUPS.read_text())
    return {
        name: Group(name, table["modules"], table["tests"], table.get("leave-out", ()))
        for name, table in tables.items()
    }


def copy_of_the_project(group: Group) -> Path:
    """A folder with the files of the project as they are, set up for the mutants of a group."""
    folder = WORK / group.name
    shutil.rmtree(folder, ignore_errors=True)
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    files = [Path(line) for line in listed.stdout.splitlines() if (ROOT / line).is_file()]
    for file in files:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / file, folder / file)
    if SAMPLES.is_dir():
        (folder / SAMPLES.name).symlink_to(SAMPLES)
    others = sorted({file.parts[0] for file in files} - {*PACKAGES, "tests", "pyproject.toml"})
    with (folder / "pyproject.toml").open("a") as settings:
        settings.write(group.settings(others))
    return folder


def mutants_of(group: Group, folder: Path) -> Iterator[str]:
    """The names of a group's mutants, always in the same order."""
    reset_config()
    with contextlib.chdir(folder):  # where mutmut looks for its settings
        for module in sorted(file for pattern in group.modules for file in Path().glob(pattern)):
            for name in mutate_file_contents(str(module), module.read_text()).mutant_names:
                yield get_mutant_name(module, name)


def chosen(names: Sequence[str], percent: float, seed: int) -> list[str]:
    """So many per cent of the names, at least one of any."""
    return random.Random(seed).sample(names, math.ceil(len(names) * percent / 100))


def run(folder: Path, names: Sequence[str]) -> None:
    """Have mutmut make the mutants and run those that are named. Exits where it cannot."""
    done = subprocess.run(
        [mutmut(), "run", "--max-children", "1", *names],
        cwd=folder,
        env={**os.environ, "HYPOTHESIS_PROFILE": "mutants"},
        stdout=sys.stderr,
    )
    if done.returncode:
        sys.exit(f"mutants: mutmut ended with {done.returncode}: the tests of {folder.name} fail as they are")


def mutmut() -> str:
    return str(Path(sys.executable).with_name("mutmut"))


def results_in(folder: Path) -> Results:
    results = {}
    for file in sorted((folder / "mutants").rglob("*.meta")):
        codes = json.loads(file.read_text())["exit_code_by_key"]
        ended = {name: status_by_exit_code[code] for name, code in codes.items() if code is not None}
        if ended:
            results[str(file.relative_to(folder / "mutants").with_suffix(""))] = ended
    return results


def differences(folder: Path, results: Results) -> Iterator[str]:
    for ends in results.values():
        for name, end in ends.items():
            if end in UNNOTICED:
                shown = subprocess.run([mutmut(), "show", name], cwd=folder, capture_output=True, text=True)
                yield shown.stdout


def tell(results: Results, made: int) -> None:
    total: Counter[str] = Counter()
    for module, ends in results.items():
        counts = Counter(ends.values())
        total += counts
        print(f"{module}: {len(ends)} run, " + ", ".join(f"{n} {end}" for end, n in counts.most_common()))
    unnoticed = sum(total[end] for end in UNNOTICED)
    print(f"{total.total()} of {made} mutants run, {total.total() - unnoticed} noticed, {unnoticed} not")


def main(arguments: Sequence[str]) -> None:
    groups = read_groups()
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=", ".join(groups))
    parser.add_argument("--sample", type=float, default=100.0, metavar="PERCENT")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="*", metavar="PATTERN")
    options = parser.parse_args(arguments)
    if unknown := set(options.groups) - set(groups):
        parser.error(f"no group {', '.join(sorted(unknown))} in {GROUPS.name}")
    for name in options.groups or groups:
        group = groups[name]
        folder = copy_of_the_project(group)
        names = list(mutants_of(group, folder))
        print(f"== {name}: {len(names)} mutants")
        run(folder, chosen(fnmatch.filter(names, options.only), options.sample, options.seed))
        results = results_in(folder)
        (WORK / f"{name}.diff").write_text("\n".join(differences(folder, results)))
        tell(results, len(names))


if __name__ == "__main__":
    main(sys.argv[1:])
