"""What a manager tells Prometheus, in virtual time; names and labels as controller-runtime has them."""

import re
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
from prometheus_client import REGISTRY, CollectorRegistry

from informers import InformerStatus
from reconcile import Context, Controller, LeaderElection, Result
from reconcile.controller.controller_status import ControllerStatus
from reconcile.embedded import InProcessTransport
from reconcile.errors import TerminalError
from reconcile.ops.manager_status import ManagerStatus
from reconcile.ops.metric_families import QUEUE_BUCKETS, RECONCILE_BUCKETS, REQUEST_BUCKETS, SIZE_BUCKETS
from reconcile.ops.metric_levels import EXCEEDED, LevelCollector
from reconcile.ops.metrics import Metrics, is_panic
from reconcile.sharding import Sharding
from reconcile.testing import Fault, FaultPlan, FaultyTransport, LateTransport, Refuse, When
from tests.helpers.managers import Toy, World, keep_size, played
from tests.helpers.scenarios import in_world
from workqueue import QueueStatus

REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "metrics.md"

OF_CONTROLLER_RUNTIME = {
    "controller_runtime_reconcile": {"controller", "result"},
    "controller_runtime_reconcile_errors": {"controller"},
    "controller_runtime_terminal_reconcile_errors": {"controller"},
    "controller_runtime_reconcile_panics": {"controller"},
    "controller_runtime_reconcile_timeouts": {"controller"},
    "controller_runtime_reconcile_time_seconds": {"controller"},
    "controller_runtime_max_concurrent_reconciles": {"controller"},
    "controller_runtime_active_workers": {"controller"},
    "workqueue_depth": {"name", "controller", "priority"},
    "workqueue_adds": {"name", "controller"},
    "workqueue_retries": {"name", "controller"},
    "workqueue_unfinished_work_seconds": {"name", "controller"},
    "workqueue_longest_running_processor_seconds": {"name", "controller"},
    "workqueue_queue_duration_seconds": {"name", "controller"},
    "workqueue_work_duration_seconds": {"name", "controller"},
    "rest_client_requests": {"code", "method", "host"},
    "rest_client_request_duration_seconds": {"verb", "host"},
    "rest_client_request_size_bytes": {"verb", "host"},
    "rest_client_response_size_bytes": {"verb", "host"},
    "certwatcher_read_certificate": set(),
    "certwatcher_read_certificate_errors": set(),
    "leader_election_master_status": {"name"},
}


def labels_by_family(registry: CollectorRegistry) -> dict[str, set[str]]:
    return {
        family.name: set().union(*(set(sample.labels) - {"le"} for sample in family.samples))
        for family in registry.collect()
    }


def documented() -> Iterator[tuple[str, set[str]]]:
    for row in re.findall(r"^\| `(\w+)` \| (.*?) \|", REFERENCE.read_text(), re.MULTILINE):
        yield row[0].removesuffix("_total"), set(re.findall(r"`(\w+)`", row[1]))


@in_world(played)
async def test_names_and_labels_match_controller_runtime_and_the_reference(world: World) -> None:
    registry = CollectorRegistry()
    controller = Controller(Toy, keep_size)
    async with world.running(controller, metrics=registry, leader_election=LeaderElection("toys")) as manager:
        assert manager._metrics is not None
        manager._metrics.webhook_called("defaults.toys.example.com", 200, "allowed", 0.01)
        manager._metrics.objects_rewritten("toys.example.com", 1, 0)
        manager._metrics.definition_finished("toys.example.com", True)
        await world.make()
        await anyio.sleep(5)
        await world.make("b")
        await anyio.sleep(5)
        found = labels_by_family(registry)
    shared = CollectorRegistry()
    async with world.running(controller, metrics=shared, sharding=Sharding("toys", buckets=2)):
        await anyio.sleep(10)
        found |= {n: labels for n, labels in labels_by_family(shared).items() if "_shard_" in n}
    assert {name: found[name] for name in OF_CONTROLLER_RUNTIME} == OF_CONTROLLER_RUNTIME
    assert dict(documented()) == found


