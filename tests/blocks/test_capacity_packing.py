"""Packing is first fit, the largest first, pod by pod and whatever shortcuts it takes."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconcile.blocks import NodeTemplate, PodNeeds, Taint, fill, pack
from reconcile.blocks.capacity.packing import Packing, by_shape
from reconcile.blocks.capacity.pod_needs import HostPort, PodShape, Toleration

DEAR = Taint("dear")


def shape(cpu: int, memory: int, gpu: int = 0, **rest: Any) -> PodShape:
    asked = {"cpu": cpu, "gpu": gpu, "memory": memory}
    amounts = tuple((name, amount) for name, amount in asked.items() if amount)
    return PodShape((*amounts, ("pods", 1)), **rest)


def node(cpu: int = 8, memory: int = 12, gpu: int = 2, pods: int = 5, **rest: Any) -> NodeTemplate:
    free = {"cpu": cpu, "memory": memory, "pods": pods}
    return NodeTemplate({**free, "gpu": gpu} if gpu else free, **rest)


def in_order(pods: Sequence[PodNeeds], cpu: int, memory: int) -> list[PodNeeds]:
    """By their share of cpu and memory, added; pods of one shape stand together, the first by name first."""

    def rank(pod: PodNeeds) -> tuple[Any, ...]:
        share = Fraction(pod.amounts.get("cpu", 0), cpu) + Fraction(pod.amounts.get("memory", 0), memory)
        first = min(one.name for one in pods if one.shape == pod.shape)
        return -share, pod.shape.amounts, first, pod.name

    return sorted(pods, key=rank)


def first_fit(
    pods: Sequence[PodNeeds], nodes: Sequence[NodeTemplate], more: NodeTemplate | None = None, most: int = 0
) -> tuple[dict[str, int], list[NodeTemplate]]:
    """Where each pod goes: to the first node that has room, or else to one `more`, `most` at most."""
    states = list(nodes)
    places: dict[str, int] = {}
    for pod in pods:
        has_room = (n for n, one in enumerate(states) if not one.bars(pod.shape) and not one.lacks(pod.shape))
        number = next(has_room, len(states))
        if number == len(states):
            if more is None or number >= most or more.bars(pod.shape) or more.lacks(pod.shape):
                continue
            states.append(more)
        states[number] = states[number].with_pod(pod.shape)
        places[pod.name] = number
    return places, states


SHAPES = st.builds(
    shape,
    st.integers(0, 9),
    st.integers(0, 13),
    st.sampled_from([0, 0, 0, 1, 2, 3]),
    tolerations=st.sampled_from([(), (Toleration("dear", "Exists"),)]),
    ports=st.sampled_from([(), (), (), (HostPort(80),), (HostPort(80, address="10.0.0.1"), HostPort(81))]),
)
PODS = st.lists(SHAPES, min_size=1, max_size=30).map(
    lambda shapes: [PodNeeds(f"p{n * 7 % 31:02}", one) for n, one in enumerate(shapes)]
)
NODES = st.lists(
    st.builds(
        node, st.integers(1, 9), st.integers(1, 13), st.integers(0, 3), st.integers(0, 5),
        taints=st.sampled_from([(), (), (DEAR,)]), ports=st.sampled_from([(), (), (HostPort(81),)]),
    ),
    min_size=1, max_size=6,
)  # fmt: skip


@pytest.mark.rule("capacity-law")
@settings(max_examples=80, deadline=None)
@given(pods=PODS, nodes=NODES)
def test_each_pod_goes_to_the_first_node_with_room_and_the_largest_pods_go_first(
    pods: list[PodNeeds], nodes: list[NodeTemplate]
) -> None:
    cpu, memory = (sum(one.free[name] for one in nodes) for name in ("cpu", "memory"))
    assert fill(pods, nodes) == first_fit(in_order(pods, cpu, memory), nodes)[0]


@pytest.mark.rule("capacity-law")
@settings(max_examples=80, deadline=None)
@given(pods=PODS, most=st.integers(0, 8), dear=st.booleans())
def test_a_node_is_added_only_when_the_others_have_no_room(
    pods: list[PodNeeds], most: int, dear: bool
) -> None:
    template = node(taints=(DEAR,) if dear else (), ports=(HostPort(81),) if most % 2 else ())
    places, states = first_fit(in_order(pods, 8, 12), [], template, most)
    left = {
        pod.name: template.bars(pod.shape) or template.lacks(pod.shape) or "no more nodes allowed"
        for pod in pods
        if pod.name not in places
    }
    used: dict[str, int] = {}
    for pod in pods:
        for name, amount in pod.amounts.items() if pod.name in places else ():
            used[name] = used.get(name, 0) + amount
    assert pack(pods, template, most) == Packing(len(states), tuple(sorted(places)), left, used)


@pytest.mark.rule("capacity-law")
def test_many_shapes_are_packed_like_few() -> None:
    """More shapes than are handled between two looks for full nodes."""
    pods = [PodNeeds(f"p{n:03}", shape(9 - n % 9, n * 5 % 11, n % 4 // 3)) for n in range(90)]
    places, states = first_fit(in_order(pods, 8, 12), [], node(), 99)
    found = pack(pods, node(), 99)
    assert (found.nodes, found.placed) == (len(states), tuple(sorted(places)))


@pytest.mark.rule("capacity-law")
def test_a_node_without_room_for_the_smallest_pod_can_have_room_for_larger_ones() -> None:
    """Sixteen that leave a twentieth of a cpu, one that takes memory alone, and small ones that take cpu."""
    asked = [*((95, n) for n in range(1, 17)), (1, 900), *((20, n) for n in range(101, 118))]
    pods = [PodNeeds(f"p{cpu}-{memory}", shape(cpu, memory)) for cpu, memory in asked]
    assert pack(pods, node(100, 1000, pods=99), 99).nodes == 16 + 4


@pytest.mark.rule("capacity-fit")
def test_a_pod_whose_port_is_taken_goes_to_the_next_node() -> None:
    pods = [PodNeeds(name, shape(1, 1, ports=(HostPort(80),))) for name in "abc"]
    assert fill(pods, [node(ports=(HostPort(80),)), node(), node()]) == {"a": 1, "b": 2}


def test_a_resource_that_no_node_has_is_lacking() -> None:
    bare = NodeTemplate({"pods": 5})
    pods = [PodNeeds("c", shape(1, 0)), PodNeeds("m", shape(0, 1)), PodNeeds("n", shape(0, 0))]
    assert pack(pods, bare, 1) == Packing(1, ("n",), {"c": "cpu", "m": "memory"}, {"pods": 1})
    assert fill(pods, [bare]) == {"n": 0}
    assert fill(pods, []) == {}
    assert pack([], bare, 1) == Packing(0, (), {}, {})


@pytest.mark.rule("capacity-law")
@pytest.mark.parametrize(("larger", "smaller"), [(shape(1, 2), shape(0, 3)), (shape(1, 2), shape(2, 0))])
def test_a_resource_that_is_not_requested_does_not_affect_the_order(
    larger: PodShape, smaller: PodShape
) -> None:
    """Of a node of 8 and 12, where 1 and 2 are 7/24, and the others 6/24."""
    assert fill([PodNeeds("s", smaller), PodNeeds("l", larger)], [node(pods=1)]) == {"l": 0}


def test_a_node_without_a_resource_has_no_room_for_any_amount_of_it() -> None:
    pods = [PodNeeds("a", shape(1, 1, 1)), PodNeeds("b", shape(1, 1, 1))]
    assert fill(pods, [node(gpu=0), node(gpu=1)]) == {"a": 1}


def test_pods_are_grouped_by_shape_and_sorted_by_name() -> None:
    one, other = shape(1, 1), shape(1, 1, ports=(HostPort(80),))
    pods = [PodNeeds("c", one), PodNeeds("b", other), PodNeeds("a", one)]
    assert by_shape(pods) == [(one, ["a", "c"]), (other, ["b"])]
