"""Every ready-made controller looks for its original before it writes; labels and shadow hold for it."""

from collections.abc import Mapping
from typing import Any

import anyio
import pytest

from controllers import fleets, registrysecrets, workergroups
from reconcile import Client, Controller, Manager
from reconcile.embedded import ApiServer, InProcessTransport
from reconcile.errors import PredecessorActive
from reconcile.testing import FaultyTransport, VirtualClock, simulate
from tests.controllers.fleets import fleet
from tests.helpers.scenarios import in_world

READY_MADE: dict[str, tuple[list[Controller[Any]], str]] = {
    "worker-groups": ([workergroups.controller], "quay.io/kuberay/operator:v1.4.0"),
    "registry-secrets": ([registrysecrets.controller], "ghcr.io/kubero-dev/kubero-operator/kuberoapp:v0.2.1"),
    "fleets": ([*fleets.controllers], "aibrix/controller-manager:v0.4.0"),
}
LEASES = {"worker-groups": "ray-operator-leader", "fleets": "aibrix-controller-manager"}


def definitions() -> list[Mapping[str, Any]]:
    return [
        workergroups.definition(),
        registrysecrets.definition(),
        fleets.definition(),
        fleets.set_definition(),
    ]


class Played:
    def __init__(self) -> None:
        self.clock = VirtualClock(0)
        self.server = ApiServer(clock=self.clock)
        transport = InProcessTransport(self.server)
        self.user = Client(transport, field_manager="user", clock=self.clock)
        self.recorded = FaultyTransport(transport)

    async def runs(self, controllers: list[Controller[Any]], seconds: float = 10.0, **options: Any) -> None:
        manager = Manager(*controllers, transport=self.recorded, clock=self.clock, environ={}, **options)
        async with anyio.create_task_group() as group:
            group.start_soon(self.server.run)
            await group.start(manager.run)
            await anyio.sleep(seconds)
            group.cancel_scope.cancel()


def played(scenario: Any) -> None:
    async def run() -> None:
        here = Played()
        for definition in definitions():
            await here.user.apply(definition)
        await scenario(here)

    simulate(run)


def deployment(image: str) -> Mapping[str, Any]:
    labels = {"app": "operator"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "manager", "image": image}]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "somehow-named", "namespace": "default"},
        "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": template},
    }


async def refused(here: Played, controllers: list[Controller[Any]]) -> str:
    with pytest.raises((PredecessorActive, BaseExceptionGroup)) as raised:
        await here.runs(controllers)
    assert here.recorded.writes == []
    error: BaseException = raised.value
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    assert isinstance(error, PredecessorActive)
    return str(error)


@pytest.mark.rule("takeover-ready-made")
@pytest.mark.parametrize("name", READY_MADE)
@in_world(played)
async def test_a_controller_does_not_start_beside_the_deployment_of_its_original(
    here: Played, name: str
) -> None:
    controllers, image = READY_MADE[name]
    await here.user.create(deployment(image))
    assert "Deployment default/somehow-named has 1 replicas" in await refused(here, controllers)
    await here.runs(controllers, take_over=True)


@pytest.mark.rule("takeover-ready-made")
@pytest.mark.parametrize("name", LEASES)
@in_world(played)
async def test_a_controller_does_not_start_beside_the_lease_of_its_original(here: Played, name: str) -> None:
    now = here.clock.now().isoformat(timespec="microseconds").replace("+00:00", "Z")
    spec = {"holderIdentity": "it", "leaseDurationSeconds": 15, "renewTime": now}
    metadata = {"name": LEASES[name], "namespace": "default"}
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
    await here.user.create(lease)
    assert f"Lease default/{LEASES[name]}" in await refused(here, READY_MADE[name][0])


@pytest.mark.rule("takeover-ready-made")
@in_world(played)
async def test_a_controller_does_not_start_if_another_manager_has_just_written_a_status(here: Played) -> None:
    made = await here.user.create(fleet(1))
    original = here.user.with_options(field_manager="manager")
    await original.raw.merge(made, {"status": {"replicas": 1}}, guard={}, subresource="status")
    said = await refused(here, READY_MADE["fleets"][0])
    assert "AIBrix is active on rayclusterfleets" in said
    assert "'manager' wrote the status of default/fleet" in said


@pytest.mark.rule("takeover-ready-made", "takeover-selector")
@in_world(played)
async def test_fleets_and_everything_below_them_are_selected_by_the_labels_of_the_fleet(here: Played) -> None:
    chosen = fleet(1, name="chosen").with_metadata(labels={"team": "a"})
    await here.user.create(chosen)
    await here.user.create(fleet(1, name="other"))
    controllers = [*fleets.make_controllers(), workergroups.make_controller()]
    await here.runs(controllers, selector="team=a")
    assert any(write.path.endswith("/pods") for write in here.recorded.writes)
    assert not any("other" in str(write.body) + write.path for write in here.recorded.writes)


@pytest.mark.rule("takeover-ready-made", "takeover-shadow")
@in_world(played)
async def test_in_shadow_the_bundled_controllers_send_nothing(
    here: Played, caplog: pytest.LogCaptureFixture
) -> None:
    await here.user.create(fleet(2))
    controllers = [*fleets.make_controllers(), workergroups.controller, registrysecrets.controller]
    with caplog.at_level("INFO", "reconcile.shadow"):
        await here.runs(controllers, 60, dry_run=True)
    assert here.recorded.writes == []
    told = [record.path for record in caplog.records if record.name == "reconcile.shadow"]  # type: ignore[attr-defined]
    assert any(path.endswith("/rayclusterreplicasets") for path in told)
