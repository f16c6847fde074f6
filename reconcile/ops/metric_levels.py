"""The metrics that are levels (depths, ages, sizes): read from the manager's status at each scrape."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeAlias

from attrs import define, field
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from reconcile.ops.manager_status import ManagerStatus

PRIORITIES: Final = 25
"""How many priorities of a queue get a depth of their own; the rest share EXCEEDED."""
EXCEEDED: Final = "exceeded_cardinality_limit"

Samples: TypeAlias = Iterable[tuple[Sequence[str], float]]
"""Values of labels, with the value of the metric."""

_INFORMER_GAUGES = {
    "objects": "Objects in the store.",
    "bytes": "Bytes of the bodies of all objects.",
    "compressing": "1 while bodies are compressed, else 0.",
    "synced": "1 once the first list is in, else 0.",
    "version": "Resource version that the store has reached.",
    "lag": "Time since the server last sent anything.",
    "bookmarked": "1 once the server has sent a bookmark in a watch, else 0.",
    "backlog": "Changes that the slowest handler has not had yet.",
}
_INFORMER_COUNTERS = {
    "restarts": "Connections after the first.",
    "relists": "Lists after the first.",
    "failures": "Requests and streams that broke.",
    "skipped": "States of objects that could not be read.",
}
_CONTROLLER_GAUGES = {
    "paused": ("paused", "1 while the controller is paused, else 0."),
    "resting": ("paused_keys", "Keys that are paused."),
    "failing": ("failing_keys", "Keys whose last run failed."),
    "failing_seconds": (
        "failing_oldest_seconds",
        "Time since the first run in a row that failed, of all keys.",
    ),
    "unconverged": ("unconverged_objects", "Objects whose generation is not observed and ready."),
    "unconverged_seconds": ("unconverged_oldest_seconds", "Age of the oldest generation of these."),
}
_INFORMER_NAMES = {"version": "resource_version", "lag": "silence_seconds"}


@define(eq=False)
class LevelCollector(Collector):
    """What holds at the moment of a scrape; `status` is asked in the manager's event loop."""

    status: Callable[[], ManagerStatus]
    lease: str = ""
    _priorities: dict[str, set[int]] = field(factory=dict, init=False)

    def describe(self) -> Iterable[Metric]:
        """The families without values: registering must not ask a manager that has not started."""
        return self._families(ManagerStatus("", False, (), ()))

    def collect(self) -> Iterable[Metric]:
        return self._families(self.status())

    def _families(self, status: ManagerStatus) -> Iterable[Metric]:
        yield from self._queues(status)
        for attribute, (name, text) in _CONTROLLER_GAUGES.items():
            values = [([one.name], getattr(one, attribute)) for one in status.controllers]
            yield _gauge(f"reconcile_{name}", text, ["controller"], values)
        yield from _informers(status)
        reachable = [([cluster.name], cluster.reachable) for cluster in status.clusters]
        yield _gauge(
            "reconcile_api_server_reachable", "1 if the API server answers, else 0.", ["cluster"], reachable
        )
        outages = [([cluster.name], cluster.outages) for cluster in status.clusters]
        yield _counter(
            "reconcile_api_server_outages", "Outages of the API server that have begun.", ["cluster"], outages
        )
        ring = status.sharding
        states = (
            ()
            if ring is None
            else (("held", ring.held), ("warming", ring.warming), ("closing", ring.closing))
        )
        buckets = [([state], len(them)) for state, them in states]
        yield _gauge("reconcile_shard_buckets", "Buckets of this replica, by state.", ["state"], buckets)
        members: Samples = [] if ring is None else [([], len(ring.members))]
        yield _gauge("reconcile_shard_members", "Replicas of the ring that are seen.", [], members)
        parts: Samples = [] if ring is None else [([], ring.buckets)]
        yield _gauge("reconcile_shard_ring_buckets", "Buckets of the ring, of all replicas.", [], parts)
        leading = [([self.lease], status.leading)] if self.lease else []
        yield _gauge("leader_election_master_status", "1 if this process leads, else 0.", ["name"], leading)

    def _queues(self, status: ManagerStatus) -> Iterable[Metric]:
        labels = ["name", "controller"]
        queues = [(controller.name, controller.queue) for controller in status.controllers]
        working = [([name], queue.working) for name, queue in queues]
        yield _gauge(
            "controller_runtime_active_workers", "Workers with a run in progress.", ["controller"], working
        )
        depths = [
            ([name, name, priority], count)
            for name, queue in queues
            for priority, count in self._depths(name, queue.depths).items()
        ]
        yield _gauge("workqueue_depth", "Keys that are ready.", [*labels, "priority"], depths)
        ages = [([name, name], queue.unfinished_seconds) for name, queue in queues]
        yield _gauge("workqueue_unfinished_work_seconds", "Total age of the runs in progress.", labels, ages)
        yield _gauge(
            "workqueue_longest_running_processor_seconds",
            "Age of the oldest run in progress.",
            labels,
            [([name, name], queue.longest_running_seconds) for name, queue in queues],
        )

    def _depths(self, name: str, depths: Mapping[int, int]) -> Mapping[str, int]:
        """Depth by label. A priority that has a series keeps it, at 0 while nothing is ready."""
        known = self._priorities.setdefault(name, {0})
        for priority in sorted(depths, reverse=True):
            if len(known) < PRIORITIES:
                known.add(priority)
        by_label = {str(priority): depths.get(priority, 0) for priority in sorted(known)}
        others = [count for priority, count in depths.items() if priority not in known]
        return {**by_label, EXCEEDED: sum(others)} if others else by_label


def _informers(status: ManagerStatus) -> Iterable[Metric]:
    for texts, family in ((_INFORMER_GAUGES, _gauge), (_INFORMER_COUNTERS, _counter)):
        for attribute, text in texts.items():
            values = [(informer.resource, getattr(informer, attribute)) for informer in status.informers]
            yield family(
                f"reconcile_informer_{_INFORMER_NAMES.get(attribute, attribute)}",
                text,
                ["resource"],
                [([resource], value) for resource, value in values if value is not None],
            )


def _gauge(name: str, text: str, labels: Sequence[str], samples: Samples) -> Metric:
    return _filled(GaugeMetricFamily(name, text, labels=labels), samples)


def _counter(name: str, text: str, labels: Sequence[str], samples: Samples) -> Metric:
    return _filled(CounterMetricFamily(name, text, labels=labels), samples)


def _filled(family: GaugeMetricFamily | CounterMetricFamily, samples: Samples) -> Metric:
    for labels, value in samples:
        family.add_metric(labels, float(value))
    return family
