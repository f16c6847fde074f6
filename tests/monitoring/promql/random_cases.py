"""Draws cases: series with resets, gaps and ends, and expressions of all that the evaluator knows."""

import re
from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Any, Final

from tests.monitoring.promql.cases import Case
from tests.monitoring.promql.syntax import AGGREGATIONS, COMPARISONS, FUNCTIONS

STEPS: Final = 60
COUNTERS: Final = ("calls_total", "errors_total")
GAUGES: Final = ("depth", "up_since")
BOUNDS: Final = ("0.1", "0.5", "1", "5", "+Inf")
JOBS: Final = ("a", "b")
PODS: Final = ("p-1", "p-2")
OVER_TIME: Final = tuple(name for name, takes in FUNCTIONS.items() if takes == ("range",))
WINDOWS: Final = ("45s", "1m", "2m", "5m", "7m30s", "20m", "1h")
TARGETS: Final = tuple(f'namespace="toys-system",job="toys",instance="pod-{number}"' for number in (1, 2))
_OWN: Final = 'webhook="w",definition="d",name="lease"'
_VARIED: Final = {
    "rest_client_requests_total": ("code", ("200", "409", "429", "500", "<error>", "403")),
    "reconcile_webhook_calls_total": ("result", ("allowed", "failed")),
    "rest_client_request_duration_seconds_bucket": ("le", BOUNDS),
}
"""Labels of which an operator has several, and the rules sum over them."""
_ROUGH: Final = ("0", "0.25", "3", "-2", "1e3", "NaN", "Inf", "-Inf")


def drawn(seed: int, wording: Random | None = None, questions: int = 25) -> Case:
    """Any case: its rules record one series and alert by it, and each expression is asked for at one time.

    The series and the rules follow from the seed, and the expressions too unless `wording` draws them.
    """
    chance = Random(seed)
    interval, every = chance.choice((15, 30, 60)), chance.choice((15, 30, 60))
    series = dict(_series(chance))
    end = STEPS * interval
    rules = [*_rules(chance)]
    names = ("ALERTS", "ALERTS_FOR_STATE", "job:made")
    about_rules = [(name, chance.randrange(0, end)) for name in names for _ in range(3)] if rules else []
    wording = wording or chance
    asked = [(expression(wording, 3), chance.randrange(0, end)) for _ in range(questions)]
    return Case(interval, every, series, rules, [*about_rules, *asked])


def _series(chance: Random) -> Iterator[tuple[str, Sequence[str]]]:
    for job in JOBS:
        for pod in PODS:
            if chance.random() < 0.2:
                continue
            target = f'job="{job}",pod="{pod}"'
            for name in COUNTERS:
                yield f"{name}{{{target}}}", [*broken(chance, counted(chance))]
            for name in GAUGES:
                yield f"{name}{{{target}}}", [*broken(chance, _gauge(chance))]
            share = 0.0
            for bound in BOUNDS:
                share += chance.choice((0.0, 0.5, 2.0))
                values = counted(chance, share)
                yield f'seconds_bucket{{{target},le="{bound}"}}', [*broken(chance, values)]


def counted(chance: Random, most: float | None = None) -> Sequence[str]:
    """What a counter says, which begins anew now and then."""
    resets = chance.choice((0.0, 0.0, 0.05, 0.3))
    steps = (0.0, 0.0, 1.0, 2.5, 40.0) if most is None else (0.0, most)
    value, values = chance.choice((0.0, 0.0, 7.0, 1000.0)), []
    for _ in range(STEPS):
        values.append(f"{value:g}")
        value = chance.choice(steps) if chance.random() < resets else value + chance.choice(steps)
    return values


def _gauge(chance: Random) -> Sequence[str]:
    if chance.random() < 0.1:
        return [chance.choice(_ROUGH) for _ in range(STEPS)]
    few = chance.choice((("0", "1"), ("-3", "0", "0.5", "2", "100")))
    often = chance.choice((0.0, 0.05, 0.5))
    values = [chance.choice(few)]
    while len(values) < STEPS:
        values.append(chance.choice(few) if chance.random() < often else values[-1])
    return values


def broken(chance: Random, values: Sequence[str]) -> Iterator[str]:
    """The same with short and long gaps, some of which begin with a mark that the series has ended."""
    often, at = chance.choice((0.0, 0.02, 0.2)), 0
    while at < len(values):
        if chance.random() >= often:
            yield values[at]
            at += 1
            continue
        gap = min(chance.choice((1, 2, 5, 25)), len(values) - at)
        yield from ["stale" if chance.random() < 0.4 else "_", *["_"] * (gap - 1)]
        at += gap


def _rules(chance: Random) -> Iterator[Mapping[str, Any]]:
    if chance.random() < 0.3:
        return
    by = "sum by (job)"
    recorded = chance.choice(
        (
            f"{by} (increase(calls_total[{chance.choice(WINDOWS)}]))",
            f"{by} (increase(errors_total[5m])) / ({by} (increase(calls_total[5m])) > 0)",
            f"max by (job, pod) (depth) > bool {chance.choice((0, 1))}",
            "min by (job) (depth and up_since == 1)",
        )
    )
    yield {"record": "job:made", "expr": recorded, "labels": {"slo": "x"}}
    held = {"for": chance.choice(("0s", "15s", "1m", "2m", "10m")), "labels": {"severity": "page"}}
    yield {"alert": "Made", "expr": f'job:made{{slo="x"}} > {chance.choice((0, 0.5, 20))}', **held}
    yield {"alert": "Deep", "expr": "max by (job, pod) (depth) > 0 unless on (job) job:made == 0", **held}
    yield {"alert": "Gone", "expr": 'absent(up_since{job="a"})', **held}


