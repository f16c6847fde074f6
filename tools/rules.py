"""Which tests check which rule.

The rules are the rows of the tables in docs/reference/rules.md; the tests say theirs with
`@pytest.mark.rule("K1")`. A row may also name scenarios of tests/conformance, as
`conformance: watch/timeout`. Prints each rule and its tests. With `--check` it prints only what is
wrong and exits with 1 for it: a rule with neither a test nor a reason, a rule with both, a scenario that
does not exist, a mark that names no rule, a rule that is listed twice.
"""

import contextlib
import io
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from attrs import field, frozen

ROOT = Path(__file__).parent.parent
QUIET = ("-q", "--tb=line", "-r", "N", "-p", "no:cacheprovider")
LIST = ROOT / "docs" / "reference" / "rules.md"
SCENARIOS = ROOT / "tests" / "conformance" / "scenarios"


@frozen
class Rule:
    """One row of the list. `note` names scenarios, or says why there is no test."""

    name: str
    promise: str
    source: str
    note: str

    @property
    def scenarios(self) -> tuple[str, ...]:
        """The conformance scenarios that check it."""
        prefix, _, names = self.note.partition(":")
        return tuple(name.strip() for name in names.split(",")) if prefix == "conformance" else ()

    @property
    def reason(self) -> str:
        """Why there is no test; empty if there should be one."""
        return "" if self.scenarios else self.note


@frozen
class Marks:
    """A pytest plugin that notes the rules of each collected test."""

    tests: dict[str, list[str]] = field(factory=lambda: defaultdict(list))

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        for item in session.items:
            test = item.nodeid.partition("[")[0]
            for mark in item.iter_markers("rule"):
                for name in mark.args:
                    if test not in self.tests[name]:
                        self.tests[name].append(test)


def read_rules(text: str) -> Iterator[Rule]:
    """The rules of a Markdown text: each table row whose first cell is a name in backquotes."""
    for line in text.splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) == 4 and (name := re.fullmatch(r"`([^`]+)`", cells[0])):
            yield Rule(name[1], *cells[1:])


def collect_marks() -> Mapping[str, Sequence[str]]:
    """Test names by rule. Exits if the tests cannot be collected."""
    marks = Marks()
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        status = pytest.main(
            ["--collect-only", "-q", "--tb=line", "-r", "N", "-p", "no:cacheprovider"], plugins=[marks]
        )
    if status not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        _, _, errors = output.getvalue().partition("= ERRORS =")
        sys.exit(f"{errors}\nrules: the tests cannot be collected")
    return marks.tests


def problems(rules: Sequence[Rule], tests: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """One line for each disagreement between the list and the tests."""
    seen: set[str] = set()
    for rule in rules:
        if rule.name in seen:
            yield f"{rule.name}: listed twice"
        seen.add(rule.name)
        if not rule.reason and not rule.scenarios and rule.name not in tests:
            yield f"{rule.name}: neither a test nor a reason ({rule.promise})"
        if rule.reason and rule.name in tests:
            yield f"{rule.name}: has a test ({tests[rule.name][0]}), so remove the reason: {rule.reason}"
        for scenario in rule.scenarios:
            if not (SCENARIOS / f"{scenario}.json").is_file():
                yield f"{rule.name}: there is no scenario {scenario}"
    for name in sorted(set(tests) - seen):
        yield f"{name}: marked by {tests[name][0]}, but not in {LIST.relative_to(ROOT)}"


def show(rules: Sequence[Rule], tests: Mapping[str, Sequence[str]]) -> None:
    for rule in rules:
        print(f"{rule.name}: {rule.promise}")
        for test in tests.get(rule.name, ()):
            print(f"    {test}")
        for scenario in rule.scenarios:
            print(f"    conformance {scenario}")
        if rule.reason:
            print(f"    no test: {rule.reason}")


def main(arguments: Sequence[str]) -> int:
    rules = list(read_rules(LIST.read_text()))
    tests = collect_marks()
    if "--check" not in arguments:
        show(rules, tests)
    found = list(problems(rules, tests))
    for line in found:
        print(f"rules: {line}", file=sys.stderr)
    tested = sum(rule.name in tests or bool(rule.scenarios) for rule in rules)
    print(f"rules: {len(rules)} listed, {tested} tested")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
