"""How many nodes pods need: first fit, the largest pods first; pods of one shape are handled together."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from attrs import field, frozen

from reconcile.blocks.capacity.node_template import NodeTemplate
from reconcile.blocks.capacity.pod_needs import Amounts, HostPort, PodNeeds, PodShape, add

Group: TypeAlias = tuple[PodShape, list[str]]
CPU, MEMORY = "cpu", "memory"
TURNS = 16
"""How many shapes are handled between two searches for full nodes."""


@frozen
class Packing:
    """The pods placed on `nodes` nodes, none of them empty; `left` gives the reason for each other pod."""

    nodes: int
    placed: tuple[str, ...]
    left: Mapping[str, str]
    used: Mapping[str, int] = field(factory=dict)


class _Bins:
    """Nodes being filled, in parallel lists: nearly all comparisons end at cpu or memory."""

    def __init__(self) -> None:
        self.cpu: list[int] = []
        self.memory: list[int] = []
        self.rest: list[dict[str, int]] = []
        self.ports: list[list[HostPort]] = []

    def add(self, template: NodeTemplate) -> int:
        rest = dict(template.free)
        self.cpu.append(rest.pop(CPU, 0))
        self.memory.append(rest.pop(MEMORY, 0))
        self.rest.append(rest)
        self.ports.append(list(template.ports))
        return len(self.cpu) - 1

    def first(self, asked: "_Asked", among: Sequence[int], start: int) -> int:
        """The first place of `among`, from `start` on, with room; the length of `among` if there is none."""
        cpu, memory, asked_cpu, asked_memory = self.cpu, self.memory, asked.cpu, asked.memory
        for place in range(start, len(among)):
            number = among[place]
            if cpu[number] < asked_cpu or memory[number] < asked_memory:
                continue
            if self._has_rest(asked, number):
                return place
        return len(among)

    def take(self, asked: "_Asked", number: int) -> None:
        self.cpu[number] -= asked.cpu
        self.memory[number] -= asked.memory
        for name, amount in asked.rest:
            self.rest[number][name] -= amount
        self.ports[number].extend(asked.ports)

    def _has_rest(self, asked: "_Asked", number: int) -> bool:
        rest = self.rest[number]
        for name, amount in asked.rest:
            if rest.get(name, 0) < amount:
                return False
        return not any(mine.clashes(port) for port in asked.ports for mine in self.ports[number])


@frozen
class _Asked:
    cpu: int
    memory: int
    rest: tuple[tuple[str, int], ...]
    ports: tuple[HostPort, ...] = ()

    @classmethod
    def of(cls, amounts: Iterable[tuple[str, int]], ports: tuple[HostPort, ...] = ()) -> "_Asked":
        asked = dict(amounts)
        return cls(asked.pop(CPU, 0), asked.pop(MEMORY, 0), tuple(asked.items()), ports)


def pack(pods: Iterable[PodNeeds], template: NodeTemplate, most: int) -> Packing:
    """How many nodes like `template` the pods need, at most `most`, whatever the order of pods."""
    return pack_groups(by_shape(pods), template, most)


def pack_groups(groups: Iterable[Group], template: NodeTemplate, most: int) -> Packing:
    left: dict[str, str] = {}
    fitting: list[Group] = []
    for shape, names in groups:
        why = template.bars(shape) or template.lacks(shape)
        if why:
            left.update(dict.fromkeys(names, why))
        else:
            fitting.append((shape, names))
    fitting.sort(key=lambda group: _rank(group[0], group[1][0], template.free))
    floors = _floors([shape for shape, _ in fitting])
    bins, numbers, placed = _Bins(), list[int](), list[str]()
    used: dict[str, int] = {}
    for turn, (shape, names) in enumerate(fitting):
        asked, place = _Asked.of(shape.amounts, shape.ports), 0
        # A node without room for the smallest of the rest is not tried again.
        if turn % TURNS == 0:
            floor = _Asked.of(floors[turn])
            numbers = [number for number in numbers if bins.first(floor, (number,), 0) == 0]
        for at, name in enumerate(names):
            place = bins.first(asked, numbers, place)
            if place == len(numbers):
                if len(bins.cpu) >= most:
                    left.update(dict.fromkeys(names[at:], "no more nodes allowed"))
                    break
                numbers.append(bins.add(template))
            bins.take(asked, numbers[place])
            placed.append(name)
            for resource, amount in shape.amounts:
                used[resource] = used.get(resource, 0) + amount
    return Packing(len(bins.cpu), tuple(sorted(placed)), left, used)


def fill(pods: Iterable[PodNeeds], nodes: Sequence[NodeTemplate]) -> dict[str, int]:
    """The pods with room on `nodes`, the largest first, with the index of the node."""
    bins, free = _Bins(), dict[str, int]()
    for node in nodes:
        bins.add(node)
        free = add(free, node.free)
    placed: dict[str, int] = {}
    groups = sorted(by_shape(pods), key=lambda group: _rank(group[0], group[1][0], free))
    for shape, names in groups:
        numbers = [number for number, node in enumerate(nodes) if not node.bars(shape)]
        asked, place = _Asked.of(shape.amounts, shape.ports), 0
        for name in names:
            place = bins.first(asked, numbers, place)
            if place == len(numbers):
                break
            bins.take(asked, numbers[place])
            placed[name] = numbers[place]
    return placed


def by_shape(pods: Iterable[PodNeeds]) -> list[Group]:
    found: dict[PodShape, list[str]] = {}
    for pod in pods:
        found.setdefault(pod.shape, []).append(pod.name)
    return [(shape, sorted(names)) for shape, names in found.items()]


def _size(shape: PodShape, free: Amounts) -> int:
    """The sum of the shares of cpu and memory, times both amounts: exact, and only for sorting."""
    asked = dict(shape.amounts)
    return asked.get("cpu", 0) * free.get("memory", 1) + asked.get("memory", 0) * free.get("cpu", 1)


def _rank(shape: PodShape, first: str, free: Amounts) -> tuple[Any, ...]:
    return (-_size(shape, free), shape.amounts, first)


def _floors(shapes: Sequence[PodShape]) -> list[tuple[tuple[str, int], ...]]:
    """For each shape, the least of each resource that it or a later one takes."""
    floors: list[tuple[tuple[str, int], ...]] = []
    least: dict[str, int] | None = None
    for shape in reversed(shapes):
        own = dict(shape.amounts)
        least = own if least is None else {n: min(least[n], own[n]) for n in least.keys() & own.keys()}
        floors.append(tuple(sorted(least.items())))
    return floors[::-1]