def test_buckets_are_those_of_controller_runtime() -> None:
    theirs = (
        ".005 .01 .025 .05 .1 .15 .2 .25 .3 .35 .4 .45 .5 .6 .7 .8 .9 1 1.25 1.5 1.75 2 2.5 3 3.5 4 4.5 "
        "5 6 7 8 9 10 15 20 25 30 40 50 60"
    )
    assert list(RECONCILE_BUCKETS) == [float(bound) for bound in theirs.split()]
    assert list(REQUEST_BUCKETS) == [0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60]
    assert (SIZE_BUCKETS[0], SIZE_BUCKETS[-1]) == (64, 16 * 1024 * 1024)
    assert list(QUEUE_BUCKETS) == pytest.approx([10e-9 * 10**step for step in range(12)])


@in_world(played)
async def test_each_outcome_of_a_run_is_counted_as_in_controller_runtime(world: World) -> None:
    done: set[str] = set()

    async def once(ctx: Context[Toy]) -> Result | None:
        name = ctx.object.name
        if name in done:
            return None
        done.add(name)
        match name:
            case "again":
                return Result(requeue=True)
            case "after":
                return Result(requeue_after=5)
            case "fails":
                raise ValueError("the world is not as it should be")
            case "panics":
                raise KeyError("x")
            case "late":
                await anyio.sleep(100)
            case "for-good":
                raise TerminalError("no")
        return None

    registry = CollectorRegistry()

    def value(name: str, /, **labels: str) -> float | None:
        return registry.get_sample_value(name, {"controller": "toy", **labels})

    async with world.running(Controller(Toy, once, timeout=30, workers=3), metrics=registry):
        assert value("controller_runtime_reconcile_total", result="requeue_after") == 0
        assert value("controller_runtime_reconcile_panics_total") == 0
        for name in ("fine", "again", "after", "fails", "panics", "late", "for-good"):
            await world.make(name)
        await anyio.sleep(60)
        results = {
            result: value("controller_runtime_reconcile_total", result=result)
            for result in ("success", "error", "requeue", "requeue_after")
        }
        assert results == {"success": 6, "error": 4, "requeue": 1, "requeue_after": 1}
        assert value("controller_runtime_reconcile_errors_total") == 4
        assert value("controller_runtime_terminal_reconcile_errors_total") == 1
        assert value("controller_runtime_reconcile_panics_total") == 1
        assert value("controller_runtime_reconcile_timeouts_total") == 1
        assert value("controller_runtime_reconcile_time_seconds_count") == 12
        assert value("controller_runtime_reconcile_time_seconds_bucket", le="25.0") == 11
        assert value("controller_runtime_max_concurrent_reconciles") == 3
        assert value("controller_runtime_active_workers") == 0
        assert value("workqueue_retries_total", name="toy") == 4
        assert value("workqueue_work_duration_seconds_count", name="toy") == 12


@in_world(played)
async def test_requests_are_counted_by_method_code_and_host(world: World) -> None:
    registry = CollectorRegistry()
    plan = FaultPlan([Fault(When("patch"), Refuse(500))])
    world.transport = FaultyTransport(LateTransport(InProcessTransport(world.server)), plan)
    async with world.running(Controller(Toy, keep_size), metrics=registry):
        await world.make(size=3)
        await anyio.sleep(10)
        counts = {
            (sample.labels["method"], sample.labels["code"]): sample.value
            for family in registry.collect()
            for sample in family.samples
            if sample.name == "rest_client_requests_total"
        }
        host = registry.get_sample_value(
            "rest_client_requests_total", {"method": "GET", "code": "200", "host": "embedded"}
        )
    assert counts["PATCH", "500"] == 1
    assert counts["PATCH", "200"] == 1
    assert host is not None
    assert host >= 1


def status_of(depths: dict[int, int]) -> ManagerStatus:
    queue = QueueStatus(ready=sum(depths.values()), delayed=0, working=0, depths=depths)
    return ManagerStatus("s", True, [ControllerStatus("toy", queue, 0, 0)], [])


