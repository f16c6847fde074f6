"""What a run may say of its object, and when it is written."""

import base64
from typing import Any

import anyio
import pytest

from reconcile import Context, Controller, ObjectMeta, OwnerReference, Result, SyncContext
from reconcile.errors import ReconcileTimeout
from reconcile.kinds import ConfigMap, Secret
from reconcile.testing import FakeClient, Fault, FaultPlan, RefuseAsStale, SlowReply, When, run_once
from tests.helpers.managers import Toy, ToySpec, ToyStatus
from tests.helpers.scenarios import simulated

THING = Toy(metadata=ObjectMeta("thing", "default"), spec=ToySpec(size=3))


def controller(reconcile: Any, **options: Any) -> Controller[Toy]:
    return Controller(Toy, reconcile, writes=[Toy, ConfigMap], **options)


async def test_status_is_collected_and_written_once_at_the_end() -> None:
    async def twice(ctx: Context[Toy]) -> None:
        ctx.status(size=1)
        ctx.status(size=ctx.object.spec.size, note="n")
        ctx.condition("Ready", True, reason="Done")

    client = FakeClient(THING)
    done = await run_once(controller(twice), THING, client)
    assert done.writes == ["patch toys/status default/thing"]
    thing = await client.get(Toy, "thing", "default")
    assert (thing.status.size, thing.status.note) == (3, "n")
    assert done.conditions["Ready"]["observedGeneration"] == 1
    assert (await run_once(controller(twice), THING, client)).writes == []


async def test_a_status_field_set_to_none_is_removed() -> None:
    async def clear(ctx: Context[Toy]) -> None:
        ctx.status(note=None)

    client = FakeClient(Toy(metadata=THING.metadata, status=ToyStatus(size=2, note="old")))
    await run_once(controller(clear), THING, client)
    status = (await client.get(Toy, "thing", "default")).status
    assert (status.note, status.size) == (None, 2)


async def test_a_status_field_that_the_model_lacks_is_an_error() -> None:
    async def wrong(ctx: Context[Toy]) -> None:
        ctx.status(sizes=1)

    done = await run_once(controller(wrong), THING, FakeClient(THING))
    assert isinstance(done.error, TypeError)
    assert "has no field 'sizes'" in str(done.error)


async def test_a_status_set_before_a_failure_is_still_written() -> None:
    async def fail(ctx: Context[Toy]) -> None:
        ctx.condition("Ready", False, reason="Quota", message="too many")
        ctx.event("Failed", "quota", warning=True)
        raise RuntimeError("quota")

    done = await run_once(controller(fail), THING, FakeClient(THING))
    assert done.conditions["Ready"]["reason"] == "Quota"
    assert done.events == ["Warning Failed: quota"]
    assert done.retry
    assert str(done.error) == "quota"


@simulated
async def test_a_status_set_before_a_timeout_is_still_written() -> None:
    async def hang(ctx: Context[Toy]) -> None:
        ctx.condition("Ready", False, reason="Waiting")
        ctx.event("Waiting", "for ever")
        await anyio.sleep_forever()

    done = await run_once(controller(hang, timeout=3), THING, FakeClient(THING))
    assert isinstance(done.error, ReconcileTimeout)
    assert done.conditions["Ready"]["reason"] == "Waiting"
    assert (done.events, done.retry) == (["Normal Waiting: for ever"], True)


@simulated
async def test_a_status_that_cannot_be_written_in_time_blocks_nothing() -> None:
    async def hang(ctx: Context[Toy]) -> None:
        ctx.status(size=1)
        await anyio.sleep_forever()

    slow = FaultPlan((Fault(When("patch", "*/status"), SlowReply(1000)),))
    done = await run_once(controller(hang, timeout=3), THING, FakeClient(THING, plan=slow))
    assert isinstance(done.error, ReconcileTimeout)
    assert anyio.current_time() < 10


async def test_repeated_events_are_counted_in_one() -> None:
    async def tell(ctx: Context[Toy]) -> None:
        ctx.event("Told", "news")
        ctx.event("Told", "news")

    client = FakeClient(THING)
    assert (await run_once(controller(tell), THING, client)).events == ["Normal Told: news (2 times)"]


