"""The trace of a run for people: who did what, in order, what it changed, and what was wrong."""

import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, TypeAlias

import msgspec

from reconcile.client.redaction import copies_object
from reconcile.embedded.log import StoredChange
from reconcile.testing.end_state import differences
from reconcile.testing.fake_services.service import FakeService
from reconcile.testing.fake_services.service_resources import ResourceChange
from reconcile.testing.faults import FaultPlan
from reconcile.testing.recorded_requests import UNCOUNTED
from reconcile.testing.redactor import Redactor
from reconcile.testing.run_records import Livelock, LoopStep
from reconcile.testing.runs_under_way import RunRef
from reconcile.testing.scenario_runner import ScenarioRun

_LEFT_OUT = ("managedFields", "resourceVersion", "uid", "creationTimestamp")
_LONGEST = 60
_MOST_LINES = 120

TraceLine: TypeAlias = tuple[float, int, str]
"""Time, rank among the lines of that time, and text."""


def pytest_parameter(plan: FaultPlan) -> str:
    """A plan as a line of `@pytest.mark.parametrize("plan", [...])`."""
    return f"pytest.param({plan}),"


def format_trace(run: ScenarioRun) -> str:
    """What happened, an event a line, with the differences of the objects and without secrets."""
    lines = [f"seed {run.plan.seed}; {_faults(run.plan)}"]
    livelock = run.world.livelock
    until = math.inf if livelock is None else livelock.turn_began
    lines += _shortened(
        [
            f"{at:9.3f} s  {text}"
            for at, _, text in sorted(_events(run), key=lambda line: line[:2])
            if at <= until
        ]
    )
    if livelock is not None:
        lines += _shortened(list(_loop(livelock, run.redactor)))
    lines += ["", "What is wrong:", *(f"  {found}" for found in run.violations)] if run.violations else [""]
    lines += ["To run it again:", f"  {pytest_parameter(run.plan)}"]
    return "\n".join(lines)


def _shortened(lines: list[str]) -> list[str]:
    if len(lines) <= _MOST_LINES:
        return lines
    left_out = f"{'':9}    … {len(lines) - _MOST_LINES} more …"
    return [*lines[: _MOST_LINES // 2], left_out, *lines[-_MOST_LINES // 2 :]]


def _loop(livelock: Livelock, redactor: Redactor) -> Iterator[str]:
    """The last turn of a loop: who wrote what, and which write woke them."""
    yield ""
    yield "The last writes of the loop:" if not livelock.turns else "The loop, which goes on like this:"
    before: RunRef | None = None
    for step in livelock.steps:
        timed, by = step.changed, step.changed.by
        if by != before and by is not None:
            yield f"{timed.at:9.3f} s  {by}{_woken(step)}"
        elif by is None:
            yield f"{timed.at:9.3f} s  the server, or what runs in the cluster"
        before = by
        yield f"{'':9}      {_changed(timed.change, redactor)}"
    yield f"{livelock.ended:9.3f} s  and so on" if livelock.turns else ""


def _woken(step: LoopStep) -> str:
    if step.woken is None:
        return ""
    cause, run = step.woken
    if cause.resource is None:
        return f", woken by {cause}"
    by = step.changed.by
    own = run is not None and by is not None and run.controller == by.controller and run.request == by.request
    who = "its own write" if own else f"what {run} wrote" if run is not None else "a change"
    return f", woken by {who} to {cause.resource.plural} {cause.key}"


def _faults(plan: FaultPlan) -> str:
    faults = "; ".join(f"{fault.what} at {fault.when}" for fault in plan.faults) or "no faults"
    if plan.schedule is None:
        return faults
    choices = [f"  choice {choice.at}: {choice.take}" for choice in plan.schedule]
    return "\n".join([f"{faults}; the schedule differs from the usual order in", *(choices or ["  nothing"])])


def _events(run: ScenarioRun) -> Iterator[TraceLine]:
    world, redactor = run.world, run.redactor
    for act in world.acts:
        yield act.at, 0, f"user       {act.text}"
    for opening in world.openings:
        yield opening.at, 4, f"obligation {opening.text}"
    for one in world.changes:
        if one.change.resource not in UNCOUNTED:
            yield one.at, 2, f"server     {_changed(one.change, run.redactor)}"
    for service in world.services:
        for plural, resources in service.collections.items():
            for changed in resources.changes:
                yield (
                    changed.at,
                    2,
                    f"{service.name:<10} {_changed_outside(service, plural, changed, redactor)}",
                )
    for delivery in world.deliveries:
        yield delivery.at, 1, delivery.text
    for process in world.processes:
        manager = f"manager {process.number}"
        for request in process.transport.requests:
            if request.mutating and request.counted:
                answer = _answered(request.status, request.server_status)
                yield request.at, 1, f"{manager}  {request.summary} -> {answer}"
        for death in process.deaths:
            yield death.at, 3, f"{manager}  life {death.life} ends: {death.why}"
        for line in process.transport.applied:
            at, _, text = line.partition("s ")
            yield float(at), 1, f"fault      {text}"
    for reconciled in world.runs:
        if reconciled.outcome == "cancelled":
            continue
        cause = f" ({reconciled.causes[-1]})" if reconciled.causes else ""
        message = f": {reconciled.message}" if reconciled.message else ""
        text = f"runs {reconciled.controller} for {reconciled.request}{cause}: {reconciled.outcome}{message}"
        yield reconciled.started, 1, f"manager {reconciled.process}  {text}"


def _answered(status: int | None, server_status: int | None) -> str:
    if status == server_status:
        return str(status)
    server = "never received it" if server_status is None else f"answered {server_status}"
    return f"{'no answer' if status is None else status}; the server {server}"


def _changed(change: StoredChange, redactor: Redactor) -> str:
    plural = change.resource[1]
    name = f"{plural} {change.key}"
    if change.old is None or change.new is None:
        return f"{name} is {'created' if change.old is None else 'deleted'}"
    if change.old.uid != change.new.uid:
        return f"{name} is replaced by another object"
    old, new = change.old.decode(), change.new.decode()
    fields = _fields(_without_metadata(old), _without_metadata(new), partial(redactor.hides, plural))
    return f"{name}: {fields}"


def _fields(old: Mapping[str, Any], new: Mapping[str, Any], hides: Callable[[str], bool]) -> str:
    found = list(differences(old, new))
    fields = [
        f"{path.strip('.')}: {_shown(left)} -> {_shown(right)}"
        for path, left, right in found
        if not hides(path)
    ]
    hidden = [path for path, _, _ in found if hides(path)]
    if any(map(copies_object, hidden)):
        fields.append("a copy of the object in an annotation has changed")
    if not all(map(copies_object, hidden)):
        fields.append("a secret has changed")
    return "; ".join(fields) or "unchanged"


def _changed_outside(
    service: FakeService, plural: str, change: ResourceChange[Any], redactor: Redactor
) -> str:
    name = f"{plural} {change.id}"
    if change.old is None or change.new is None:
        return f"{name} is {change.what}"
    resources = service.collections[plural]
    old, new = resources.body_of(change.old.value), resources.body_of(change.new.value)
    hides = partial(redactor.hides, f"{service.name}/{plural}")
    return f"{name}: {_fields(old, new, hides)}"


def _without_metadata(body: Mapping[str, Any]) -> dict[str, Any]:
    metadata = {name: value for name, value in body["metadata"].items() if name not in _LEFT_OUT}
    return {**body, "metadata": metadata}


def _shown(value: Any) -> str:
    text = value if value == "<nothing>" else msgspec.json.encode(value).decode()
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
