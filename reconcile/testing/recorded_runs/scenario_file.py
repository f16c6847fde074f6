"""Writes a moment of a recording as a module for a test suite.

All that comes from the recording is written as literals of Python: nothing of it is code.
"""

import pprint
from collections.abc import Iterator, Sequence
from typing import Any

import attrs

from reconcile.testing.recorded_runs.incident_cut import IncidentCut
from reconcile.testing.scenario_acts import ScenarioAct

_WIDTH = 100


def scenario_text(found: IncidentCut, targets: Sequence[str], source: str, at: str) -> str:
    """A module with a scenario, its plan and a test; `targets` are `module:name`, Managers or Controllers."""
    return "\n".join([*_lines(found, targets, source, at), ""])


def _lines(found: IncidentCut, targets: Sequence[str], source: str, at: str) -> Iterator[str]:
    acts = sorted({type(step).__name__ for step in found.steps})
    yield f'"""{_plain(f"What happened in {source}, {at}.")}'
    yield ""
    yield "Made by `reconcile replay --scenario`. Secrets are masked. What others made later has no owners,"
    yield "and `without=` may leave out invariants that the objects of that moment do not keep."
    yield '"""'
    yield ""
    yield "from reconcile import Controller, Manager"
    yield f"from reconcile.testing import {', '.join(sorted([*acts, 'FaultPlan', 'Scenario', 'replay']))}"
    yield ""
    modules = sorted({target.partition(":")[0] for target in targets})
    yield from (f"import {module}" for module in modules)
    yield ""
    yield f"OBJECTS = {_literal([*found.objects])}"
    yield ""
    yield "STEPS = ["
    yield from (_indented(f"{_act(step)},") for step in found.steps)
    yield "]"
    yield ""
    yield f"PLAN = FaultPlan.from_json({found.plan.to_json()!r})"
    yield ""
    yield ""
    yield "def controllers() -> list[Controller]:"
    yield f"    targets = [{', '.join(target.replace(':', '.') for target in targets)}]"
    yield "    return [one for target in targets for one in controllers_of(target)]"
    yield ""
    yield ""
    yield "def controllers_of(target: object) -> list[Controller]:"
    yield "    if isinstance(target, Manager):"
    yield "        return list(target.controllers)"
    yield "    return [target] if isinstance(target, Controller) else list(target)"
    yield ""
    yield ""
    yield "SCENARIO = Scenario(controllers=controllers, objects=OBJECTS, steps=STEPS)"
    yield ""
    yield ""
    yield "def test_the_recorded_incident() -> None:"
    yield "    replay(SCENARIO, PLAN)"


def _act(step: ScenarioAct) -> str:
    given = [
        f"{field.name}={_literal(getattr(step, field.name))}"
        for field in attrs.fields(type(step))
        if getattr(step, field.name) != field.default
    ]
    return f"{type(step).__name__}({', '.join(given)})"


def _literal(value: Any) -> str:
    return pprint.pformat(value, width=_WIDTH, sort_dicts=False)


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())


def _plain(text: str) -> str:
    """A text that ends no docstring."""
    return "".join(letter if letter.isprintable() and letter not in '"\\' else "?" for letter in text)
