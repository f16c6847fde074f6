"""Mutation testing: which small bugs in the code of decisions the tests would miss.

    python tools/mutants.py [GROUP ...] [--sample PERCENT] [--seed N] [--only PATTERN] [--again]

The groups are the tables of tools/mutants.toml: modules, and the tests that are theirs alone. Each group
is copied to .cache/mutants, mutmut makes its mutants there, mypy looks at them, and
tools/mutant_plugin.py gives those that mypy accepts to the tests. What came of a mutant is kept in
.cache/mutants/GROUP.json for as long as its function stays the same; `--again` leaves out those that a
test was seen to notice: not those that hung, which a slow machine may have done. With `--sample` only so
many per cent of each group are run, and the seed says which; `--only` names mutants by a pattern of
fnmatch; `--seconds` limits the tests of one mutant, of which the fastest are taken. Prints what each
module's mutants came to, and writes the difference that each survivor makes to
.cache/mutants/GROUP.diff, for a person to judge: the exit code is 0 where mutants survive.
"""

import argparse
import contextlib
import difflib
import fnmatch
import hashlib
import json
import math
import os
import random
import re
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from attrs import asdict, frozen
from mutmut.configuration import reset_config
from mutmut.mutation.data import LineSpan
from mutmut.mutation.file_mutation import mutate_file_contents
from mutmut.utils.format_utils import get_mutant_name

ROOT = Path(__file__).parent.parent
GROUPS = Path(__file__).with_name("mutants.toml")
TOOLS = Path(__file__).parent
SAMPLES = ROOT.parent / "shared"
"""Where tests look for users' manifests: next to the project."""

WORK = ROOT / ".cache" / "mutants"
PACKAGES = ("workqueue", "informers", "reconcile", "controllers")
UNNOTICED = ("survived", "no tests")
_TRAMPOLINE = "from mutmut.mutation.trampoline import wrap_in_trampoline as _mutmut_mutated, MutantDict"
_REGISTER = "from mutant_plugin import MutantDict, has_mutants as _mutmut_mutated"
_NOT_OF_BEHAVIOUR = ("unused-ignore", "unreachable", "redundant-expr", "has-type")
"""Complaints of mypy that are about how a mutant is written, not about what it does."""

_LINE = re.compile(r" on line \d+")

_OWN_NAME = re.compile(r"__mutmut_(orig|\d+)")


@frozen
class Group:
    """Modules and the tests that are run for each of their mutants."""

    name: str
    modules: Sequence[str]
    tests: Sequence[str]
    leave_out: Sequence[str]

    def files(self) -> Sequence[Path]:
        """The modules' files, from the working directory."""
        return sorted({file for pattern in self.modules for file in Path().glob(pattern)})


@frozen
class Mutant:
    """One change: its name, where it and its function are in the file of mutants, and both texts."""

    name: str
    module: str
    lines: range
    original_lines: range
    original: str
    changed: str

    @property
    def digest(self) -> str:
        texts = _OWN_NAME.sub("", f"{self.original}\0{self.changed}")
        return hashlib.sha256(texts.encode()).hexdigest()[:16]

    @property
    def function(self) -> str:
        return _OWN_NAME.sub("", self.name).replace(".xǁ", ".").replace("ǁ", ".").replace(".x_", ".")

    def _differing(self) -> Sequence[str]:
        was, now = (_OWN_NAME.sub("", text).splitlines() for text in (self.original, self.changed))
        return list(difflib.unified_diff(was, now, n=1, lineterm=""))[2:]

    def difference(self) -> str:
        return "\n".join([f"--- {self.module}", f"+++ {self.name}", *self._differing()]) + "\n"


@frozen
class End:
    """The result of a mutant, what noticed it, and the digest of the texts for which this is valid."""

    digest: str
    end: str
    by: str | None


def read_groups() -> Mapping[str, Group]:
    tables = tomllib.loads(GROUPS.read_text())
    return {
        name: Group(name, table["modules"], table["tests"], table.get("leave-out", ()))
        for name, table in tables.items()
    }