def expression(chance: Random, depth: int) -> str:
    """An instant vector."""
    if depth == 0 or chance.random() < 0.15:
        return _leaf(chance)
    inner = depth - 1
    match chance.randrange(7):
        case 0:
            return f"({expression(chance, inner)}) {_comparison(chance)} {chance.choice((0, 0.5, 1, 20))}"
        case 1:
            return f"{chance.choice((2, 0, 0.1))} {chance.choice('+-*/')} ({expression(chance, inner)})"
        case 2:
            return aggregation(chance, expression(chance, inner))
        case 3:
            sides = [aggregation(chance, expression(chance, inner), "by (job)") for _ in range(2)]
            return f" {chance.choice((*'+-*/', _comparison(chance)))} ".join(sides)
        case 4:
            operator = f"{chance.choice((*'+-*/', _comparison(chance)))} {_matching(chance)}"
            return f"({expression(chance, inner)}) {operator} ({expression(chance, inner)})"
        case 5:
            operator = f"{chance.choice(('and', 'or', 'unless'))} {_matching(chance)}"
            return f"({expression(chance, inner)}) {operator} ({expression(chance, inner)})"
    # Without parentheses, so that it matters which operators bind first.
    parts = [aggregation(chance, _leaf(chance), "by (job)") for _ in range(4)]
    operators = [chance.choice((*"+-*/", *COMPARISONS, "and", "or", "unless")) for _ in range(3)]
    return " ".join([parts[0], *(f"{one} {part}" for one, part in zip(operators, parts[1:], strict=True))])


def _leaf(chance: Random) -> str:
    match chance.randrange(9):
        case 0:
            return f"vector({chance.choice((0, 1, 0.99))})"
        case 1:
            return f"absent({_selector(chance, chance.choice((*GAUGES, 'nothing')))})"
        case 2:
            by = chance.choice(("sum by (job, le)", "sum by (le)", "max by (job, pod, le)"))
            share = chance.choice((0, 0.5, 0.9, 0.99, 1, 1.5))
            return f"histogram_quantile({share}, {by} (rate(seconds_bucket[{chance.choice(WINDOWS)}])))"
        case 3:
            return f"{_selector(chance, chance.choice(GAUGES))}{_offset(chance)}"
        case 4:
            name = chance.choice(GAUGES)
            return f"{chance.choice(OVER_TIME[2:])}({_selector(chance, name)}[{chance.choice(WINDOWS)}])"
        case 5:
            new, pattern = chance.choice((("$1", "p-(.)"), ("x$1-$2", "(p?)-(.*)"), ("", ".*"), ("y", ".+1")))
            label = chance.choice(("pod", "job", "new"))
            return f'label_replace({_selector(chance, "depth")}, "{label}", "{new}", "pod", "{pattern}")'
    name = chance.choice(COUNTERS)
    window = f"{chance.choice(WINDOWS)}]{_offset(chance)}"
    return f"{chance.choice(OVER_TIME)}({_selector(chance, name)}[{window})"


def _selector(chance: Random, name: str) -> str:
    matchers = ("", "", '{job="a"}', '{job!="a"}', '{pod=~"p-.|q"}', '{pod!~".*1",job="b"}', '{code=""}')
    return f"{name}{chance.choice(matchers)}"


def _offset(chance: Random) -> str:
    return chance.choice(("", "", "", " offset 1m", " offset 7m", " offset 2h"))


def aggregation(chance: Random, of: str, by: str | None = None) -> str:
    hows = ("", "by (job)", "by (job, pod)", "by (nothing)", "without (pod)", "without (job, le)")
    return f"{chance.choice(AGGREGATIONS)} {by or chance.choice(hows)} ({of})"


def _comparison(chance: Random) -> str:
    return f"{chance.choice(COMPARISONS)}{chance.choice(('', '', ' bool'))}"


def _matching(chance: Random) -> str:
    return chance.choice(("", "on (job)", "on (job, pod)", "on ()", "ignoring (le)", "ignoring (pod)"))


def of_rules(chance: Random, expressions: Sequence[str]) -> Case:
    """A case that asks for these expressions, of random series of the metrics that they name."""
    text = " ".join(expressions)
    found = sorted(set(re.findall(r"([a-z]\w*:?[\w:]*)\{([^}]*)\}", text)))
    series: dict[str, Sequence[str]] = {}
    cluster = chance.choice(("", "east"))
    of_cluster = f"{cluster}/" if cluster else ""
    own_labels = f'{_OWN},controller="{of_cluster}c",resource="{of_cluster}r"'
    for name, matchers in found:
        own = re.findall(r'(\w+)="([^"]*)"', matchers)
        fixed = ",".join(
            f'{label}="{value}"' for label, value in own if label not in ("namespace", "code", "result")
        )
        for target in TARGETS[: chance.choice((1, 2))]:
            for varied in _varied(name):
                where = f'cluster="{cluster}"' if name == "reconcile_api_server_reachable" else ""
                labels = ",".join(filter(None, [target, own_labels, where, fixed, varied]))
                values = counted(chance) if re.search(r"_(total|count|sum|bucket)$", name) else _gauge(chance)
                series[f"{name}{{{labels}}}"] = [*broken(chance, values)]
    return Case(30, 30, series, [], [(expr, chance.randrange(300, 30 * STEPS)) for expr in expressions])


def _varied(name: str) -> Sequence[str]:
    label, values = _VARIED.get(name, ("", ()))
    return [f'{label}="{value}"' for value in values] or [""]
