"""What is read of a pod, to the last field: amounts, places, ports, and what is not modelled."""

from typing import Any

import pytest

from reconcile.blocks import PodNeeds, pod_needs
from reconcile.blocks.capacity.pod_needs import (
    HostPort,
    NodeRequirement,
    PodShape,
    Toleration,
    add,
    less,
    most,
    requests_of,
)

WHOLE: dict[str, Any] = {
    "metadata": {"name": "p", "namespace": "d"},
    "spec": {
        "containers": [
            {
                "resources": {"limits": {"cpu": "2", "memory": "1k"}, "requests": {"cpu": "1", "x/y": "0"}},
                "ports": [{"containerPort": 1}, {"hostPort": 80, "protocol": "UDP", "hostIP": "10.0.0.1"}],
            },
            {"resources": {"requests": {"cpu": "500m"}}, "ports": [{"hostPort": 81}]},
            {"resources": None, "ports": None},
        ],
        "initContainers": [{"ports": [{"hostPort": 82, "protocol": "", "hostIP": ""}]}],
        "nodeSelector": {"zone": "a", "disk": "ssd"},
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "k", "operator": "In", "values": ["a", "b"]},
                                              {"key": "l", "operator": "Exists", "values": None}]},
                        {"matchExpressions": None},
                        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]},
                    ]
                }
            },
            "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{}]},
            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{}]},
        },
        "tolerations": [
            {"key": "team", "operator": "Exists", "effect": "NoExecute"},
            {"key": "a", "value": "b"},
            {"key": None, "operator": "", "value": None, "effect": None},
        ],
        "topologySpreadConstraints": [
            {"whenUnsatisfiable": "ScheduleAnyway"},
            {"whenUnsatisfiable": "DoNotSchedule"},
        ],
        "volumes": [{"emptyDir": {}}, {"ephemeral": {}}],
        "resourceClaims": [{"name": "gpu"}],
        "schedulerName": "volcano",
    },
}  # fmt: skip


@pytest.mark.rule("capacity-fit", "capacity-unmodelled")
def test_a_shape_has_every_supported_part_of_a_pod_and_the_rest_is_reported() -> None:
    none = (NodeRequirement("", "Exists"),)
    assert pod_needs(WHOLE) == PodNeeds(
        "d/p",
        PodShape(
            amounts=(("cpu", 1500), ("memory", 1_000_000), ("pods", 1000)),
            selector=(("disk", "ssd"), ("zone", "a")),
            terms=((NodeRequirement("k", "In", ("a", "b")), NodeRequirement("l", "Exists", ())), none, none),
            tolerations=(
                Toleration("team", "Exists", "", "NoExecute"),
                Toleration("a", "Equal", "b", ""),
                Toleration("", "Equal", "", ""),
            ),
            ports=(
                HostPort(82, "TCP", "0.0.0.0"),
                HostPort(80, "UDP", "10.0.0.1"),
                HostPort(81, "TCP", "0.0.0.0"),
            ),
            unmodelled=(
                "required podAffinity",
                "required podAntiAffinity",
                "matchFields of nodes",
                "topologySpreadConstraints",
                "volumes that are claims",
                "resourceClaims",
                "a scheduler of its own",
            ),
        ),
    )


