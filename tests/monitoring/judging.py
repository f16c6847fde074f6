"""Judges recorded samples by the rules: with the evaluator of these tests, and with promtool where it is.

In the suite the evaluator judges alone, since promtool takes long. With ALERT_FAULTS=all (`make alerts`) both
do, and must agree on each alert, its labels, and the steps at which it is pending or fires.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from tests.monitoring import promtool
from tests.monitoring.promql.evaluate import evaluated
from tests.monitoring.promql.groups import rules_of
from tests.monitoring.promql.series import Labels, Store, labels_of
from tests.monitoring.promql.syntax import Selector, parsed
from tests.monitoring.promtool import PROMTOOL, Alerts, Expected
from tests.monitoring.simulated_operator import STEP, Recording

BOTH: Final = PROMTOOL is not None and os.environ.get("ALERT_FAULTS") == "all"
JUDGES: Final = "promtool and the evaluator of the tests" if BOTH else "the evaluator of the tests alone"
_ALERTS: Final = Selector("ALERTS", ())


def complaints(folder: Path, tests: Sequence[tuple[str, Recording, Expected]], seconds: float = STEP) -> str:
    """What does not happen as expected, or on what the judges do not agree; empty if there is nothing.

    A step takes `seconds`.
    """
    said: list[str] = []
    timelines: list[Alerts] = []
    for name, recording, expected in tests:
        store, alerts = judged(recording, seconds)
        timelines.append(alerts)
        end = round((recording.steps - 1) * seconds * 1000)
        said.extend(f"{name}: {one}" for one in _unexpected(store, end, expected))
    if BOTH:
        said.append(promtool.complaints(folder, tests, timelines, seconds))
    return "\n".join(filter(None, said))


def judged(recording: Recording, seconds: float = STEP) -> tuple[Store, Alerts]:
    """All series at the end of a recording, and the alerts at each step, by the evaluator of the tests."""
    store, rules = Store(), rules_of(promtool.groups())
    series = {labels_of(series): values for series, values in recording.series.items()}
    timeline: list[list[Labels]] = []
    for step in range(recording.steps):
        time = round(step * seconds * 1000)
        for labels, values in series.items():
            _scrape(store, labels, values, step, time)
        for rule in rules:
            rule.evaluate(store, time)
        timeline.append([sample.labels for sample in evaluated(_ALERTS, store, time)])
    return store, timeline


def _scrape(store: Store, labels: Labels, values: Sequence[float | None], step: int, time: int) -> None:
    """Add the value of a series at a step; one that is not there any more has ended."""
    value = values[step] if step < len(values) else None
    if value is not None:
        store.add(labels, time, value)
    elif 0 < step <= len(values) and values[step - 1] is not None:
        store.end(labels, time)


def _unexpected(store: Store, end: int, expected: Expected) -> Iterator[str]:
    for question in promtool.questions(expected):
        found = evaluated(parsed(question.expr), store, end)
        if {(one.labels, one.value) for one in found} != {(labels, 1.0) for labels in question.series}:
            values = ", ".join(f"{one.labels} {one.value:g}" for one in found)
            yield f"{question.expr}\n  expected: {', '.join(map(str, question.series))}\n  found: {values}"