async def test_a_stale_status_ends_the_run_and_it_is_retried() -> None:
    async def ready(ctx: Context[Toy]) -> None:
        ctx.condition("Ready", True, reason="Done")

    client = FakeClient(THING, plan=FaultPlan((Fault(When("patch"), RefuseAsStale()),)))
    done = await run_once(controller(ready), THING, client)
    assert (done.error, done.retry) == (None, True)
    assert (await run_once(controller(ready), THING, client)).retry is False


async def test_a_child_is_owned_and_placed_in_the_namespace_of_its_owner() -> None:
    async def one_child(ctx: Context[Toy]) -> None:
        await ctx.apply(ConfigMap(metadata=ObjectMeta("child"), data={"k": "v"}))
        assert [child.name for child in await ctx.owned(ConfigMap)] == ["child"]

    client = FakeClient(THING)
    assert (await run_once(controller(one_child, owns=[ConfigMap]), THING, client)).error is None
    child = await client.get(ConfigMap, "child", "default")
    (owner,) = child.metadata.owner_references
    assert (owner.kind, owner.name, owner.controller, owner.block_owner_deletion) == (
        "Toy",
        "thing",
        True,
        True,
    )


@pytest.mark.rule("K8")
async def test_an_owner_is_set_once_whatever_version_of_its_kind_a_reference_names() -> None:
    client = FakeClient(THING, ConfigMap(metadata=ObjectMeta("thing", "default")))
    uid = (await client.get(ConfigMap, "thing", "default")).uid
    older = OwnerReference(
        api_version="toys.example.com/v1beta1", kind="Toy", name="thing", uid="u", controller=True
    )
    other = OwnerReference(api_version="v1", kind="ConfigMap", name="thing", uid=uid)

    async def twice(ctx: Context[Toy]) -> None:
        child = ConfigMap(metadata=ObjectMeta("child", owner_references=(older, other)), data={"k": "v"})
        await ctx.apply(child)
        await ctx.apply(child)

    assert (await run_once(controller(twice, owns=[ConfigMap]), THING, client)).error is None
    owners = (await client.get(ConfigMap, "child", "default")).metadata.owner_references
    assert [(owner.kind, owner.api_version) for owner in owners] == [
        ("Toy", "toys.example.com/v1"),
        ("ConfigMap", "v1"),
    ]


async def test_an_object_of_another_namespace_is_not_owned() -> None:
    async def elsewhere(ctx: Context[Toy]) -> None:
        await ctx.apply(ConfigMap(metadata=ObjectMeta("far", "kube-system"), data={}))

    client = FakeClient(THING)
    assert (await run_once(controller(elsewhere), THING, client)).error is None
    assert (await client.get(ConfigMap, "far", "kube-system")).metadata.owner_references == ()


async def test_a_run_for_a_missing_object_does_nothing() -> None:
    async def never(ctx: Context[Toy]) -> None:
        raise AssertionError("called for an object that is not there")

    done = await run_once(controller(never), "default/absent", FakeClient())
    assert (done.error, done.writes, done.retry) == (None, [], False)


async def test_a_terminating_object_is_not_reconciled() -> None:
    async def never(ctx: Context[Toy]) -> None:
        raise AssertionError("called for an object that is going")

    client = FakeClient(THING.with_metadata(finalizers=("example.com/other",)))
    await client.delete(await client.get(Toy, "thing", "default"))
    assert (await run_once(controller(never), THING, client)).error is None


async def test_an_object_that_does_not_fit_the_model_is_a_terminal_error_with_its_path() -> None:
    async def keep(ctx: Context[Toy]) -> None:
        raise AssertionError(f"{ctx.object} does not fit")

    loose = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    client = FakeClient()
    client.serve(Toy)
    definition = {"spec": {"versions": [_version(loose)]}}
    client.request(
        "PATCH", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/toys.toys.example.com", definition
    )
    client.add(
        {
            "apiVersion": "toys.example.com/v1",
            "kind": "Toy",
            "metadata": {"name": "thing"},
            "spec": {"size": "x"},
        }
    )
    done = await run_once(controller(keep), THING, client)
    assert ".spec.size" in str(done.error)
    assert not done.retry


