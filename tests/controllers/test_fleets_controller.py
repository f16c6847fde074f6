"""Fleets, one run at a time: revisions, rollouts, what they say, what they refuse."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from controllers.fleets import RayClusterFleet
from controllers.fleets.cluster_template import canonical
from controllers.fleets.models import FleetSpec, Strategy
from reconcile import LabelSelector, Manager, ObjectMeta
from reconcile.blocks import Rollout, revisions_of
from reconcile.blocks.rollout.revisions import TEMPLATE, hash_of, notes_of
from reconcile.errors import DefinitionMismatch
from reconcile.kinds import Pod
from reconcile.models import definition_of, encode
from reconcile.testing import FakeClient, Fault, Refuse, When
from tests.controllers.fleets import LABELS, REVISION, Fleets, fleet, fleets, rolling, template
from tests.controllers.world import SAMPLES

SAMPLE = SAMPLES / "aibrix" / "rayclusterfleet.yaml"
OURS = Path(__file__).parents[2] / "controllers" / "fleets" / "sample.yaml"
DESIRED, LIMIT = "deployment.kubernetes.io/desired-replicas", "deployment.kubernetes.io/max-replicas"
ROLLBACK = "deprecated.deployment.rollback.to"


async def settled(replicas: int = 3, **spec: Any) -> Fleets:
    world = await fleets(fleet(replicas, **spec))
    await world.settle()
    return world


async def condition(world: Fleets, name: str) -> tuple[str, str]:
    found = [one for one in (await world.fleet()).status.conditions if one.type == name]
    return (found[0].status, found[0].reason) if found else ("", "")


def kinds(events: list[str] | Any) -> list[str]:
    return [event.split(":")[0] for event in events]


@pytest.mark.rule("aibrix-3d-smoke")
async def test_a_new_fleet_gets_a_set_for_its_template() -> None:
    world = await fleets(fleet(3))
    made = await world.roll()
    assert [write.split()[0] for write in made.writes] == ["create", "patch", "patch"]
    [one] = await world.sets()
    owner = await world.fleet()
    assert one.name.startswith("fleet-")
    assert one.metadata.owner_references[0].uid == owner.uid
    assert one.spec.replicas == 3
    mark = one.metadata.labels["pod-template-hash"]
    assert one.spec.selector.match_labels == {**LABELS, "pod-template-hash": mark}
    notes = one.metadata.annotations
    assert (notes[REVISION], notes[DESIRED], notes[LIMIT]) == ("1", "3", "4")
    assert owner.metadata.annotations[REVISION] == "1"


@pytest.mark.rule("aibrix-3d-scale")
async def test_the_status_of_a_settled_fleet_counts_its_clusters_and_is_then_left_alone() -> None:
    world = await settled(2)
    status = (await world.fleet()).status
    numbers = status.replicas, status.updated_replicas, status.ready_replicas, status.available_replicas
    assert numbers == (2, 2, 2, 2)
    assert (status.unavailable_replicas, status.observed_generation) == (0, 1)
    assert await condition(world, "Available") == ("True", "MinimumReplicasAvailable")
    assert await condition(world, "Progressing") == ("True", "NewReplicaSetAvailable")
    again = await world.roll()
    assert (again.writes, again.events, again.result.requeue_after) == ([], [], None)


@pytest.mark.rule("aibrix-3d-selector", "aibrix-3d-heads")
async def test_the_selector_is_text_and_finds_one_head_pod_for_each_replica() -> None:
    world = await settled(2)
    text = (await world.fleet()).status.scaling_target_selector
    assert text == "orchestration.aibrix.ai/raycluster-fleet-name=fleet,ray.io/node-type=head"
    for number, cluster in enumerate(await world.clusters()):
        head = encode(cluster)["spec"]["headGroupSpec"]["template"]["metadata"]["labels"]
        for node_type in ("head", "worker"):
            labels = {**head, "ray.io/node-type": node_type}
            pod = Pod(metadata=ObjectMeta(f"{node_type}-{number}", "default", labels=labels))
            await world.client.create(pod.replace(spec={"containers": [{"name": "a", "image": "b"}]}))
    scale = await world.client.raw.read_subresource(await world.fleet(), "scale")
    assert scale["status"] == {"replicas": 2, "selector": text}
    assert len(await world.client.list(Pod, "default", labels=scale["status"]["selector"])) == 2


@pytest.mark.rule("aibrix-3d-scale")
@pytest.mark.parametrize("replicas", [4, 1, 0])
async def test_a_scale_is_followed_down_to_zero_and_back(replicas: int) -> None:
    world = await settled(2)
    await world.client.scale(await world.fleet(), lambda _: replicas)
    await world.settle()
    assert len(await world.clusters()) == replicas
    await world.client.scale(await world.fleet(), lambda _: 1)
    await world.settle()
    assert (await world.fleet()).status.replicas == 1


@pytest.mark.rule("aibrix-3d-omitted")
async def test_the_default_strategy_rolls_by_a_quarter() -> None:
    world = await settled(8)
    await world.change(template=template("ray:2"))
    await world.roll()
    assert await world.sizes() == [6, 2]
    assert (await world.sets())[0].metadata.annotations[LIMIT] == "10"


@pytest.mark.rule("aibrix-3d-rolling")
@pytest.mark.parametrize("bounds", [(1, 0), (0, 1), ("25%", "25%")])
async def test_a_new_template_replaces_three_replicas_by_three_within_the_bounds(
    bounds: tuple[Any, Any],
) -> None:
    world = await settled(3, strategy=rolling(*bounds))
    await world.change(template=template("ray:2"))
    limit, floor = (3 + (bounds[0] != 0), 3 - (bounds[1] == 1))
    for _ in range(20):
        await world.roll()
        await world.fill()
        assert len(await world.clusters()) <= limit
        assert sum(one.status.available_replicas for one in await world.sets()) >= floor
        await world.serve()
        await world.fill()
    assert await world.sizes() == [0, 3]
    assert await condition(world, "Progressing") == ("True", "NewReplicaSetAvailable")


@pytest.mark.rule("aibrix-3d-proportional")
async def test_scaling_during_a_rollout_is_distributed() -> None:
    world = await settled(4, strategy=rolling(2, 0))
    await world.change(template=template("ray:2"))
    await world.roll()
    await world.fill()
    assert await world.sizes() == [4, 2]
    await world.roll()
    await world.change(replicas=10)
    await world.roll()
    assert await world.sizes() == [8, 4]
    await world.settle()
    assert await world.sizes() == [0, 10]


@pytest.mark.rule("aibrix-3d-pause")
async def test_a_paused_fleet_does_not_roll_but_scales() -> None:
    world = await settled(2)
    await world.change(paused=True, template=template("ray:2"), replicas=3)
    await world.settle()
    assert await world.sizes() == [3]
    assert await condition(world, "Progressing") == ("Unknown", "DeploymentPaused")
    await world.change(paused=False)
    await world.roll()
    assert await condition(world, "Progressing") != ("Unknown", "DeploymentPaused")
    await world.settle()
    assert await world.sizes() == [0, 3]


@pytest.mark.rule("aibrix-3d-recreate")
async def test_recreate_waits_until_the_last_old_cluster_is_gone() -> None:
    world = await settled(2, strategy=Strategy("Recreate"))
    for cluster in await world.clusters():
        held = {"metadata": {"finalizers": ["example.com/held"]}}
        await world.client.raw.merge(cluster, held, guard={})
    await world.change(template=template("ray:2"))
    await world.roll()
    await world.fill()
    waiting = await world.roll()
    assert await world.sizes() == [0]
    assert waiting.result.requeue_after == 15
    for cluster in await world.clusters():
        await world.client.raw.merge(cluster, {"metadata": {"finalizers": None}}, guard={})
    await world.roll()
    assert await world.sizes() == [0, 2]


@pytest.mark.rule("aibrix-3d-rollback")
@pytest.mark.parametrize("to", ["0", "1"])
async def test_a_rollback_reuses_the_earlier_template_and_its_set(to: str) -> None:
    world = await settled(2)
    [first] = await world.sets()
    await world.change(template=template("ray:2"))
    await world.settle()
    await world.annotate(**{ROLLBACK: to})
    rolled = await world.roll()
    assert kinds(rolled.events) == ["Normal DeploymentRollback"]
    back = await world.fleet()
    assert ROLLBACK not in back.metadata.annotations
    assert back.spec.template.spec["headGroupSpec"]["template"]["spec"]["containers"][0]["image"] == "ray:1"
    await world.settle()
    sets = await world.sets()
    assert [(one.metadata.annotations[REVISION], one.spec.replicas) for one in sets] == [("2", 0), ("3", 2)]
    assert sets[1].uid == first.uid
    assert sets[1].metadata.annotations["deployment.kubernetes.io/revision-history"] == "1"


@pytest.mark.rule("aibrix-3d-rollback")
@pytest.mark.parametrize(
    ("to", "event"),
    [("7", "DeploymentRollbackRevisionNotFound"), ("x", "DeploymentRollbackRevisionNotFound"),
     ("0", "DeploymentRollbackRevisionNotFound"), ("1", "DeploymentRollbackTemplateUnchanged")],
)  # fmt: skip
async def test_a_rollback_to_a_missing_revision_is_reported_and_changes_nothing(to: str, event: str) -> None:
    world = await settled(1)
    before = (await world.fleet()).spec
    await world.annotate(**{ROLLBACK: to})
    assert kinds((await world.roll()).events) == [f"Warning {event}"]
    after = await world.fleet()
    assert after.spec == before
    assert ROLLBACK not in after.metadata.annotations


@pytest.mark.rule("aibrix-3d-history")
@pytest.mark.parametrize(("limit", "left"), [(0, ["4"]), (1, ["3", "4"]), (10, ["1", "2", "3", "4"])])
async def test_old_sets_are_kept_up_to_the_history_limit(limit: int, left: list[str]) -> None:
    world = await settled(1, revision_history_limit=limit)
    for image in ("ray:2", "ray:3", "ray:4"):
        await world.change(template=template(image))
        await world.settle()
    assert [one.metadata.annotations[REVISION] for one in await world.sets()] == left


@pytest.mark.rule("aibrix-3d-deadline")
async def test_a_stalled_rollout_exceeds_its_deadline() -> None:
    world = await settled(2, progress_deadline_seconds=60)
    await world.change(template=template("ray:2"))
    await world.roll()
    await world.fill()
    assert (await world.roll()).result.requeue_after <= 61
    world.clock.advance(62)
    await world.roll()
    assert await condition(world, "Progressing") == ("False", "ProgressDeadlineExceeded")
    assert (await world.roll()).writes == []
    await world.settle()
    assert await condition(world, "Progressing") == ("True", "NewReplicaSetAvailable")


@pytest.mark.rule("aibrix-3d-deadline")
async def test_the_deadline_counts_from_the_last_progress() -> None:
    world = await settled(4, progress_deadline_seconds=60, strategy=rolling(1, 0))
    await world.change(template=template("ray:2"))
    for _ in range(3):
        await world.roll()
        await world.fill()
        await world.serve()
        await world.fill()
        world.clock.advance(50)
        await world.roll()
        assert (await condition(world, "Progressing"))[0] == "True"


@pytest.mark.rule("aibrix-3d-collision")
async def test_a_hash_collision_is_counted_and_another_hash_is_used() -> None:
    world = await fleets(fleet(1))
    wanted = canonical(encode(await world.fleet())["spec"]["template"])
    mark = hash_of(wanted)
    await world.roll()
    [made] = await world.sets()
    assert made.name == f"fleet-{mark}"
    await world.client.raw.merge(made, {"metadata": {"ownerReferences": None, "labels": None}}, guard={})
    collided = await world.roll()
    assert kinds(collided.events) == ["Warning HashCollision"]
    assert collided.result.requeue
    assert (await world.fleet()).status.collision_count == 1
    await world.roll()
    assert {one.name for one in await world.sets()} == {f"fleet-{mark}", f"fleet-{hash_of(wanted, 1)}"}


@pytest.mark.rule("aibrix-3d-label")
async def test_adding_the_label_of_the_fleet_causes_no_rollout() -> None:
    """A set that AIBrix made before its fleets had the scale contract: no digest, no label, its own hash."""
    world = await settled(2)
    [made] = await world.sets()
    bare = {"spec": {"headGroupSpec": {"template": {"metadata": None}}}}
    forgotten = {"metadata": {"annotations": {TEMPLATE: None}}, "spec": {"template": bare}}
    await world.client.raw.merge(made, forgotten, guard={})
    await world.settle()
    [same] = await world.sets()
    assert same.uid == made.uid
    head = same.spec.template.spec["headGroupSpec"]["template"]
    assert head["metadata"]["labels"] == {"orchestration.aibrix.ai/raycluster-fleet-name": "fleet"}
    assert len(await world.clusters()) == 2


@pytest.mark.rule("aibrix-3d-annotations")
@pytest.mark.parametrize(
    ("has", "lacks"),
    [
        ({}, {DESIRED: "3", LIMIT: "5"}),
        ({DESIRED: "3", LIMIT: "5"}, {}),
        ({DESIRED: "2", LIMIT: "5"}, {DESIRED: "3"}),
        ({DESIRED: "3", LIMIT: "4"}, {LIMIT: "5"}),
    ],
)
def test_a_set_records_the_size_and_limit_of_its_fleet(has: dict[str, str], lacks: dict[str, str]) -> None:
    revisions = revisions_of([], {"spec": {}})
    rollout = Rollout(3, max_surge=2, max_unavailable=0)
    assert notes_of(has, revisions, rollout, size=3, newest=False) == lacks
    assert notes_of(has, revisions, rollout, size=0, newest=False) == {}


@pytest.mark.rule("aibrix-fleet-adoption")
async def test_an_orphaned_set_is_adopted_and_one_of_another_owner_is_not() -> None:
    world = await settled(1)
    [made] = await world.sets()
    await world.client.raw.merge(made, {"metadata": {"ownerReferences": None}}, guard={})
    await world.roll()
    [adopted] = await world.sets()
    assert [one.uid for one in adopted.metadata.owner_references] == [(await world.fleet()).uid]


@pytest.mark.rule("aibrix-3e-failed")
async def test_a_set_that_cannot_be_created_is_reported() -> None:
    world = await fleets(fleet(1))
    world.client.transport.add(
        Fault(When("create", "*/rayclusterreplicasets"), Refuse(403, "Forbidden", "exceeded quota"))
    )
    failed = await world.roll()
    assert failed.retry
    assert kinds(failed.events) == ["Warning ReplicaSetCreateError"]
    assert await condition(world, "Progressing") == ("False", "ReplicaSetCreateError")
    await world.settle()
    assert await condition(world, "Progressing") == ("True", "NewReplicaSetAvailable")


@pytest.mark.rule("aibrix-bad-input")
async def test_an_invalid_fleet_is_reported_by_field_and_the_others_continue() -> None:
    world = await fleets(fleet(1, strategy=Strategy("BlueGreen")))
    await world.client.create(fleet(1, name="other"))
    refused = await world.roll()
    assert refused.error is None
    assert refused.writes == ["patch rayclusterfleets/status default/fleet"]
    assert kinds(refused.events) == ["Warning InvalidSpec"]
    said = refused.conditions["Progressing"]
    assert (said["status"], said["reason"]) == ("False", "InvalidSpec")
    assert said["message"].startswith("spec.strategy.type: ")
    again = await world.roll()
    assert (again.writes, again.events) == ([], [])
    assert any(
        write.startswith("create rayclusterreplicasets") for write in (await world.roll("other")).writes
    )


@pytest.mark.rule("aibrix-3d-start")
async def test_a_definition_without_scale_is_an_error_at_the_start() -> None:
    definition = definition_of(RayClusterFleet)
    del definition["spec"]["versions"][0]["subresources"]["scale"]
    client = FakeClient()
    await client.apply(definition)
    world = Fleets(client)
    for kind in (*world.fleets.kinds, *world.sets_of.kinds):
        client.serve(kind)
    manager = Manager(world.fleets, world.sets_of, transport=client.transport, clock=client.clock)
    with pytest.raises(DefinitionMismatch, match="no scale subresource"):
        await manager.run()


@pytest.mark.skipif(not SAMPLE.is_file(), reason="AIBrix's own sample is not on this machine")
@pytest.mark.rule("aibrix-sample")
async def test_the_original_sample_runs_unchanged() -> None:
    world = await fleets()
    await world.client.with_options(namespace="default").create(yaml.safe_load(SAMPLE.read_text()))
    await world.settle()
    status = (await world.fleet()).status
    assert (status.replicas, status.available_replicas) == (1, 1)
    [cluster] = await world.clusters()
    assert encode(cluster)["spec"]["rayVersion"] == "2.10.0"


@pytest.mark.rule("aibrix-sample")
async def test_our_own_sample_runs() -> None:
    world = await fleets()
    given = yaml.safe_load(OURS.read_text())
    given["metadata"]["name"] = "fleet"
    await world.client.create(given)
    await world.settle()
    assert (await world.fleet()).status.available_replicas == given["spec"]["replicas"]


def test_the_defaults_of_a_fleet_are_those_of_the_original() -> None:
    spec = FleetSpec(template=template(), selector=LabelSelector(LABELS))
    assert (spec.replicas, spec.revision_history_limit, spec.progress_deadline_seconds) == (1, 10, 600)
