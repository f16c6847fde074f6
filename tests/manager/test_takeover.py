"""In nobody's way: who else is at work, what a selector chooses, and what a run in shadow does not send."""

import logging
from collections.abc import Mapping
from typing import Any

import anyio
import pytest

from informers import HttpRequest
from reconcile import Client, Context, Controller, Manager, ObjectMeta
from reconcile.controller.declaration import Predecessor
from reconcile.embedded import ApiServer, InProcessTransport
from reconcile.kinds import ConfigMap, Pod, Secret
from reconcile.manager.predecessor_check import PredecessorActive
from reconcile.testing import Fault, FaultyTransport, Refuse, VirtualClock, When, simulate
from tests.helpers.pods import pod
from tests.helpers.scenarios import in_world

ORIGINAL = Predecessor(
    "Rival", leases=("rival-leader",), deployments=("rival-operator",), images=("example.com/rival",)
)


class Played:
    """A server, a user of it, and the record of what a manager asks."""

    def __init__(self) -> None:
        self.clock = VirtualClock(0)
        self.server = ApiServer(clock=self.clock)
        self.transport = InProcessTransport(self.server)
        self.user = Client(self.transport, field_manager="user", clock=self.clock)
        self.recorded = FaultyTransport(self.transport)

    def manager(self, *controllers: Controller[Any], **options: Any) -> Manager:
        return Manager(*controllers, transport=self.recorded, clock=self.clock, environ={}, **options)

    async def runs(self, manager: Manager, seconds: float = 5.0) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(self.server.run)
            await group.start(manager.run)
            await anyio.sleep(seconds)
            group.cancel_scope.cancel()

    @property
    def writes(self) -> list[str]:
        return [f"{one.method} {one.path}" for one in self.recorded.writes if "events" not in one.path]


async def stamp(ctx: Context[Pod]) -> None:
    """Writes what a run of it would: a status, and a child."""
    patch = {"metadata": {"labels": {"stamped": "yes"}}}
    if "stamped" not in ctx.object.metadata.labels:
        await ctx.client.raw.merge(ctx.object, patch)
    ctx.condition("Stamped", True, reason="Test")


def stamps(**options: Any) -> Controller[Pod]:
    return Controller(
        Pod, stamp, writes=[Pod], name="stamps", predecessor=ORIGINAL, **options, operator="example.com"
    )


def played(scenario: Any) -> None:
    async def run() -> None:
        await scenario(Played())

    simulate(run)


async def wrote_a_status(here: Played, seconds_ago: float) -> None:
    rival = here.user.with_options(field_manager="rival-manager")
    made = await here.user.create(pod("one"))
    await rival.raw.merge(made, {"status": {"message": "x"}}, guard={}, subresource="status")
    here.clock.advance(seconds_ago)


async def holds_a_lease(here: Played, seconds_ago: float) -> None:
    now = here.clock.now().isoformat(timespec="microseconds").replace("+00:00", "Z")
    spec = {"holderIdentity": "rival-0", "leaseDurationSeconds": 15, "renewTime": now}
    metadata = {"name": "rival-leader", "namespace": "default"}
    await here.user.create(
        {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
    )
    here.clock.advance(seconds_ago)


def deployment(name: str, image: str, replicas: int) -> Mapping[str, Any]:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "a", "image": image}]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template},
    }


async def refusal(here: Played, **options: Any) -> str:
    try:
        await here.runs(here.manager(stamps(), **options))
    except BaseException as error:
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        if not isinstance(error, PredecessorActive):
            raise
        if here.writes:
            raise AssertionError(here.writes) from None
        return str(error)
    return ""


@pytest.mark.rule("takeover-predecessor")
@in_world(played)
async def test_a_recent_writer_of_the_status_is_named_and_nothing_is_written(here: Played) -> None:
    await wrote_a_status(here, 540)
    said = await refusal(here)
    assert "stamps: Rival is active on pods" in said
    assert "field manager 'rival-manager' wrote the status of default/one 540 s ago" in said
    assert "--take-over" in said


@pytest.mark.rule("takeover-predecessor")
@in_world(played)
async def test_a_field_manager_that_wrote_the_status_long_ago_is_not_active(here: Played) -> None:
    await wrote_a_status(here, 660)
    assert await refusal(here) == ""
    assert here.writes


@pytest.mark.rule("takeover-predecessor")
@in_world(played)
async def test_own_writes_to_the_status_do_not_count(here: Played) -> None:
    await here.user.create(pod("one"))
    assert await refusal(here) == ""
    here.recorded = FaultyTransport(here.transport)
    assert await refusal(here) == ""


@pytest.mark.rule("takeover-predecessor")
@pytest.mark.parametrize(("seconds", "found"), [(10, True), (120, False)])
@in_world(played)
async def test_a_lease_counts_while_it_is_renewed(here: Played, seconds: float, found: bool) -> None:
    await holds_a_lease(here, seconds)
    said = await refusal(here)
    assert ("Lease default/rival-leader was renewed 10 s ago" in said) == found


