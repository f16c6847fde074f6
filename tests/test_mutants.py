"""The run of mutants within pytest, on a project of one function whose tests do all that tests can do."""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from textwrap import dedent

import pytest

ROOT = Path(__file__).parent.parent
TOOLS = ROOT / "tools"

MODULE = """
    from mutant_plugin import MutantDict, has_mutants

    of_double: MutantDict = {}
    of_one: MutantDict = {}
    of_unused: MutantDict = {}

    @has_mutants(of_double)
    def double(number):
        return 2 * number

    def triple(number):
        return 3 * number

    def slow(number):
        while True:
            pass

    def same(number):
        return number + number

    @has_mutants(of_one)
    def one():
        return 1

    @has_mutants(of_unused)
    def unused():
        return 1

    def two():
        return 2

    of_double |= {"_orig": double, "triple": triple, "slow": slow, "same": same}
    of_one |= {"two": two}
    of_unused |= {"three": two}
"""
TESTS = """
    import threading
    import time
    import doubles

    def test_doubles():
        assert doubles.double(4) == 8

    def test_counts_in_a_thread():
        found = []
        thread = threading.Thread(target=lambda: found.append(doubles.one()))
        thread.start()
        thread.join()
        assert found == [1]

    def test_fails():
        assert doubles.double(4) == 9

    def test_hangs():
        doubles.double(4)
        time.sleep(60)
"""
SETTINGS = """
    import mutant_plugin

    mutant_plugin.PATIENCE = 2.0
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, tuple[str, str | None]]]:
    """What is printed, and by mutant what came of it and which test noticed it."""
    folder = tmp_path_factory.mktemp("doubles")
    for name, text in {"doubles.py": MODULE, "test_doubles.py": TESTS, "conftest.py": SETTINGS}.items():
        (folder / name).write_text(dedent(text))
    results, plan = folder / "results.jsonl", folder / "plan.json"
    names = ["doubles.triple", "doubles.slow", "doubles.same", "doubles.two", "doubles.three"]
    plan.write_text(json.dumps({"mutants": names, "jobs": 2, "seconds": 60, "results": str(results)}))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "mutant_plugin", "-p", "no:cacheprovider", "-c", os.devnull,
         "--rootdir", str(folder), str(folder)],
        cwd=folder, capture_output=True, text=True, check=True,
        env={**os.environ, "MUTANTS_PLAN": str(plan), "PYTHONPATH": f"{folder}{os.pathsep}{TOOLS}"},
    )  # fmt: skip
    ends = map(json.loads, results.read_text().splitlines())
    return done.stdout, {end["mutant"]: (end["end"], end["by"]) for end in ends}


def test_a_mutant_is_killed_by_a_test_that_fails_or_hangs_and_survives_passing_tests(
    run: tuple[str, dict[str, tuple[str, str | None]]],
) -> None:
    _, ends = run
    assert ends == {
        "doubles.triple": ("killed", "test_doubles.py::test_doubles"),
        "doubles.slow": ("timeout", None),
        "doubles.same": ("survived", None),
        "doubles.two": ("killed", "test_doubles.py::test_counts_in_a_thread"),
        "doubles.three": ("no tests", None),
    }


def test_a_test_that_fails_or_hangs_without_a_mutant_is_named_and_does_not_block_the_run(
    run: tuple[str, dict[str, tuple[str, str | None]]],
) -> None:
    told, _ = run
    left_out = [line for line in told.splitlines() if line.startswith("not used")]
    assert left_out == [
        "not used, as without a mutant it fails: test_doubles.py::test_fails",
        "not used, as without a mutant it does not end in 2 s: test_doubles.py::test_hangs",
    ]


def test_every_module_and_test_of_the_mutants_exists() -> None:
    groups = tomllib.loads((TOOLS / "mutants.toml").read_text()).values()
    patterns = [pattern for group in groups for part in group.values() for pattern in part]
    assert patterns
    assert [pattern for pattern in patterns if not any(ROOT.glob(pattern))] == []
