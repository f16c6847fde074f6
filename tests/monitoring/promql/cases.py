"""Cases in which this evaluator and promtool must say the same: series, rules, and what is asked of them."""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

from attrs import asdict, frozen

from tests.monitoring.promql.evaluate import Ambiguous, Vector, evaluated
from tests.monitoring.promql.groups import rules_of
from tests.monitoring.promql.series import NAMELESS, Labels, Store, labels_of
from tests.monitoring.promql.syntax import parsed
from tests.monitoring.promtool import tested

Answer: TypeAlias = Mapping[str, float] | None
"""The values by their labels as they are written; None: the evaluation is refused."""

_TOLERANCE: Final = 1e-12
_NEVER: Final = [{"labels": "nothing_has_this_name", "value": -1}]
_ANSWER = re.compile(
    r'^    expr: (?P<expr>"(?:[^"\\]|\\.)*"), time: \S+?,'
    r"(?: err: (?P<error>.*)|\n        exp: .*\n        got: (?P<got>.*))$",
    re.MULTILINE,
)
_SAMPLE = re.compile(r'(\{(?:[^"}]|"(?:[^"\\]|\\.)*")*\}) ([^\s,]+)(?:, |$)')


@frozen
class Case:
    """Series with a value each `interval` seconds, as promtool writes it: a number, `_` (none) or `stale`.

    The rules are evaluated each `every` seconds. `asked`: expressions, each with the second that it is for.
    """

    interval: int
    every: int
    series: Mapping[str, Sequence[str]]
    rules: Sequence[Mapping[str, Any]]
    asked: Sequence[tuple[str, int]]


def answers(case: Case) -> Sequence[Answer]:
    """What this evaluator says. Raises Ambiguous if it refuses a rule."""
    store, rules = Store(), rules_of([{"rules": case.rules}])
    series = {labels_of(name): values for name, values in case.series.items()}
    steps = max(map(len, case.series.values()), default=0)
    last = max(second for _, second in case.asked)
    # promtool knows no sample that is later than its last evaluation of the rules.
    end = last - last % case.every
    scrapes = {step * case.interval: step for step in range(steps)}
    for second in sorted({*filter(end.__ge__, scrapes), *range(0, end + 1, case.every)}):
        if second in scrapes:
            for labels, values in series.items():
                _add(store, labels, second * 1000, values[scrapes[second]])
        if second % case.every == 0:
            for rule in rules:
                rule.evaluate(store, second * 1000)
    return [_answered(store, expr, second * 1000) for expr, second in case.asked]


def _add(store: Store, labels: Labels, time: int, value: str) -> None:
    if value == "stale":
        store.end(labels, time)
    elif value != "_":
        store.add(labels, time, float(value))


def _answered(store: Store, expr: str, time: int) -> Answer:
    try:
        return _written(evaluated(parsed(expr), store, time))
    except Ambiguous:
        return None


def _written(samples: Vector) -> Mapping[str, float]:
    return {str(sample.labels): sample.value for sample in samples}


def answers_of_promtool(folder: Path, case: Case) -> Sequence[Answer]:
    """What promtool says: it expects the impossible, and tells what it has found instead."""
    groups = [{"name": "rules", "rules": case.rules}] if case.rules else []
    (folder / "rules.yaml").write_text(json.dumps({"groups": groups}))
    test = {
        "interval": f"{case.interval}s",
        "input_series": [
            {"series": series, "values": " ".join(values)} for series, values in case.series.items()
        ],
        "promql_expr_test": [
            {"expr": expr, "eval_time": f"{second}s", "exp_samples": _NEVER} for expr, second in case.asked
        ],
    }
    every = f"{case.every}s"
    said = tested(folder, {"rule_files": ["rules.yaml"], "evaluation_interval": every, "tests": [test]})
    found = [*_ANSWER.finditer(said)]
    asked = [expr for expr, _ in case.asked]
    if [json.loads(one["expr"]) for one in found] != asked:
        raise AssertionError(f"{len(found)} answers to {len(asked)} questions:\n{said}")
    return [None if one["got"] is None else dict(_samples(one["got"])) for one in found]


def _samples(got: str) -> Iterator[tuple[str, float]]:
    if got == "nil":
        return
    found = [*_SAMPLE.finditer(got)]
    assert "".join(one.group() for one in found) == got, got
    for one in found:
        yield str(labels_of(f"{NAMELESS}{one[1]}")), float(one[2])


def differences(case: Case, ours: Sequence[Answer], theirs: Sequence[Answer]) -> Sequence[str]:
    """The questions to which two answers are not the same."""
    return [
        f"{expr} at {second}s: the evaluator says {mine}, promtool {other}"
        for (expr, second), mine, other in zip(case.asked, ours, theirs, strict=True)
        if not _same(mine, other)
    ]


def _same(mine: Answer, other: Answer) -> bool:
    if mine is None or other is None:
        return mine is other
    return mine.keys() == other.keys() and all(_close(mine[key], other[key]) for key in mine)


def _close(left: float, right: float) -> bool:
    return math.isclose(left, right, rel_tol=_TOLERANCE) or (math.isnan(left) and math.isnan(right))


def written(case: Case, said: Sequence[Answer]) -> str:
    """A case and what promtool said, as one line of a file."""
    return json.dumps({**asdict(case), "said": said}, separators=(",", ":"))


def read(line: str) -> tuple[Case, Sequence[Answer]]:
    """What `written` has written."""
    found = json.loads(line)
    said = found.pop("said")
    found["asked"] = [(expr, second) for expr, second in found["asked"]]
    return Case(**found), said