@pytest.mark.rule("takeover-predecessor")
@pytest.mark.parametrize(
    ("name", "image", "replicas", "found"),
    [
        ("rival-operator", "some", 1, True),
        ("rival-operator", "some", 0, False),
        ("renamed", "example.com/rival:v2", 2, True),
        ("other", "example.com/other", 1, False),
    ],
)
@in_world(played)
async def test_a_deployment_counts_by_its_name_or_its_image(
    here: Played, name: str, image: str, replicas: int, found: bool
) -> None:
    await here.user.create(deployment(name, image, replicas))
    said = await refusal(here)
    assert (f"Deployment default/{name} has {replicas} replicas" in said) == found


def test_one_name_of_a_predecessor_may_be_given_as_text() -> None:
    one = Predecessor("Rival", leases="leader", deployments="rival", images="rival", field_managers="manager")
    assert (one.leases, one.deployments, one.images) == (("leader",), ("rival",), ("rival",))
    assert one.field_managers == ("manager",)


@pytest.mark.rule("takeover-predecessor")
@pytest.mark.parametrize("status", [{"replicas": 2}, {"replicas": 0, "terminatingReplicas": 2}])
@in_world(played)
async def test_a_deployment_counts_until_its_last_pod_has_ended(here: Played, status: dict[str, int]) -> None:
    made = await here.user.create(deployment("rival-operator", "some", 0))
    await here.user.raw.merge(made, {"status": status}, guard={}, subresource="status")
    assert "has no replicas, and pods that have not ended: 2" in await refusal(here)
    await here.user.raw.merge(made, {"status": dict.fromkeys(status, 0)}, guard={}, subresource="status")
    assert await refusal(here) == ""


@pytest.mark.rule("takeover-predecessor")
@in_world(played)
async def test_take_over_starts_despite_an_active_predecessor(here: Played) -> None:
    await wrote_a_status(here, 0)
    assert await refusal(here, take_over=True) == ""
    assert here.writes


@pytest.mark.rule("takeover-predecessor")
@in_world(played)
async def test_an_added_controller_is_checked_for_its_predecessor_too(here: Played) -> None:
    await here.user.create(deployment("rival-operator", "some", 1))
    manager = here.manager()
    async with anyio.create_task_group() as group:
        group.start_soon(here.server.run)
        await group.start(manager.run)
        with pytest.raises(PredecessorActive):
            await manager.add(stamps())
        group.cancel_scope.cancel()