def _version(schema: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    }


async def test_blocking_code_runs_inline_under_run_once() -> None:
    async def block(ctx: Context[Toy]) -> Result:
        ctx.status(size=await ctx.run_sync(max, 4, ctx.object.spec.size))
        return Result(requeue_after=5)

    client = FakeClient(THING)
    assert (await run_once(controller(block), THING, client)).result == Result(requeue_after=5)
    assert (await client.get(Toy, "thing", "default")).status.size == 4


@pytest.mark.rule("write-4")
async def test_the_status_of_a_recreated_object_is_not_written() -> None:
    client = FakeClient(THING)

    async def replaced_meanwhile(ctx: Context[Toy]) -> None:
        ctx.status(size=7)
        await client.delete(ctx.object)
        client.add(THING)

    done = await run_once(controller(replaced_meanwhile), THING, client)
    assert (done.error, done.retry) == (None, True)
    assert (await client.get(Toy, "thing", "default")).status.size == 0


async def test_a_run_that_writes_its_own_object_writes_its_status_on_top_of_it() -> None:
    async def both(ctx: Context[Toy]) -> None:
        async with ctx.client.editing(ctx.object) as draft:
            draft.metadata.annotations["run"] = ctx.clock.uuid().hex
        ctx.condition("Ready", True, reason="Done")

    client = FakeClient(THING)
    done = await run_once(controller(both), THING, client)
    assert (done.error, done.retry) == (None, False)
    assert done.writes == ["patch toys default/thing", "patch toys/status default/thing"]


class QuotaExceeded(Exception):
    """What a system outside says."""


async def test_a_listed_failure_becomes_a_condition_and_is_still_raised() -> None:
    fails = True

    async def ask(ctx: Context[Toy]) -> None:
        with ctx.false_on_failure("Synced", QuotaExceeded, TimeoutError):
            if fails:
                raise QuotaExceeded("3 of 3 are taken")
        ctx.condition("Synced", True, reason="AsWanted")

    client = FakeClient(THING)
    done = await run_once(controller(ask), THING, client)
    assert done.retry
    assert done.conditions["Synced"]["status"] == "False"
    assert done.conditions["Synced"]["reason"] == "QuotaExceeded"
    assert done.conditions["Synced"]["message"] == "3 of 3 are taken"
    assert (await run_once(controller(ask), THING, client)).writes == []
    fails = False
    assert (await run_once(controller(ask), THING, client)).conditions["Synced"]["status"] == "True"


async def test_an_unlisted_failure_becomes_no_condition() -> None:
    async def ask(ctx: Context[Toy]) -> None:
        with ctx.false_on_failure("Synced", QuotaExceeded):
            raise ZeroDivisionError

    done = await run_once(controller(ask), THING, FakeClient(THING))
    assert isinstance(done.error, ZeroDivisionError)
    assert done.conditions == {}


async def test_a_condition_for_a_failure_does_not_reveal_a_secret() -> None:
    def ask(ctx: SyncContext[Toy]) -> None:
        secret = ctx.client.get(Secret, "login", "default")
        with ctx.false_on_failure("Synced", QuotaExceeded):
            raise QuotaExceeded(f"no quota for {base64.b64decode(secret.data['password']).decode()}")

    password = base64.b64encode(b"open-sesame").decode()
    login = Secret(metadata=ObjectMeta("login", "default"), data={"password": password})
    done = await run_once(controller(ask), THING, FakeClient(THING, login))
    assert done.conditions["Synced"]["reason"] == "QuotaExceeded"
    assert "open-sesame" not in done.conditions["Synced"]["message"]


@pytest.mark.rule("condition-2")
async def test_a_condition_has_the_generation_that_the_run_saw() -> None:
    async def change_the_spec(ctx: Context[Toy]) -> None:
        async with ctx.client.editing(ctx.object) as draft:
            draft.spec.size = 4
        ctx.condition("Ready", True, reason="Done")

    client = FakeClient(THING)
    done = await run_once(controller(change_the_spec), THING, client)
    assert done.conditions["Ready"]["observedGeneration"] == 1
    assert (await client.get(Toy, "thing", "default")).metadata.generation == 2
