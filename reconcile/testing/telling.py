"""A run as a story to read: who did what, in order, what changed by it, and what was wrong in the end."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from reconcile.embedded.log import StoredChange
from reconcile.testing.ending import differences
from reconcile.testing.faults import FaultPlan
from reconcile.testing.once import describe
from reconcile.testing.requests import target_of
from reconcile.testing.running import Run
from reconcile.testing.veil import Veil
from reconcile.testing.world import World

_UNTOLD = ("managedFields", "resourceVersion", "uid", "creationTimestamp")
_LONGEST = 60
_MOST_LINES = 120
_Line = tuple[float, int, str]


def pytest_parameter(plan: FaultPlan) -> str:
    """A plan as a line of `@pytest.mark.parametrize("plan", [...])`."""
    return f"pytest.param({plan}),"


def story(run: Run) -> str:
    """What happened, a line for each thing, with the differences of the objects; nothing secret is shown."""
    lines = [f"seed {run.plan.seed}; {_said(run.plan)}"]
    told = [f"{at:9.3f} s  {text}" for at, _, text in sorted(_events(run.world), key=lambda line: line[:2])]
    if len(told) > _MOST_LINES:
        left_out = len(told) - _MOST_LINES
        told[_MOST_LINES // 2 : -_MOST_LINES // 2] = [f"{'':9}    … {left_out} more …"]
    lines += told
    lines += ["", "What is wrong:", *(f"  {found}" for found in run.violations)] if run.violations else [""]
    lines += ["To tell it again:", f"  {pytest_parameter(run.plan)}"]
    return "\n".join(lines)


def _said(plan: FaultPlan) -> str:
    if not plan.faults:
        return "no faults"
    return "; ".join(f"{fault.what} at {fault.when}" for fault in plan.faults)


def _events(world: World) -> Iterator[_Line]:
    """Every line with its time, and for lines of one time the order in which they are told."""
    veil = world.veil
    for done in world.done:
        yield done.at, 0, f"somebody   {done.text}"
    for happened in world.changes:
        if happened.change.resource[1] not in ("events", "leases"):
            yield happened.at, 2, f"server     {_changed(happened.change, veil)}"
    for process in world.processes:
        who = f"manager {process.number}"
        for request in process.transport.requests:
            if request.mutating and target_of(request.path)[0] not in ("events", "leases"):
                yield (
                    request.at,
                    1,
                    f"{who}  {describe(request)}{_told(request.status, request.server_status)}",
                )
        for death in process.deaths:
            yield death.at, 3, f"{who}  life {death.life} ends: {death.why}"
        for line in process.transport.applied:
            at, _, text = line.partition("s ")
            yield float(at), 1, f"fault      {text}"
    for run in world.runs:
        if run.outcome == "cancelled":
            continue
        why = f" ({run.causes[-1]})" if run.causes else ""
        message = f": {run.message}" if run.message else ""
        yield (
            run.started,
            1,
            f"manager {run.process}  runs {run.controller} for {run.request}{why}: {run.outcome}{message}",
        )


def _told(status: int | None, server_status: int | None) -> str:
    if status == server_status:
        return f" -> {status}"
    server = "never saw it" if server_status is None else f"said {server_status}"
    return f" -> {'no answer' if status is None else status}; the server {server}"


def _changed(change: StoredChange, veil: Veil) -> str:
    plural = change.resource[1]
    name = f"{plural} {change.key}"
    if change.old is None or change.new is None:
        return f"{name} {'is made' if change.old is None else 'is gone'}"
    if change.old.uid != change.new.uid:
        return f"{name} is another one"
    found = [
        f"{path.strip('.')}: {_shown(left)} -> {_shown(right)}"
        for path, left, right in differences(_clean(change.old.decode()), _clean(change.new.decode()))
        if not veil.covers(plural, path)
    ]
    hidden = any(
        veil.covers(plural, path) for path, _, _ in differences(change.old.decode(), change.new.decode())
    )
    return f"{name}: {'; '.join([*found, *(['what is secret has changed'] if hidden else [])]) or 'the same'}"


def _clean(body: Mapping[str, Any]) -> dict[str, Any]:
    metadata = {name: value for name, value in body["metadata"].items() if name not in _UNTOLD}
    return {**body, "metadata": metadata}


def _shown(value: Any) -> str:
    text = value if value == "<nothing>" else msgspec.json.encode(value).decode()
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
