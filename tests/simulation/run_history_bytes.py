"""A run as bytes, for comparing two of them: every request, every change with its whole body, every run."""

import msgspec

from reconcile.testing import ScenarioRun


def history(run: ScenarioRun) -> bytes:
    """All that happened, in order."""
    world = run.world
    lines: list[object] = [
        ["change", one.at, *one.change.resource, *one.change.key, _body(one.change.new)]
        for one in world.changes
    ]
    lines += [["request", r.at, str(r), r.content, r.status, r.server_status] for r in world.requests]
    lines += [["run", r.started, r.ended, *r.request, *r.causes, r.outcome, r.message] for r in world.runs]
    lines += [["act", act.at, act.text] for act in world.acts]
    return b"\n".join(map(msgspec.json.encode, lines))


def _body(stored: object) -> str:
    return "" if stored is None else stored.body.decode()  # type: ignore[attr-defined]
