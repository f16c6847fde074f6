"""Asks a real Prometheus what its rules make of recorded samples: `promtool test rules`."""

import shutil
import subprocess
from collections.abc import Collection, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import yaml
from attrs import frozen

from reconcile.monitoring.rules import rule_groups
from tests.monitoring.simulated_operator import STEP, Recording

PROMTOOL: Final = shutil.which("promtool")
WHY_NOT: Final = "there is no promtool on this machine: apt-get install prometheus"


@frozen
class Expected:
    """What the rules must make of a recording. `fires`: alerts, each with labels that it must have.

    Each must fire at some time, be over at the end, and no other one but those in `may` may fire.
    """

    fires: dict[str, dict[str, str]]
    may: Collection[str] = ()
    lasting: Collection[str] = ()
    """Those of `fires` that may not be over at the end, such as the ones of a budget of three days."""


def write_rules(folder: Path) -> Path:
    """The rules as a file of Prometheus."""
    file = folder / "rules.yaml"
    file.write_text(yaml.safe_dump({"groups": rule_groups('namespace="toys-system"')}))
    return file


def check_rules(file: Path) -> str:
    """What promtool finds wrong in rules; empty if nothing."""
    assert PROMTOOL is not None
    done = subprocess.run((PROMTOOL, "check", "rules", str(file)), capture_output=True, text=True)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def complaints(folder: Path, tests: Sequence[tuple[str, Recording, Expected]], seconds: float = STEP) -> str:
    """What does not happen as expected, in promtool's words; empty if all does. A step takes `seconds`."""
    assert PROMTOOL is not None
    rules = write_rules(folder)
    file = folder / "tests.yaml"
    document = {
        "rule_files": [rules.name],
        "evaluation_interval": f"{seconds:g}s",
        "tests": [_test(*test, seconds) for test in tests],
    }
    file.write_text(yaml.dump(document, Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper)))
    done = subprocess.run((PROMTOOL, "test", "rules", file.name), cwd=folder, capture_output=True, text=True)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def _test(name: str, recording: Recording, expected: Expected, seconds: float) -> dict[str, Any]:
    end = f"{(recording.steps - 1) * seconds:g}s"
    series = [
        {"series": series, "values": " ".join(notation(values, recording.steps))}
        for series, values in recording.series.items()
    ]
    return {
        "name": name,
        "interval": f"{seconds:g}s",
        "input_series": series,
        "promql_expr_test": [{"eval_time": end, **one} for one in _questions(expected)],
    }


def _questions(expected: Expected) -> Iterator[dict[str, Any]]:
    firing = 'ALERTS{alertstate="firing"%s}'
    known = "|".join([*expected.fires, *expected.may])
    others = firing % (f',alertname!~"{known}"' if known else "")
    yield {"expr": f"count by (alertname) (count_over_time({others}[7d]))", "exp_samples": []}
    for name, labels in expected.fires.items():
        said = {"alertname": name, **labels}
        matchers = "".join(f',{label}="{value}"' for label, value in said.items())
        fired = f"count by (alertname) (count_over_time({firing % matchers}[7d])) > bool 0"
        yield {"expr": fired, "exp_samples": [{"labels": f'{{alertname="{name}"}}', "value": 1}]}
        if name not in expected.lasting:
            yield {"expr": f"count by (alertname) ({firing % matchers})", "exp_samples": []}


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