def test_the_number_of_depth_series_of_a_queue_is_bounded() -> None:
    depths = {0: 7}
    registry = CollectorRegistry()
    registry.register(LevelCollector(lambda: status_of(depths)))

    def depth(priority: str) -> float | None:
        labels = {"name": "toy", "controller": "toy", "priority": priority}
        return registry.get_sample_value("workqueue_depth", labels)

    assert (depth("0"), depth(EXCEEDED)) == (7, None)
    depths.clear()
    assert depth("0") == 0
    depths.update(dict.fromkeys(range(1, 101), 1))
    assert (depth("0"), depth("100"), depth("1")) == (0, 1, None)
    assert depth(EXCEEDED) == 100 - 24
    assert len([s for f in registry.collect() for s in f.samples if s.name == "workqueue_depth"]) == 26


@in_world(played)
async def test_labels_contain_no_object_names_and_no_messages(world: World) -> None:
    async def fail(ctx: Context[Toy]) -> None:
        raise ValueError("message-in-an-error")

    registry = CollectorRegistry()
    async with world.running(Controller(Toy, fail), metrics=registry):
        await world.make("name-of-an-object")
        await anyio.sleep(10)
        text = repr(list(registry.collect()))
    assert 'result="error"' in text or "'result': 'error'" in text
    for word in ("name-of-an-object", "message-in-an-error", "default", "/apis"):
        assert word not in text


def test_only_programming_errors_count_as_panics() -> None:
    faults = [
        KeyError("a"),
        IndexError(),
        AttributeError(),
        TypeError(),
        ZeroDivisionError(),
        AssertionError(),
    ]
    assert all(is_panic(error) for error in faults)
    assert not any(is_panic(error) for error in (ValueError(), OSError(), RuntimeError(), TerminalError()))
    assert not is_panic(None)


def test_a_registry_belongs_to_one_manager_at_a_time_and_can_be_reused() -> None:
    before = {family.name for family in REGISTRY.collect()}
    shared = CollectorRegistry()
    for _ in range(2):
        metrics = Metrics(lambda: status_of({}), registry=shared)
        assert b"workqueue_depth" in metrics.text()[0]
        metrics.close()
    assert list(shared.collect()) == []
    assert {family.name for family in REGISTRY.collect()} == before


def test_informers_are_measured_by_resource() -> None:
    informer = InformerStatus(
        "pods", "", "watching", True, 3, 900, 77, None, 2, 1, 4, "boom at /var/secret", 1.5, 6, 5, True, True
    )
    registry = CollectorRegistry()
    registry.register(LevelCollector(lambda: ManagerStatus("s", True, (), [informer])))
    values = {s.name: s.value for f in registry.collect() for s in f.samples}
    assert values == {
        "reconcile_informer_objects": 3,
        "reconcile_informer_bytes": 900,
        "reconcile_informer_compressing": 1,
        "reconcile_informer_synced": 1,
        "reconcile_informer_resource_version": 77,
        "reconcile_informer_silence_seconds": 1.5,
        "reconcile_informer_bookmarked": 1,
        "reconcile_informer_backlog": 6,
        "reconcile_informer_restarts_total": 2,
        "reconcile_informer_relists_total": 1,
        "reconcile_informer_failures_total": 4,
        "reconcile_informer_skipped_total": 5,
    }


@in_world(played)
async def test_a_wait_for_own_writes_is_measured(world: World) -> None:
    registry = CollectorRegistry()
    async with world.running(Controller(Toy, keep_size), metrics=registry):
        await world.make(size=3)
        await anyio.sleep(2)
        toy = await world.client.get(Toy, "a", "default")
        await world.client.raw.merge(toy, {"metadata": {"labels": {"a": "b"}}})
        await anyio.sleep(2)
        labels = {"controller": "toy"}
        count = registry.get_sample_value("reconcile_own_write_wait_seconds_count", labels)
        assert count is not None
        assert count >= 1
        assert registry.get_sample_value("reconcile_own_write_timeouts_total", labels) == 0
