"""Which metrics an operator has, with which labels: from managers on which everything is on."""

import re
from collections.abc import Iterator, Mapping

import anyio
import prometheus_client
from prometheus_client import CollectorRegistry

from reconcile import Controller, LeaderElection
from reconcile.monitoring.slos import recording_rules
from reconcile.sharding import Sharding
from tests.helpers.managers import Toy, World, keep_size

OF_A_TARGET = {"namespace", "job", "pod", "instance", "service", "container", "endpoint"}
"""What Prometheus adds to each series of a pod that prometheus-operator has it collect."""
OF_PROMETHEUS = {"up": set[str](), "ALERTS": {"alertname", "alertstate", "severity"}}
"""Series that Prometheus itself makes."""
_SELECTOR = re.compile(r"([a-zA-Z_:][\w:]*)\{([^{}]*)\}")
_MATCHER = re.compile(r'(\w+)\s*(?:=~|!~|!=|=)\s*"((?:[^"\\]|\\.)*)"')


async def metrics_of(world: World) -> Mapping[str, set[str]]:
    """The samples of a manager by their names, each with its labels."""
    registry = CollectorRegistry()
    controller = Controller(Toy, keep_size)
    async with world.running(controller, metrics=registry, leader_election=LeaderElection("toys")) as manager:
        assert manager._metrics is not None
        manager._metrics.webhook_called("defaults.toys.example.com", 200, "allowed", 0.01)
        manager._metrics.objects_rewritten("toys.example.com", 1, 0)
        manager._metrics.definition_finished("toys.example.com", True)
        await world.make()
        await anyio.sleep(5)
        found = dict(_samples(registry))
    shared = CollectorRegistry()
    async with world.running(controller, metrics=shared, sharding=Sharding("toys", buckets=2)):
        await anyio.sleep(10)
        found |= {name: labels for name, labels in _samples(shared) if "_shard_" in name}
    # A registry of the manager's own has these too; the process here is as good as any.
    process = {"process_", "python_gc_"}
    found |= {
        name: labels
        for name, labels in _samples(prometheus_client.REGISTRY)
        if any(name.startswith(prefix) for prefix in process)
    }
    return found


def recorded() -> Mapping[str, set[str]]:
    """The series that the rules of the alerts record, with the labels that one of them may have."""
    labels: dict[str, set[str]] = {}
    for rule in recording_rules():
        by = {
            name for group in re.findall(r"by \(([^)]*)\)", rule["expr"]) for name in re.split(r",\s*", group)
        }
        labels.setdefault(rule["record"], set()).update(by, rule.get("labels", {}))
    return labels


def selectors(promql: str) -> Iterator[tuple[str, Mapping[str, str]]]:
    """The metrics that an expression names, each with what it says of labels."""
    for name, matchers in _SELECTOR.findall(promql):
        yield name, dict(_MATCHER.findall(matchers))


def _samples(registry: CollectorRegistry) -> Iterator[tuple[str, set[str]]]:
    for family in registry.collect():
        labels: dict[str, set[str]] = {}
        for sample in family.samples:
            labels.setdefault(sample.name, set()).update(sample.labels)
        if not labels:  # a family that has no series yet, such as one of a label without values
            labels = {f"{family.name}{'_total' if family.type == 'counter' else ''}": set()}
        yield from labels.items()
