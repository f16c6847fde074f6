"""Asks a real Prometheus what its rules make of recorded samples: `promtool test rules`."""

import re
import shutil
import subprocess
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Final, TypeAlias

import yaml
from attrs import frozen

from reconcile.monitoring.rules import rule_groups
from tests.monitoring.promql.series import Labels
from tests.monitoring.simulated_operator import Recording

PROMTOOL: Final = shutil.which("promtool")
FOLLOWED: Final = "2.42"
"""The Prometheus whose arithmetic the evaluator of the tests follows."""


def _version() -> str:
    if PROMTOOL is None:
        return "none"
    done = subprocess.run((PROMTOOL, "--version"), capture_output=True, text=True, check=True)
    found = re.search(r"version (\d+\.\d+)", done.stdout + done.stderr)
    return "unknown" if found is None else found[1]


VERSION: Final = _version()
COMPARED: Final = VERSION == FOLLOWED
"""Others have other edges of windows (3.0), or extend a rise in another way."""
NOT_COMPARED: Final = (
    f"needs promtool {FOLLOWED} to compare with (apt-get install prometheus), found {VERSION}"
)

Alerts: TypeAlias = Sequence[Collection[Labels]]
"""The series `ALERTS` that there are at each step."""


@frozen
class Expected:
    """What the rules must make of a recording. `fires`: alerts, each with labels that it must have.

    Each must fire at some time, be over at the end, and no other one but those in `may` may fire.
    """

    fires: dict[str, dict[str, str]]
    may: Collection[str] = ()
    lasting: Collection[str] = ()
    """Those of `fires` that may not be over at the end, such as the ones of a budget of three days."""


@frozen
class Question:
    """PromQL for the end of a recording, and the series that it must have, each with the value 1."""

    expr: str
    series: Collection[Labels] = ()


def groups() -> list[dict[str, Any]]:
    """The rules of the simulated operator."""
    return rule_groups('namespace="toys-system"')


def write_rules(folder: Path) -> Path:
    """The rules as a file of Prometheus."""
    file = folder / "rules.yaml"
    file.write_text(yaml.safe_dump({"groups": groups()}))
    return file


def check_rules(file: Path) -> str:
    """What promtool finds wrong in rules; empty if nothing."""
    assert PROMTOOL is not None
    done = subprocess.run((PROMTOOL, "check", "rules", str(file)), capture_output=True, text=True)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def complaints(
    folder: Path, tests: Sequence[tuple[str, Recording, Expected]], alerts: Sequence[Alerts], seconds: float
) -> str:
    """What does not happen as expected, in promtool's words; empty if all does. A step takes `seconds`.

    In each test there must be exactly these alerts at each step, if promtool is of the version `FOLLOWED`.
    """
    rules = write_rules(folder)
    document = {
        "rule_files": [rules.name],
        "evaluation_interval": f"{seconds:g}s",
        # Without an order, promtool draws one, and an alert may see what was recorded a step ago.
        "group_eval_order": [group["name"] for group in groups()],
        "tests": [_test(*test, timeline, seconds) for test, timeline in zip(tests, alerts, strict=True)],
    }
    return tested(folder, document)


def tested(folder: Path, document: Mapping[str, Any]) -> str:
    """What promtool says of a file of tests; empty if all is as it expects."""
    assert PROMTOOL is not None
    file = folder / "tests.yaml"
    file.write_text(yaml.dump(document, Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper)))
    done = subprocess.run((PROMTOOL, "test", "rules", file.name), cwd=folder, capture_output=True, text=True)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def _test(
    name: str, recording: Recording, expected: Expected, alerts: Alerts, seconds: float
) -> dict[str, Any]:
    end = (recording.steps - 1) * seconds
    series = [
        {"series": series, "values": " ".join(notation(values, recording.steps))}
        for series, values in recording.series.items()
    ]
    return {
        "name": name,
        "interval": f"{seconds:g}s",
        "input_series": series,
        "promql_expr_test": [
            *(_asked(one.expr, end, one.series) for one in questions(expected)),
            *(
                _asked("ALERTS", step * seconds, there)
                for step, there in enumerate(alerts if COMPARED else [])
            ),
        ],
    }


def _asked(expr: str, second: float, series: Collection[Labels]) -> dict[str, Any]:
    samples = [{"labels": str(labels), "value": 1} for labels in series]
    return {"expr": expr, "eval_time": f"{second:g}s", "exp_samples": samples}


def questions(expected: Expected) -> Iterator[Question]:
    """How to ask whether all is as expected."""
    firing = 'ALERTS{alertstate="firing"%s}'
    known = "|".join([*expected.fires, *expected.may])
    others = firing % (f',alertname!~"{known}"' if known else "")
    yield Question(f"count by (alertname) (count_over_time({others}[7d]))")
    for name, labels in expected.fires.items():
        said = {"alertname": name, **labels}
        matchers = "".join(f',{label}="{value}"' for label, value in said.items())
        fired = f"count by (alertname) (count_over_time({firing % matchers}[7d])) > bool 0"
        yield Question(fired, [Labels.of({"alertname": name})])
        if name not in expected.lasting:
            yield Question(f"count by (alertname) ({firing % matchers})")


def notation(values: Sequence[float | None], steps: int) -> Iterator[str]:
    """Values in the notation of promtool; a series whose target is gone is stale, as Prometheus marks it."""
    whole = [*values, *([None] * (steps - len(values)))]
    seen = False
    for value, group in groupby(whole, repr):
        number = len([*group])
        if value == "None":
            yield from (["stale"] if seen else []) + ([f"_x{number - seen}"] if number > seen else [])
        else:
            yield f"{value}+0x{number - 1}" if number > 1 else value
        seen = value != "None"