def copy_of_the_project(group: Group) -> Path:
    """A folder with the files of the project as they are, set up for mutmut."""
    folder = WORK / group.name
    shutil.rmtree(folder, ignore_errors=True)
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    for line in listed.stdout.splitlines():
        if (ROOT / line).is_file():
            (folder / line).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / line, folder / line)
    if SAMPLES.is_dir() and not (WORK / SAMPLES.name).exists():
        (WORK / SAMPLES.name).symlink_to(SAMPLES)
    with (folder / "pyproject.toml").open("a") as settings:
        settings.write(f"\n[tool.mutmut]\nsource_paths = {json.dumps(PACKAGES)}\n")
    return folder


def make_mutants(group: Group, folder: Path) -> list[Mutant]:
    """Write the mutants of a group's modules beside their functions, always in the same order."""
    reset_config()
    mutants = []
    with contextlib.chdir(folder):  # where mutmut looks for its settings
        for module in group.files():
            made = mutate_file_contents(str(module), module.read_text())
            code = made.code.replace(_TRAMPOLINE, _REGISTER)
            module.write_text(code)
            lines = code.splitlines()
            spans = made.line_span_by_function_name
            for name in made.mutant_names:
                span, original = spans[name], spans[f"{name.rpartition('__mutmut_')[0]}__mutmut_orig"]
                mutants.append(
                    Mutant(
                        get_mutant_name(module, name), str(module), range_of(span), range_of(original),
                        _text(lines, original), _text(lines, span),
                    )
                )  # fmt: skip
    return mutants


def range_of(span: LineSpan) -> range:
    return range(span.start, span.end + 1)


def _text(lines: Sequence[str], span: LineSpan) -> str:
    return "\n".join(lines[span.start - 1 : span.end])


def chosen(mutants: Sequence[Mutant], percent: float, seed: int) -> list[Mutant]:
    """A percentage of the mutants, but at least one of any."""
    return random.Random(seed).sample(mutants, math.ceil(len(mutants) * percent / 100))


def refused_by_types(group: Group, folder: Path, mutants: Sequence[Mutant]) -> Mapping[str, str]:
    """The complaint of mypy about each mutant that it does not accept, by name."""
    with contextlib.chdir(folder):
        files = [str(file) for file in group.files()]
    told = subprocess.run(
        [sys.executable, "-m", "mypy", "--no-warn-unreachable", "--output", "json",
         "--cache-dir", str(WORK / f"{group.name}-mypy"), *files],
        cwd=folder, env={**os.environ, "MYPYPATH": str(TOOLS)}, capture_output=True, text=True,
    )  # fmt: skip
    errors: dict[str, list[tuple[int, str]]] = {}
    for error in map(json.loads, filter(lambda line: line.startswith("{"), told.stdout.splitlines())):
        if error["severity"] == "error" and error["code"] not in _NOT_OF_BEHAVIOUR:
            errors.setdefault(error["file"], []).append((error["line"], _LINE.sub("", error["message"])))
    said = {
        mutant.name: within(mutant.lines, errors.get(mutant.module, ()))
        - within(mutant.original_lines, errors.get(mutant.module, ()))
        for mutant in mutants
    }
    return {name: min(messages) for name, messages in said.items() if messages}


def within(lines: range, errors: Iterable[tuple[int, str]]) -> set[str]:
    return {message for line, message in errors if line in lines}