@pytest.mark.rule("takeover-predecessor")
def test_an_unreadable_trace_of_a_predecessor_is_logged_and_the_others_are_checked(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(here: Played) -> None:
        await here.user.create(deployment("rival-operator", "some", 1))
        here.recorded.add(Fault(When("list", "*/leases"), Refuse(403, "Forbidden", "leases is forbidden")))
        assert "Deployment default/rival-operator" in await refusal(here)

    with caplog.at_level(logging.WARNING, "reconcile"):
        played(scenario)
    assert any("cannot check for a predecessor" in record.getMessage() for record in caplog.records)


@pytest.mark.rule("takeover-predecessor")
@in_world(played)
async def test_a_predecessor_in_one_of_several_clusters_prevents_the_start(here: Played) -> None:
    beside = Played()
    await here.user.create(deployment("rival-operator", "some", 1))
    ways = {"east": beside.recorded, "west": here.recorded}
    manager = Manager(stamps(), clusters=ways, clock=here.clock, environ={})
    with pytest.raises((PredecessorActive, BaseExceptionGroup)):
        await here.runs(manager)
    assert here.writes == []


@pytest.mark.rule("takeover-selector")
@in_world(played)
async def test_a_selector_limits_a_manager_to_objects_with_the_labels(here: Played) -> None:
    await here.user.create(pod("mine", labels={"team": "a"}))
    await here.user.create(pod("theirs", labels={"team": "b"}))
    await here.runs(here.manager(stamps(cleanup=stamp), selector="team in (a,c)"))
    assert here.writes
    assert all("/pods/mine" in write for write in here.writes)


@pytest.mark.rule("takeover-selector")
@in_world(played)
async def test_objects_controlled_by_a_selected_object_are_selected_too(here: Played) -> None:
    async def make_child(ctx: Context[ConfigMap]) -> None:
        await ctx.apply({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": f"of-{ctx.object.name}"}})

    async def mark(ctx: Context[Secret]) -> None:
        await ctx.client.raw.merge(ctx.object, {"metadata": {"labels": {"kept": "yes"}}})

    for name, team in (("mine", "a"), ("theirs", "b")):
        await here.user.create(ConfigMap(metadata=ObjectMeta(name, "default", labels={"team": team})))
    await here.user.create(Secret(metadata=ObjectMeta("nobodys", "default")))
    above = Controller(ConfigMap, make_child, owns=[Secret], name="above", operator="example.com")
    below = Controller(Secret, mark, writes=[Secret], name="below", operator="example.com")
    await here.runs(here.manager(above, below, selector="team=a"))
    found = {one.name: dict(one.metadata.labels) for one in await here.user.list(Secret, "default")}
    assert found == {"of-mine": {"kept": "yes"}, "nobodys": {}}


def test_an_invalid_selector_is_refused() -> None:
    with pytest.raises(ValueError, match="selector"):
        Manager(selector="a=b=c,,(")


# --- in shadow --------------------------------------------------------------------------------------------


@pytest.mark.rule("takeover-shadow")
@in_world(played)
async def test_in_shadow_each_write_is_logged_in_one_line_and_none_is_sent(
    here: Played, caplog: pytest.LogCaptureFixture
) -> None:
    async def everything(ctx: Context[ConfigMap]) -> None:
        await ctx.client.raw.merge(ctx.object, {"data": {"size": "2"}})
        await ctx.create(Secret(metadata=ObjectMeta("new"), data={"key": "c2VjcmV0LXZhbHVl"}))
        await ctx.create(ConfigMap(metadata=ObjectMeta(generate_name="made-")))
        await ctx.apply({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "applied"}})
        await ctx.delete(await ctx.client.get(ConfigMap, "doomed", "default"))
        ctx.event("Told", "of it")

    await here.user.create(ConfigMap(metadata=ObjectMeta("doomed", "default", labels={"no": "x"})))
    await here.user.create(
        ConfigMap(metadata=ObjectMeta("settings", "default", labels={"do": "x"}), data={"size": "1"})
    )
    controller = Controller(
        ConfigMap, everything, writes=[ConfigMap, Secret], every=2, name="everything", operator="example.com"
    )
    with caplog.at_level(logging.INFO, "reconcile.shadow"):
        await here.runs(here.manager(controller, selector="do", dry_run=True), 10)
    assert here.recorded.writes == []
    assert [one.name for one in await here.user.list(Secret, "default")] == []
    assert (await here.user.get(ConfigMap, "settings", "default")).data == {"size": "1"}
    lines = [record for record in caplog.records if record.name == "reconcile.shadow"]
    told = {(record.method, record.path.rpartition("/")[2]): record.changes for record in lines}  # type: ignore[attr-defined]
    assert told["PATCH", "settings"] == ['.data.size: "1" -> "2"']
    assert ("POST", "secrets") in told
    assert ("PATCH", "applied") in told
    assert ("DELETE", "doomed") in told
    assert "c2VjcmV0LXZhbHVl" not in str(told)
    assert len([record for record in lines if record.method == "DELETE"]) == 1  # type: ignore[attr-defined]


@pytest.mark.rule("takeover-shadow")
@in_world(played)
async def test_a_shadow_neither_leads_nor_checks_for_an_active_predecessor(here: Played) -> None:
    from reconcile import LeaderElection

    await wrote_a_status(here, 0)
    manager = here.manager(stamps(), dry_run=True, leader_election=LeaderElection("mine", "default"))
    await here.runs(manager)
    assert here.recorded.writes == []


@pytest.mark.rule("takeover-shadow")
@pytest.mark.parametrize("kind", ["merge", "json", "scale", "update"])
@in_world(played)
async def test_in_shadow_every_kind_of_write_is_answered_as_if_it_had_been_stored(
    here: Played, kind: str
) -> None:
    from reconcile.manager.shadow import ShadowTransport

    made = await here.user.create(deployment("web", "some", 1))
    shadow = ShadowTransport(here.recorded, here.clock)
    client = Client(shadow, clock=here.clock, dry_run=True)
    if kind == "merge":
        answered = await client.raw.merge(made, {"spec": {"replicas": 3}}, guard={})
        assert answered["spec"]["replicas"] == 3
    elif kind == "update":
        answered = await client.raw.update(made)
        assert answered.uid == made.uid
    elif kind == "scale":
        assert await client.scale(made, lambda replicas: replicas + 2) == 3
    else:
        operations = [
            {"op": "test", "path": "/spec/replicas", "value": 1},
            {"op": "replace", "path": "/spec/replicas", "value": 5},
            {"op": "add", "path": "/metadata/labels", "value": {"a": "b"}},
            {"op": "remove", "path": "/spec/paused"},
        ]
        import msgspec

        answer = await shadow.request(
            HttpRequest(
                "PATCH",
                "/apis/apps/v1/namespaces/default/deployments/web",
                {},
                {"content-type": "application/json-patch+json"},
                msgspec.json.encode(operations),
            )
        )
        body = msgspec.json.decode(answer.body)
        assert (body["spec"]["replicas"], body["metadata"]["labels"]) == (5, {"a": "b"})
    assert here.recorded.writes == []
