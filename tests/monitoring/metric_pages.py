"""Which metrics an operator has, with which labels: from managers on which everything is on."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import anyio
from prometheus_client import REGISTRY, CollectorRegistry

from reconcile import Controller, LeaderElection
from reconcile.monitoring.slos import recording_rules
from reconcile.sharding import Sharding
from tests.helpers.managers import Toy, World, keep_size

Series: TypeAlias = tuple[str, tuple[tuple[str, str], ...]]
"""A name and labels."""
INTERVAL: Final = 30
"""Seconds between two scrapes."""
OF_A_TARGET = {"namespace", "job", "pod", "instance", "service", "container", "endpoint"}
"""What Prometheus adds to each series of a pod that prometheus-operator has it collect."""
OF_PROMETHEUS = {"up": set[str](), "ALERTS": {"alertname", "alertstate", "severity"}}
"""Series that Prometheus itself makes."""
_SELECTOR = re.compile(r"([a-zA-Z_:][\w:]*)\{([^{}]*)\}")
_MATCHER = re.compile(r'(\w+)\s*(?:=~|!~|!=|=)\s*"((?:[^"\\]|\\.)*)"')


async def metrics_of(world: World) -> Mapping[str, set[str]]:
    """The samples of a manager by their names, each with its labels."""
    return dict(_names(await scrapes_of(world, count=1)))


async def scrapes_of(world: World, count: int) -> Sequence[Mapping[Series, float]]:
    """What so many scrapes find, 30 s apart, while objects come and change: all that an operator can have."""
    led, shared = CollectorRegistry(), CollectorRegistry()
    controller = Controller(Toy, keep_size)
    found: list[dict[Series, float]] = []
    async with world.running(controller, metrics=led, leader_election=LeaderElection("toys")) as manager:
        assert manager._metrics is not None
        manager._metrics.objects_rewritten("toys.example.com", 1, 0)
        manager._metrics.definition_finished("toys.example.com", True)
        for number in range(count):
            manager._metrics.webhook_called("defaults.toys.example.com", 200, "allowed", 0.01)
            await world.make(f"toy-{number}")
            await anyio.sleep(INTERVAL)
            # A registry of the manager's own has those of the process too; this one is as good as any.
            own = {key: value for key, value in _samples(REGISTRY) if key[0].startswith("process_")}
            found.append({**own, **dict(_samples(led))})
    async with world.running(controller, metrics=shared, sharding=Sharding("toys", buckets=2)):
        for scrape in found:
            await anyio.sleep(INTERVAL)
            scrape |= {key: value for key, value in _samples(shared) if "_shard_" in key[0]}
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


def _samples(registry: CollectorRegistry) -> Iterator[tuple[Series, float]]:
    for family in registry.collect():
        for sample in family.samples:
            yield (sample.name, tuple(sorted(sample.labels.items()))), sample.value


def _names(scrapes: Sequence[Mapping[Series, float]]) -> Iterator[tuple[str, set[str]]]:
    labels: dict[str, set[str]] = {}
    for scrape in scrapes:
        for name, pairs in scrape:
            labels.setdefault(name, set()).update(label for label, _ in pairs)
    yield from labels.items()