@pytest.mark.rule("capacity-fit")
@pytest.mark.parametrize(
    "manifest",
    [
        {},
        {"metadata": None, "spec": None},
        {"metadata": {"name": "", "namespace": ""}, "spec": {"containers": None, "initContainers": None}},
        {"spec": {"affinity": {"nodeAffinity": None, "podAffinity": None}, "nodeSelector": None}},
        {"spec": {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": None}}}},
        {"spec": {"tolerations": None, "volumes": None, "topologySpreadConstraints": None, "overhead": None}},
        {"spec": {"schedulerName": "default-scheduler", "resourceClaims": [], "volumes": [{"secret": {}}]}},
        {"spec": {"containers": [{"ports": [{"containerPort": 80}, {"hostPort": 0}]}], "affinity": None}},
        {"spec": {"containers": [{"resources": {"limits": None, "requests": None}}], "hostNetwork": True}},
    ],
)
def test_a_pod_without_requests_takes_one_pod_slot(manifest: dict[str, Any]) -> None:
    assert pod_needs(manifest) == PodNeeds("/", PodShape((("pods", 1000),)))


@pytest.mark.rule("capacity-fit")
def test_a_host_network_pod_takes_the_ports_of_its_containers() -> None:
    ports = [{"containerPort": 80}, {"containerPort": 81, "hostPort": 8081}, {}]
    spec = {"hostNetwork": True, "containers": [{"ports": ports}]}
    assert pod_needs({"spec": spec}).shape.ports == (HostPort(80), HostPort(8081))


@pytest.mark.rule("capacity-fit")
def test_requests_are_the_most_that_a_pod_uses_at_any_time() -> None:
    def container(policy: str = "", **requests: str) -> dict[str, Any]:
        return {"resources": {"requests": requests}, **({"restartPolicy": policy} if policy else {})}

    spec: dict[str, Any] = {
        "initContainers": [
            container(cpu="1", disk="7"),
            container("Always", cpu="2", memory="1"),
            container(cpu="3", memory="2"),
            container("Always", cpu="4"),
            container("OnFailure", memory="9"),
        ],
        "containers": [container(cpu="1", memory="3"), container(cpu="1", gpu="0", least="1m")],
    }
    found = {"cpu": 8000, "memory": 10_000, "disk": 7000, "least": 1, "pods": 1000}
    assert requests_of(spec) == found
    assert pod_needs({"spec": spec}).amounts == found
    more = {"resources": {"requests": {"cpu": "2", "pods": "7"}}, "overhead": {"cpu": "1", "x": "2"}}
    assert requests_of({**spec, **more}) == {**found, "cpu": 3000, "x": 2000}


@pytest.mark.rule("capacity-fit")
@pytest.mark.parametrize(
    ("requirement", "holds"),
    [
        (NodeRequirement("zone", "In", ("a", "b")), True),
        (NodeRequirement("zone", "In", ("b",)), False),
        (NodeRequirement("none", "In", ("a",)), False),
        (NodeRequirement("zone", "NotIn", ("b",)), True),
        (NodeRequirement("zone", "NotIn", ("a", "b")), False),
        (NodeRequirement("none", "NotIn", ("a",)), True),
        (NodeRequirement("empty", "Exists"), True),
        (NodeRequirement("none", "Exists"), False),
        (NodeRequirement("empty", "DoesNotExist"), False),
        (NodeRequirement("none", "DoesNotExist"), True),
        (NodeRequirement("cores", "Gt", ("3",)), True),
        (NodeRequirement("cores", "Gt", ("4",)), False),
        (NodeRequirement("cores", "Lt", ("5",)), True),
        (NodeRequirement("cores", "Lt", ("4",)), False),
        (NodeRequirement("cores", "Gt", ("3", "9")), True),
        (NodeRequirement("cores", "Gt", ()), False),
        (NodeRequirement("cores", "Lt", ("many",)), False),
        (NodeRequirement("zone", "Lt", ("5",)), False),
        (NodeRequirement("none", "Lt", ("5",)), False),
        (NodeRequirement("none", "Gt", ("-5",)), False),
    ],
)
def test_an_expression_is_evaluated_on_the_labels_of_a_node(
    requirement: NodeRequirement, holds: bool
) -> None:
    assert requirement.holds({"zone": "a", "cores": "4", "empty": ""}) is holds


@pytest.mark.rule("capacity-fit")
def test_a_node_must_match_the_whole_selector_and_all_of_one_term() -> None:
    zone, disk = NodeRequirement("zone", "In", ("a",)), NodeRequirement("disk", "Exists")
    both = PodShape((), (("zone", "a"), ("disk", "ssd")))
    assert both.accepts({"zone": "a", "disk": "ssd", "more": "b"})
    assert not both.accepts({"zone": "a"})
    one_of = PodShape((), terms=((zone, disk), (NodeRequirement("other", "Exists"),)))
    assert one_of.accepts({"zone": "a", "disk": ""})
    assert one_of.accepts({"other": ""})
    assert not one_of.accepts({"zone": "a"})
    assert not PodShape((), (("zone", "b"),), ((zone,),)).accepts({"zone": "a"})
    assert PodShape(()).accepts({})


@pytest.mark.rule("capacity-fit")
@pytest.mark.parametrize(
    ("one", "other", "clash"),
    [
        (HostPort(80), HostPort(80), True),
        (HostPort(80), HostPort(81), False),
        (HostPort(80), HostPort(80, "UDP"), False),
        (HostPort(80), HostPort(80, address="10.0.0.1"), True),
        (HostPort(80), HostPort(81, address="10.0.0.1"), False),
        (HostPort(80, address="10.0.0.1"), HostPort(80, address="10.0.0.1"), True),
        (HostPort(80, address="10.0.0.1"), HostPort(80, address="10.0.0.2"), False),
        (HostPort(80, address="10.0.0.1"), HostPort(81, address="10.0.0.1"), False),
    ],
)
def test_host_ports_clash_if_one_node_cannot_have_both(one: HostPort, other: HostPort, clash: bool) -> None:
    assert one.clashes(other) is clash
    assert other.clashes(one) is clash


def test_amounts_are_added_subtracted_and_compared_by_resource() -> None:
    one, other = {"a": 3, "b": 1}, {"b": 5, "c": 2}
    assert add(one, other) == {"a": 3, "b": 6, "c": 2}
    assert less(one, other) == {"a": 3, "b": 0}
    assert less(other, one) == {"b": 4, "c": 2}
    assert most(one, other) == {"a": 3, "b": 5, "c": 2}
    assert most({"a": -1}, {"b": -1}) == {"a": 0, "b": 0}
