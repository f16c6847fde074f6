"""A group of replicas at work, for the kind of its how-to page, which is nobody's original."""

import re
from pathlib import Path
from typing import Any

import anyio
import pytest

from reconcile import Client, Controller, ObjectMeta
from reconcile.kinds import Pod, PodStatus
from reconcile.models import definition_of
from reconcile.simulation import Delays, observe
from reconcile.testing import FakeClient, Fault, FaultPlan, Refuse, When, run_once
from tests.controllers.world import NAMESPACE, world
from tests.helpers.scenarios import simulated

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "keep-a-replica-group.md"
CODE = "\n".join(re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL))
NAMES: dict[str, Any] = {"__name__": "keep_a_replica_group"}
exec(compile(CODE, str(PAGE), "exec"), NAMES)
RenderFarm: Any = NAMES["RenderFarm"]
FarmSpec: Any = NAMES["FarmSpec"]
farms: Controller[Any] = NAMES["farms"]


def farm(namespace: str = "default", **spec: Any) -> Any:
    return RenderFarm(metadata=ObjectMeta("farm", namespace), spec=FarmSpec(**spec))


def test_the_page_is_short() -> None:
    assert len(PAGE.read_text().splitlines()) < 40


async def resize(client: Client, namespace: str, **spec: Any) -> None:
    def change(old: Any) -> Any:
        return RenderFarm(metadata=old.metadata, spec=FarmSpec(**spec))

    await client.modify(RenderFarm, "farm", namespace, change)


async def run_all(client: FakeClient) -> list[str]:
    for pod in await client.list(Pod, "default"):
        running = Pod(metadata=pod.metadata, spec=pod.spec, status=PodStatus(phase="Running"))
        await client.modify(Pod, pod.name, "default", lambda _, to=running: to, subresource="status")  # type: ignore[misc]
    return sorted(pod.name for pod in await client.list(Pod, "default"))


async def test_a_farm_gets_its_pods_and_is_then_left_alone() -> None:
    client = FakeClient(farm(renderers=2, hosts=2))
    assert (await run_once(farms, "default/farm", client)).writes == ["create pods default/render-*"] * 4
    labels = [pod.metadata.labels for pod in await client.list(Pod, "default")]
    assert sorted((one["example.com/replica-index"], one["example.com/host-index"]) for one in labels) == [
        ("0", "0"), ("0", "1"), ("1", "0"), ("1", "1"),
    ]  # fmt: skip
    assert len({one["example.com/replica"] for one in labels}) == 2
    marks = (await run_once(farms, "default/farm", client)).writes
    assert [write.split("/")[0] for write in marks] == ["patch pods default"] * 2
    assert (await run_once(farms, "default/farm", client)).writes == []


async def test_a_retired_pod_is_deleted_with_its_whole_replica() -> None:
    client = FakeClient(farm(renderers=2, hosts=2))
    await run_once(farms, "default/farm", client)
    pods = await run_all(client)
    await resize(client, "default", renderers=1, hosts=2, retire=(pods[0],))
    made = await run_once(farms, "default/farm", client)
    assert len([write for write in made.writes if write.startswith("delete pods")]) == 2
    assert pods[0] in "".join(made.writes)
    assert len(await client.list(Pod, "default")) == 2


async def test_a_quota_that_interrupts_a_replica_causes_no_deletions() -> None:
    """What was never whole is completed, as often as it takes (ray-project/kuberay#4540)."""
    quota = Refuse(403, "Forbidden", "exceeded quota: pods=2")
    full = FaultPlan(tuple(Fault(When("create", "*/pods", nth=nth), quota) for nth in (3, 4, 5)))
    client = FakeClient(farm(renderers=1, hosts=4), plan=full)
    for _ in range(3):
        made = await run_once(farms, "default/farm", client)
        assert made.retry
        assert not [write for write in made.writes if write.startswith("delete")]
        assert len(await client.list(Pod, "default")) == 2
    await run_once(farms, "default/farm", client)
    pods = await client.list(Pod, "default")
    assert sorted(pod.metadata.labels["example.com/host-index"] for pod in pods) == ["0", "1", "2", "3"]
    assert len({pod.metadata.labels["example.com/replica"] for pod in pods}) == 1


@pytest.mark.parametrize("seed", range(4))
@simulated
async def test_with_late_watches_one_replica_is_deleted_for_each_surplus_one(seed: int) -> None:
    async with world(seed, definition_of(RenderFarm), delays=Delays(0.2, 3.0)) as here:
        watching = observe(here.transport, Pod, namespace=NAMESPACE, clock=here.clock)
        async with watching as observer, here.running(farms, lag=(0.2, 1.0)):
            await here.user.create(farm(NAMESPACE, renderers=3, hosts=2))
            await anyio.sleep(10)
            mark = len(observer.changes)
            await resize(here.user, NAMESPACE, renderers=2, hosts=2)
            await anyio.sleep(15)
        changes = observer.changes[mark:]
        gone = {one.last.uid for one in changes if one.new is None or one.new.terminating}
        assert (len(gone), len(await here.user.list(Pod, NAMESPACE))) == (2, 4)


@simulated
async def test_a_pod_that_fails_at_once_is_recreated_less_and_less_often() -> None:
    async with world(1, definition_of(RenderFarm), delays=Delays(0.2, 0.2)) as here:
        watching = observe(here.transport, Pod, namespace=NAMESPACE, clock=here.clock)
        async with watching as observer, here.running(farms):
            await here.user.create(farm(NAMESPACE, renderers=1))
            for _ in range(300):
                await fail_running(here.user)
                await anyio.sleep(1)
        made = {one.last.uid for one in observer.changes}
        # At 0, then 10, 20, 40, 80 and 160 s after the one before.
        assert 5 <= len(made) <= 7


async def fail_running(user: Client) -> None:
    for pod in await user.list(Pod, NAMESPACE):
        if pod.status.phase == "Running":
            patch = {"status": {"phase": "Failed"}}
            await user.raw.merge(pod, patch, guard={"uid": pod.uid}, subresource="status")