def run(
    group: Group, folder: Path, mutants: Sequence[Mutant], jobs: int, seconds: float
) -> Mapping[str, End]:
    """Run the tests on each of these mutants. Exits if pytest fails to run."""
    results, plan = folder / "results.jsonl", folder / "plan.json"
    names = [mutant.name for mutant in mutants]
    plan.write_text(json.dumps({"mutants": names, "jobs": jobs, "seconds": seconds, "results": str(results)}))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "mutant_plugin", "-p", "no:cacheprovider",
         "--capture=sys", "--timeout", "0", *(f"--ignore={test}" for test in group.leave_out), *group.tests],
        cwd=folder,
        env={
            **os.environ, "HYPOTHESIS_PROFILE": "mutants", "MUTANTS_PLAN": str(plan),
            "PYTHONPATH": f"{folder}{os.pathsep}{TOOLS}",
        },
    )  # fmt: skip
    if done.returncode not in (0, 5) or not results.exists():
        sys.exit(f"mutants: pytest ended with {done.returncode} in {folder}")
    digests = {mutant.name: mutant.digest for mutant in mutants}
    ended = map(json.loads, results.read_text().splitlines())
    return {end["mutant"]: End(digests[end["mutant"]], end["end"], end["by"]) for end in ended}


def kept(file: Path, mutants: Iterable[Mutant]) -> dict[str, End]:
    """The results of earlier runs for mutants that are still the same."""
    if not file.exists():
        return {}
    digests = {mutant.name: mutant.digest for mutant in mutants}
    read = {name: End(**end) for name, end in json.loads(file.read_text()).items()}
    return {name: end for name, end in read.items() if digests.get(name) == end.digest}


def tell(mutants: Sequence[Mutant], ends: Mapping[str, End]) -> None:
    modules: dict[str, Counter[str]] = {}
    for mutant in mutants:
        if mutant.name in ends:
            modules.setdefault(mutant.module, Counter())[ends[mutant.name].end] += 1
    for module, counts in modules.items():
        print(
            f"{module}: {counts.total()} run, " + ", ".join(f"{n} {end}" for end, n in counts.most_common())
        )
    total = sum(modules.values(), Counter[str]())
    unnoticed = sum(total[end] for end in UNNOTICED)
    print(f"{total.total()} of {len(mutants)} mutants run, {total.total() - unnoticed} noticed", end="")
    print(f" ({total['types']} by mypy), {unnoticed} not")


def survivors(mutants: Iterable[Mutant], ends: Mapping[str, End]) -> Iterator[Mutant]:
    return (mutant for mutant in mutants if mutant.name in ends and ends[mutant.name].end in UNNOTICED)


def mutate(group: Group, options: argparse.Namespace) -> None:
    folder = copy_of_the_project(group)
    mutants = make_mutants(group, folder)
    print(f"== {group.name}: {len(mutants)} mutants", flush=True)
    file = WORK / f"{group.name}.json"
    ends = kept(file, mutants)
    wanted = [mutant for mutant in mutants if fnmatch.fnmatch(mutant.name, options.only)]
    if options.again:
        wanted = [m for m in wanted if m.name not in ends or ends[m.name].end in (*UNNOTICED, "timeout")]
    wanted = chosen(wanted, options.sample, options.seed)
    refused = refused_by_types(group, folder, wanted)
    ends |= {m.name: End(m.digest, "types", refused[m.name]) for m in wanted if m.name in refused}
    left = [mutant for mutant in wanted if mutant.name not in refused]
    ends |= run(group, folder, left, options.jobs, options.seconds)
    file.write_text(json.dumps({name: asdict(end) for name, end in ends.items()}, indent=0))
    (WORK / f"{group.name}.diff").write_text("\n".join(m.difference() for m in survivors(mutants, ends)))
    tell(mutants, ends)


def main(arguments: Sequence[str]) -> None:
    groups = read_groups()
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=", ".join(groups))
    parser.add_argument("--sample", type=float, default=100.0, metavar="PERCENT")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="*", metavar="PATTERN")
    parser.add_argument(
        "--again", action="store_true", help="leave out those that were noticed before, but for time"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many mutants at a time")
    parser.add_argument("--seconds", type=float, default=600.0, help="of tests for one mutant")
    options = parser.parse_args(arguments)
    if unknown := set(options.groups) - set(groups):
        parser.error(f"no group {', '.join(sorted(unknown))} in {GROUPS.name}")
    for name in options.groups or groups:
        mutate(groups[name], options)


if __name__ == "__main__":
    main(sys.argv[1:])
