"""Objects of an operator on kopf, taken over by runs: what goes when, what stays, and what is held."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from attrs import evolve, field, frozen

from informers import Key
from reconcile import Context, Controller, Intent, Object, ObjectMeta, Predecessor, kind_of, resource
from reconcile.client.former_managers import absorbed
from reconcile.errors import HalfCreated, TerminalError
from reconcile.kinds import ConfigMap, Deployment
from reconcile.predecessors import KopfTraces, traces_on
from reconcile.predecessors import release as release_of
from reconcile.testing import (
    Apply,
    Delete,
    FakeClient,
    Fault,
    Refuse,
    Scenario,
    When,
    World,
    run_once,
    sweep,
)

KOPF = "kopf.zalando.org/KopfFinalizerMarker"
OURS = "example.com/site"
STARTED = "2026-11-23T10:00:00+00:00"
SECRET = "hunter2"
NAMES = KopfTraces()

pytestmark = pytest.mark.rule("takeover-kopf")


@frozen
class SiteSpec:
    token: str = SECRET


@frozen
class SiteStatus:
    create_fn: Mapping[str, str] = field(factory=dict)
    kopf: Mapping[str, Any] = field(factory=dict)
    ready: bool = False


@resource("example.com/v1")
class Site(Object):
    spec: SiteSpec = SiteSpec()
    status: SiteStatus = SiteStatus()


async def keep(ctx: Context[Site]) -> None:
    site = ctx.object
    await ctx.client.apply(
        Intent(ConfigMap, metadata=ObjectMeta(site.name, site.namespace), data={"token": site.spec.token})
    )
    ctx.status(ready=True)


async def leave(ctx: Context[Site]) -> None:
    child = await ctx.client.find(ConfigMap, ctx.object.name, ctx.object.namespace)
    if child is not None:
        await ctx.client.delete(child)


async def fail(ctx: Context[Site]) -> None:
    raise OSError("the world is down")


def sites(reconcile: Any = keep, cleanup: Any = leave, **options: Any) -> Controller[Site]:
    predecessor = Predecessor.kopf("sites on kopf", **options)
    return Controller(Site, reconcile, cleanup=cleanup, owns=[ConfigMap], predecessor=predecessor)


def left_by_kopf(name: str = "a", finalizers: tuple[str, ...] = (KOPF,), **records: Any) -> Site:
    """An object that kopf has handled, or is about to: with the records of these handlers."""
    prefix = NAMES.prefix
    annotations = {
        f"{prefix}/{handler}": json.dumps({"started": STARTED, **record})
        for handler, record in records.items()
    }
    if not records:
        annotations[f"{prefix}/last-handled-configuration"] = json.dumps({"spec": {"token": SECRET}})
    annotations["mine"] = "1"
    return Site(metadata=ObjectMeta(name, "default", annotations=annotations, finalizers=finalizers))


async def test_the_finalizer_gives_way_first_and_the_annotations_go_after_the_run() -> None:
    client = FakeClient(left_by_kopf(finalizers=("other.io/x", KOPF)))
    done = await run_once(sites(), "default/a", client)

    assert done.error is None
    assert done.writes == [
        "patch sites default/a",
        "apply configmaps default/a",
        "patch sites/status default/a",
        "patch sites default/a",
    ]
    site = await client.get(Site, "a", "default")
    assert site.metadata.annotations == {"mine": "1"}
    assert set(site.metadata.finalizers) == {"other.io/x", OURS}
    assert (await run_once(sites(), "default/a", client)).writes == []


async def test_what_kopf_left_stays_until_a_run_succeeds() -> None:
    client = FakeClient(left_by_kopf())
    before = (await client.get(Site, "a", "default")).metadata.annotations

    assert (await run_once(sites(fail), "default/a", client)).retry
    assert (await client.get(Site, "a", "default")).metadata.annotations == before

    await run_once(sites(), "default/a", client)
    assert SECRET not in str((await client.get(Site, "a", "default")).metadata)


async def test_a_controller_without_cleanup_releases_what_kopf_held() -> None:
    client = FakeClient(left_by_kopf())
    await run_once(sites(cleanup=None), "default/a", client)

    assert (await client.get(Site, "a", "default")).metadata.finalizers == ()


async def test_an_object_that_kopf_created_by_half_is_held_and_reported_until_it_is_released() -> None:
    half = left_by_kopf(create_fn={"purpose": "create", "retries": 1, "message": f"401 for {SECRET}"})
    client = FakeClient(half)
    done = await run_once(sites(), half, client)

    assert done.writes == []
    assert isinstance(done.error, HalfCreated)
    assert isinstance(done.error, TerminalError)
    assert not done.retry
    assert "create_fn" in str(done.error)
    command = "reconcile adopt kopf switch --kind sites.example.com --finished default/a"
    assert str(done.error).endswith(f"then release the object: {command}")
    assert SECRET not in str(done.error)
    assert len(done.events) == 1
    assert "HalfCreated" in done.events[0]

    site = await client.get(Site, "a", "default")
    raw = {"metadata": {"annotations": dict(site.metadata.annotations), "finalizers": [KOPF]}}
    await client.raw.merge(site, {"metadata": {"annotations": {**release_of(traces_on(raw, NAMES), NAMES)}}})
    done = await run_once(sites(), half, client)
    assert done.error is None
    assert "apply configmaps default/a" in done.writes
    assert (await client.get(Site, "a", "default")).metadata.annotations == {"mine": "1"}


async def test_an_object_that_kopf_holds_and_never_handled_is_held_as_its_handler_may_have_begun() -> None:
    begun = Site(metadata=ObjectMeta("a", "default", finalizers=(KOPF,)))
    client = FakeClient(begun)
    done = await run_once(sites(), begun, client)

    assert done.writes == []
    assert isinstance(done.error, HalfCreated)
    assert "may have begun to create default/a" in str(done.error)
    assert (await run_once(sites(unfinished="run"), begun, client)).error is None


async def test_a_reconciler_that_finds_what_a_handler_made_may_run_for_half_created_objects() -> None:
    half = left_by_kopf(create_fn={"purpose": "create", "retries": 1})
    client = FakeClient(half)
    done = await run_once(sites(unfinished="run"), half, client)

    assert done.error is None
    assert (await client.get(Site, "a", "default")).metadata.annotations == {"mine": "1"}


async def test_a_half_created_object_that_is_deleted_is_cleaned_up_and_released() -> None:
    half = left_by_kopf(create_fn={"purpose": "create", "retries": 1})
    client = FakeClient(half)
    await client.delete(half)
    done = await run_once(sites(), half, client)

    assert done.error is None
    assert await client.find(Site, "a", "default") is None


async def test_the_part_of_the_status_that_is_kopfs_goes_and_results_stay() -> None:
    client = FakeClient(left_by_kopf(finalizers=()))
    site = await client.get(Site, "a", "default")
    progress = {"fn": {"started": STARTED, "purpose": "update", "success": True}}
    status = {"kopf": {"progress": progress}, "createFn": {"url": "https://a"}}
    await client.raw.merge(site, {"status": status}, subresource="status")
    done = await run_once(sites(), "default/a", client)

    assert done.error is None
    stored = await client.raw.snapshot(kind_of(Site).resource, Key("default", "a"))
    assert stored is not None
    assert stored.to_dict()["status"] == {"createFn": {"url": "https://a"}, "ready": True}


async def with_a_child_of_kopf() -> tuple[FakeClient, ConfigMap]:
    """The child as a handler made it with the client library, with a field that no intent has."""
    client = FakeClient(left_by_kopf())
    handler = client.with_options(field_manager="OpenAPI-Generator")
    meta = ObjectMeta("a", "default", labels={"made-by": "kopf"})
    return client, await handler.create(ConfigMap(metadata=meta, data={"token": "old", "extra": "1"}))


async def test_fields_of_a_child_that_the_intent_does_not_name_disappear_and_the_child_stays() -> None:
    client, child = await with_a_child_of_kopf()
    done = await run_once(sites(), "default/a", client)

    assert done.error is None
    now = await client.get(ConfigMap, "a", "default")
    assert now.uid == child.uid
    assert now.data == {"token": SECRET}
    assert "made-by" not in now.metadata.labels
    assert (await run_once(sites(), "default/a", client)).writes == []


@pytest.mark.parametrize(("keeps", "left"), [(False, 1), (True, 5)])
async def test_replicas_that_kopf_alone_has_written_stay_where_the_intent_names_those_that_are_there(
    keeps: bool, left: int
) -> None:
    def deployment(**spec: Any) -> dict[str, Any]:
        labels = {"app": "a"}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "a", "image": "a"}]}}
        spec |= {"selector": {"matchLabels": labels}, "template": template}
        metadata = {"name": "a", "namespace": "default"}
        return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}

    async def keep_replicas(ctx: Context[Site]) -> None:
        child = await ctx.client.find(Deployment, "a", "default")
        assert child is not None
        await ctx.client.apply(deployment(replicas=child.spec.replicas) if keeps else deployment())

    client = FakeClient(left_by_kopf())
    await client.with_options(field_manager="OpenAPI-Generator").create(deployment(replicas=5))
    controller = evolve(sites(keep_replicas), owns=[Deployment])

    assert (await run_once(controller, "default/a", client)).error is None
    assert (await client.get(Deployment, "a", "default")).spec.replicas == left


async def test_a_crash_after_the_fields_changed_hands_leads_to_the_same_end() -> None:
    client, _ = await with_a_child_of_kopf()
    refuse = Fault(When("patch", "*/configmaps/a", nth=2), Refuse(500, "InternalError", "down"))
    client.transport.add(refuse)
    assert (await run_once(sites(), "default/a", client)).error is not None
    assert (await client.get(ConfigMap, "a", "default")).data["extra"] == "1"

    await run_once(sites(), "default/a", client)
    assert (await client.get(ConfigMap, "a", "default")).data == {"token": SECRET}


async def test_what_others_write_with_the_same_library_later_is_left_alone() -> None:
    client, _ = await with_a_child_of_kopf()
    await run_once(sites(), "default/a", client)
    other = client.with_options(field_manager="OpenAPI-Generator")
    child = await client.get(ConfigMap, "a", "default")
    await other.raw.merge(child, {"data": {"theirs": "1"}})
    site = await client.get(Site, "a", "default")
    await client.raw.merge(site, {"spec": {"token": "new"}})
    await run_once(sites(), "default/a", client)

    assert (await client.get(ConfigMap, "a", "default")).data == {"token": "new", "theirs": "1"}


async def test_other_field_managers_keep_their_fields() -> None:
    client, child = await with_a_child_of_kopf()
    other = client.with_options(field_manager="someone")
    await other.raw.merge(child, {"data": {"theirs": "1"}})
    await run_once(sites(), "default/a", client)

    assert (await client.get(ConfigMap, "a", "default")).data == {"token": SECRET, "theirs": "1"}


def nothing_is_left(world: World) -> None:
    for site in world.objects(Site):
        raw = {"metadata": {"annotations": dict(site.metadata.annotations)}}
        assert not traces_on(raw, NAMES).annotations
        assert KOPF not in site.metadata.finalizers
        assert OURS in site.metadata.finalizers


def each_site_has_its_child(world: World) -> None:
    assert {one.name for one in world.objects(ConfigMap)} == {site.name for site in world.objects(Site)}


def test_taking_over_ends_the_same_whatever_fails_in_it() -> None:
    scenario = Scenario(
        controllers=sites,
        steps=[
            Apply(left_by_kopf("handled")),
            Apply(left_by_kopf("updating", update_fn={"purpose": "update", "retries": 2})),
            Apply(left_by_kopf("created", create_fn={"purpose": "create", "success": True})),
            Delete((Site, "handled")),
        ],
        invariants=[nothing_is_left, each_site_has_its_child],
    )
    assert sweep(scenario).runs > 50


def test_the_trace_of_a_run_shows_nothing_of_the_copy_that_kopf_keeps() -> None:
    def never(world: World) -> None:
        if world.objects(ConfigMap):
            raise AssertionError("there is a child")

    with pytest.raises(AssertionError) as failed:
        sweep(Scenario(controllers=sites, steps=[Apply(left_by_kopf("handled"))], invariants=[never]))
    assert "handled: a copy of the object in an annotation has changed" in str(failed.value)
    assert SECRET not in str(failed.value)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"finalizer": "a b"}, "is not the name of a finalizer"),
        ({"prefix": "Not A Domain"}, "expected a domain"),
        ({"unfinished": "guess"}, "expected 'hold' or 'run'"),
    ],
)
def test_names_that_cannot_be_kopfs_are_refused(options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        Predecessor.kopf("sites on kopf", **options)


def test_an_evolved_controller_without_the_predecessor_holds_its_own_finalizer_alone() -> None:
    assert sites().finalizers == (OURS, KOPF)
    assert evolve(sites(), predecessor=None).finalizers == (OURS,)


def test_a_status_finalizers_subresources_and_other_versions_are_not_absorbed() -> None:
    metadata: dict[str, Any] = {"f:finalizers": {}, "f:labels": {}}
    status: dict[str, Any] = {"f:create_fn": {}}
    fields: dict[str, Any] = {"f:metadata": metadata, "f:spec": {}, "f:status": status}
    update = {"manager": "kopf", "operation": "Update", "apiVersion": "v1", "fieldsV1": fields}
    others = [{**update, "subresource": "scale"}, {**update, "apiVersion": "v2"}, {**update, "manager": "x"}]
    taken = absorbed([update, *others], ["kopf"], "us", "v1")

    assert taken is not None
    kept = {"f:metadata": {"f:finalizers": {}}, "f:status": status}
    assert taken[0] == {**update, "fieldsV1": kept}
    assert taken[1:4] == others
    assert taken[4]["fieldsV1"] == {"f:metadata": {"f:labels": {}}, "f:spec": {}}
    assert absorbed(others, ["kopf"], "us", "v1") is None
    assert absorbed([], ["kopf"], "us", "v1") is None
