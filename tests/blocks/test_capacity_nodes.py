"""What a node offers, to the last field, and why a pod cannot run on it."""

import pytest
from attrs import evolve

from reconcile.blocks import NodeTemplate, Taint
from reconcile.blocks.capacity.node_template import node_template
from reconcile.blocks.capacity.pod_needs import HostPort, NodeRequirement, PodShape, Toleration
from reconcile.kinds import Node
from reconcile.models import decode

pytestmark = pytest.mark.rule("capacity-fit")

TEAM = Taint("team", "a", "NoSchedule")


def test_a_node_template_is_an_empty_node_with_its_allocatable_resources() -> None:
    manifest = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n", "labels": {"zone": "a"}},
        "spec": {
            "taints": [
                {"key": "a", "value": "b", "effect": "NoExecute"},
                {"key": "c", "effect": "NoSchedule"},
                {"key": "d", "value": None, "effect": "PreferNoSchedule"},
            ]
        },
        "status": {"capacity": {"cpu": "4", "x": "1"}, "allocatable": {"cpu": "3500m", "pods": "110"}},
    }
    taints = Taint("a", "b", "NoExecute"), Taint("c"), Taint("d", "", "PreferNoSchedule")
    read = NodeTemplate({"cpu": 3500, "pods": 110_000}, {"zone": "a"}, taints)
    assert node_template(manifest) == read
    assert node_template(decode(Node, manifest)) == read


def test_a_node_without_allocatable_resources_offers_its_capacity() -> None:
    assert node_template({"status": {"capacity": {"cpu": "4"}, "allocatable": None}}).free == {"cpu": 4000}
    nothing = NodeTemplate({})
    assert node_template({}) == nothing
    assert node_template({"metadata": None, "spec": None, "status": None}) == nothing
    assert node_template({"metadata": {"labels": None}, "spec": {"taints": None}, "status": {}}) == nothing
    with pytest.raises(ValueError, match="is not a quantity"):
        node_template({"status": {"capacity": {"cpu": "many"}}})


@pytest.mark.parametrize(
    ("toleration", "puts_up"),
    [
        (Toleration("team", "Equal", "a"), True),
        (Toleration("team", "Equal", "b"), False),
        (Toleration("team", "Exists", "b"), True),
        (Toleration("other", "Exists"), False),
        (Toleration("other", "Equal", "a"), False),
        (Toleration("", "Exists"), True),
        (Toleration("", "Equal", "a"), False),
        (Toleration("", "Exists", effect="NoSchedule"), True),
        (Toleration("", "Exists", effect="NoExecute"), False),
        (Toleration("team", "Equal", "a", "NoSchedule"), True),
        (Toleration("team", "Equal", "a", "NoExecute"), False),
    ],
)
def test_a_taint_is_tolerated_by_key_value_and_effect(toleration: Toleration, puts_up: bool) -> None:
    assert TEAM.tolerated([toleration]) is puts_up
    assert TEAM.tolerated([Toleration("x"), toleration]) is puts_up
    assert not TEAM.tolerated([])


@pytest.mark.parametrize(
    ("shape", "why"),
    [
        (PodShape((), tolerations=(Toleration("team", "Exists"), Toleration("b", "Exists"))), ""),
        (PodShape((), tolerations=(Toleration("team", "Exists"),)), "taint b:NoExecute"),
        (PodShape(()), "taint team=a:NoSchedule"),
        (PodShape((), (("zone", "b"),)), "node selector or affinity"),
        (PodShape((), terms=((NodeRequirement("gpu", "Exists"),),)), "node selector or affinity"),
        (PodShape((), (("zone", "b"),), unmodelled=("volumes", "claims")), "not modelled: volumes, claims"),
    ],
)
def test_a_node_reports_why_it_repels_a_pod(shape: PodShape, why: str) -> None:
    soft, hard = Taint("soft", "", "PreferNoSchedule"), Taint("b", "", "NoExecute")
    assert NodeTemplate({}, {"zone": "a"}, (soft, TEAM, hard)).bars(shape) == why


def test_a_node_reports_the_resource_it_lacks() -> None:
    node = NodeTemplate({"cpu": 2, "memory": 1}, ports=(HostPort(80), HostPort(81)))
    assert node.lacks(PodShape((("cpu", 2), ("memory", 1)))) == ""
    assert node.lacks(PodShape((("cpu", 3), ("memory", 2)))) == "cpu"
    assert node.lacks(PodShape((("cpu", 2), ("memory", 2)))) == "memory"
    assert node.lacks(PodShape((("cpu", 1), ("gpu", 1)))) == "gpu"
    assert node.lacks(PodShape((("cpu", 1), ("gpu", 0)), ports=(HostPort(82),))) == ""
    assert node.lacks(PodShape((), ports=(HostPort(82), HostPort(81)))) == "host ports"


def test_a_pod_takes_its_share_of_a_node_and_its_host_ports() -> None:
    node = NodeTemplate({"cpu": 5, "memory": 1}, {"zone": "a"}, (TEAM,), (HostPort(80),))
    taken = node.with_pod(PodShape((("cpu", 2), ("memory", 4), ("gpu", 1)), ports=(HostPort(81),)))
    assert taken == evolve(node, free={"cpu": 3, "memory": 0}, ports=(HostPort(80), HostPort(81)))
