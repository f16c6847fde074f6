"""What a manager says of objects that kopf created by half: `/debug`, metrics and Events."""

import json
from typing import Any

import anyio
import pytest
from prometheus_client import CollectorRegistry, generate_latest

from reconcile import Controller, Predecessor, Write
from reconcile.kinds import Event, Pod
from tests.helpers.pods import pod
from tests.helpers.scenarios import in_world
from tests.manager.test_takeover import Played, played, stamp

pytestmark = pytest.mark.rule("takeover-kopf")

RECORD = '{"started": "2026-11-23T10:00:00+00:00", "purpose": "create", "message": "401 for hunter2"}'
HELD = "kopf began to create default/half and did not finish: handler 'make'"


@in_world(played)
async def test_a_held_object_shows_in_the_state_in_metrics_and_in_an_event_without_what_kopf_noted(
    here: Played,
) -> None:
    await here.user.create(pod("half", annotations={"kopf.zalando.org/make": RECORD}))
    await here.user.create(pod("whole"))
    registry = CollectorRegistry()
    stamps = Controller(
        Pod,
        stamp,
        writes=[Pod, Write(Pod, ("patch",), subresource="status")],
        name="stamps",
        operator="example.com",
        predecessor=Predecessor.kopf("stamps on kopf"),
    )
    manager = here.manager(stamps, metrics=registry)
    found: dict[str, Any] = {}

    async def look() -> None:
        await anyio.sleep(60)
        found["state"] = json.dumps(manager.state())
        found["metrics"] = generate_latest(registry).decode()

    async with anyio.create_task_group() as group:
        group.start_soon(look)
        await here.runs(manager, 70)
    (event,) = await here.user.list(Event)

    (error,) = json.loads(found["state"])["controllers"]["stamps"]["errors"]
    assert error["error"].startswith(f"HalfCreated: {HELD}")
    assert 'reconcile_failing_keys{controller="stamps"} 1.0' in found["metrics"]
    assert 'terminal_reconcile_errors_total{controller="stamps"} 1.0' in found["metrics"]
    assert (event.reason, event.type) == ("HalfCreated", "Warning")
    for place in (found["state"], found["metrics"], str(event)):
        assert "hunter2" not in place
