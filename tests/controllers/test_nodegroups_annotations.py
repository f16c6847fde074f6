"""What annotations of groups say in all their spellings, and the words for those that say nothing."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controllers.nodegroups.group_annotations import (
    CAPACITY,
    MAX_SIZE,
    MIN_SIZE,
    OPTIONS,
    BadAnnotation,
    GroupBounds,
    GroupOptions,
    bounds_of,
    options_of,
    template_of,
)
from reconcile.blocks import NodeTemplate, Taint, amounts_of
from tests.controllers.nodegroups import CAPACITIES

GI = 1000 * 2**30


def offered(
    machine: Mapping[str, Any] | None = None, status: Mapping[str, Any] | None = None, **capacity: str
) -> NodeTemplate:
    """What a node of four CPUs will offer, with more annotations about its capacity."""
    said = {CAPACITY + name.replace("_", "-"): value for name, value in capacity.items()}
    found = template_of({**CAPACITIES, **said}, machine or {}, status or {})
    assert found is not None
    return found


# Bounds.

NO_NUMBER = "expected a number of nodes, 0 or more"


@pytest.mark.rule("capi-2d-bounds")
@pytest.mark.parametrize(
    ("smallest", "largest", "found"),
    [
        (None, None, GroupBounds(0, 0)),
        (None, "3", GroupBounds(0, 3)),
        ("0", "0", GroupBounds(0, 0)),
        ("0", "1", GroupBounds(0, 1)),
        ("2", "2", GroupBounds(2, 2)),
    ],
)
def test_bounds_are_read_and_a_missing_one_is_0(
    smallest: str | None, largest: str | None, found: GroupBounds
) -> None:
    said = {MIN_SIZE: smallest, MAX_SIZE: largest}
    assert bounds_of({name: value for name, value in said.items() if value is not None}) == found


@pytest.mark.rule("capi-2d-bounds", "node-groups-bad-input")
@pytest.mark.parametrize(
    ("smallest", "largest", "words"),
    [
        ("-1", "1", f"annotation {MIN_SIZE}: {NO_NUMBER}"),
        ("not-an-int", "1", f"annotation {MIN_SIZE}: {NO_NUMBER}"),
        ("0", "-1", f"annotation {MAX_SIZE}: {NO_NUMBER}"),
        ("0", "not-an-int", f"annotation {MAX_SIZE}: {NO_NUMBER}"),
        ("0", "1.0", f"annotation {MAX_SIZE}: {NO_NUMBER}"),
        ("0", "²", f"annotation {MAX_SIZE}: {NO_NUMBER}"),
        ("1", "٣", f"annotation {MAX_SIZE}: {NO_NUMBER}"),
        ("1", "0", f"annotation {MAX_SIZE}: 0 is less than the smallest size, 1"),
    ],
)
def test_an_invalid_bound_is_reported_with_its_name(smallest: str, largest: str, words: str) -> None:
    with pytest.raises(BadAnnotation) as caught:
        bounds_of({MIN_SIZE: smallest, MAX_SIZE: largest})
    assert str(caught.value) == words


@pytest.mark.rule("capi-2d-bounds")
@given(st.integers(0, 10_000), st.integers(0, 10_000))
def test_any_two_ordered_numbers_are_bounds(one: int, other: int) -> None:
    smallest, largest = sorted((one, other))
    assert bounds_of({MIN_SIZE: str(smallest), MAX_SIZE: str(largest)}) == GroupBounds(smallest, largest)


# Options.


@pytest.mark.rule("capi-2d-options")
def test_options_of_a_group_override_the_defaults_and_invalid_ones_are_reported() -> None:
    said = {
        "scaledownutilizationthreshold": "0.7",
        "scaledowngpuutilizationthreshold": "0.1",
        "scaledownunneededtime": "10m",
        "scaledownunreadytime": "1h",
        "maxnodeprovisiontime": "25m",
        "maxnodestartuptime": "90s",
    }
    found, faults = options_of({OPTIONS + name: value for name, value in said.items()})
    assert (found, faults) == (GroupOptions(700, 100, 600.0, 3600.0, 1500.0, 90.0), [])
    bad = {
        "scaledownunneededtime": "soon",
        "scaledownutilizationthreshold": "2",
        "maxnodeprovisiontime": "25m",
    }
    found, faults = options_of({OPTIONS + name: value for name, value in bad.items()})
    assert found == GroupOptions(provision=1500.0)
    assert [fault.split()[1].rstrip(":") for fault in faults] == [
        OPTIONS + "scaledownutilizationthreshold",
        OPTIONS + "scaledownunneededtime",
    ]


@pytest.mark.rule("capi-2d-options")
def test_a_threshold_is_between_0_and_1_and_others_are_reported() -> None:
    name = OPTIONS + "scaledownutilizationthreshold"
    found = {said: options_of({name: said}) for said in ("0", "0.001", "1", "1.001", "-0.001", "half")}
    assert {said: options for said, (options, _) in found.items()} == {
        "0": GroupOptions(threshold=0),
        "0.001": GroupOptions(threshold=1),
        "1": GroupOptions(threshold=1000),
        "1.001": GroupOptions(),
        "-0.001": GroupOptions(),
        "half": GroupOptions(),
    }
    fault = [f"annotation {name}: expected a number from 0 to 1"]
    assert [faults for _, faults in found.values()] == [[], [], [], fault, fault, fault]


@pytest.mark.rule("capi-2d-options")
def test_a_time_is_a_duration_to_the_millisecond_and_others_are_reported() -> None:
    name = OPTIONS + "maxnodestartuptime"
    found = {said: options_of({name: said}) for said in ("1m30.5s", "0", "-1s", "soon")}
    assert {said: options for said, (options, _) in found.items()} == {
        "1m30.5s": GroupOptions(startup=90.5),
        "0": GroupOptions(startup=0.0),
        "-1s": GroupOptions(),
        "soon": GroupOptions(),
    }
    fault = [f"annotation {name}: expected a duration such as 10m"]
    assert [faults for _, faults in found.values()] == [[], [], fault, fault]


# What a node will offer.


@pytest.mark.rule("capi-2d-template")
def test_annotations_describe_a_future_node_and_override_the_infrastructure() -> None:
    said = {
        "cpu": "2",
        "memory": "2048Mi",
        "ephemeral-disk": "100Gi",
        "maxPods": "42",
        "gpu-type": "amd.com/gpu",
        "gpu-count": "2",
        "labels": "zone=a,team=b",
        "taints": "a=b:NoSchedule,c:NoExecute",
    }
    annotations = {CAPACITY + name: value for name, value in said.items()}
    machine = {
        "metadata": {"labels": {"node-role.kubernetes.io/worker": "", "mine": "not for the node"}},
        "spec": {"taints": [{"key": "a", "value": "x", "effect": "NoSchedule"}]},
    }
    status = {"capacity": {"cpu": "9", "hugepages-2Mi": "1Gi"}, "nodeInfo": {"architecture": "arm64"}}
    template = template_of(annotations, machine, status)
    assert template.free == amounts_of(
        {
            "cpu": "2",
            "memory": "2Gi",
            "ephemeral-storage": "100Gi",
            "pods": "42",
            "amd.com/gpu": "2",
            "hugepages-2Mi": "1Gi",
        }
    )
    assert template.labels == {
        "kubernetes.io/arch": "arm64",
        "kubernetes.io/os": "linux",
        "node-role.kubernetes.io/worker": "",
        "zone": "a",
        "team": "b",
    }
    assert template.taints == (Taint("a", "b", "NoSchedule"), Taint("c", "", "NoExecute"))


@pytest.mark.rule("capi-2d-template")
def test_a_node_described_only_by_cpu_and_memory_is_a_plain_one() -> None:
    assert offered() == NodeTemplate(
        {"cpu": 4000, "memory": 8 * GI, "pods": 110_000},
        {"kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux"},
    )


@pytest.mark.rule("capi-2d-template")
@pytest.mark.parametrize("none", [{}, {"metadata": None, "spec": None}, {"metadata": {"labels": None}}])
def test_a_template_of_machines_may_be_empty(none: dict[str, Any]) -> None:
    assert offered(none, {"capacity": None, "nodeInfo": None}) == offered()


@pytest.mark.rule("capi-2d-from-zero")
@pytest.mark.parametrize("name", ["cpu", "memory"])
def test_a_node_without_cpu_or_memory_has_no_template(name: str) -> None:
    assert template_of({**CAPACITIES, CAPACITY + name: "0"}, {}, {}) is None


@pytest.mark.rule("capi-2d-template")
def test_node_information_of_the_infrastructure_is_used_where_no_annotation_overrides_it() -> None:
    info = {"architecture": "arm64", "operatingSystem": "windows"}
    capacity = {"cpu": "16", "memory": "1Gi", "pods": "250", "nvidia.com/gpu": "1"}
    found = template_of({CAPACITY + "cpu": "2"}, {}, {"capacity": capacity, "nodeInfo": info})
    assert found == NodeTemplate(
        {"cpu": 2000, "memory": GI, "pods": 250_000, "nvidia.com/gpu": 1000},
        {"kubernetes.io/arch": "arm64", "kubernetes.io/os": "windows"},
    )


@pytest.mark.rule("capi-2d-template")
@pytest.mark.parametrize(
    ("said", "gpus"),
    [
        ({}, {}),
        ({"gpu_type": "amd.com/gpu"}, {}),
        ({"gpu_count": "2"}, {"nvidia.com/gpu": 2000}),
        ({"gpu_count": "2", "gpu_type": ""}, {"nvidia.com/gpu": 2000}),
        ({"gpu_count": "2", "gpu_type": "amd.com/gpu"}, {"amd.com/gpu": 2000}),
        ({"gpu_count": "0"}, {"nvidia.com/gpu": 0}),
    ],
)
def test_gpus_are_nvidia_gpus_unless_another_type_is_given(
    said: dict[str, str], gpus: dict[str, int]
) -> None:
    assert offered(**said).free == {**offered().free, **gpus}


@pytest.mark.rule("capi-2d-template")
def test_a_node_gets_those_labels_of_its_machine_that_are_in_node_domains() -> None:
    given = {
        "node-role.kubernetes.io/worker": "",
        "node.cluster.x-k8s.io/pool": "a",
        "node-restriction.kubernetes.io/team": "b",
        "mine.node-restriction.kubernetes.io/zone": "c",
        "node-restriction.kubernetes.io": "no prefix, yet the domain",
        "not-node-restriction.kubernetes.io/zone": "",
        "node-restriction.kubernetes.io.example.com/zone": "",
        "example.com/node-role.kubernetes.io": "",
        "topology.kubernetes.io/zone": "",
        "team": "",
    }
    found = offered({"metadata": {"labels": given}}, labels="node.cluster.x-k8s.io/pool=of the annotation")
    assert found.labels == {
        **offered().labels,
        "node-role.kubernetes.io/worker": "",
        "node.cluster.x-k8s.io/pool": "of the annotation",
        "node-restriction.kubernetes.io/team": "b",
        "mine.node-restriction.kubernetes.io/zone": "c",
        "node-restriction.kubernetes.io": "no prefix, yet the domain",
    }


@pytest.mark.rule("capi-2d-template")
def test_labels_and_taints_may_be_written_with_blanks_and_without_values() -> None:
    found = offered(
        labels=" a=b , ,c=,d=e=f,",
        taints=" a=b=c:NoSchedule , d:PreferNoSchedule,,e=:NoExecute,d:NoSchedule,f:g:NoSchedule",
    )
    assert found.labels == {**offered().labels, "a": "b", "c": "", "d": "e=f"}
    assert found.taints == (
        Taint("a", "b=c", "NoSchedule"),
        Taint("d", "", "PreferNoSchedule"),
        Taint("e", "", "NoExecute"),
        Taint("d", "", "NoSchedule"),
        Taint("f:g", "", "NoSchedule"),
    )


@pytest.mark.rule("capi-2d-template")
def test_taints_of_machines_keep_their_values_unless_an_annotation_overrides_them() -> None:
    taints = [
        {"key": "a", "value": "kept", "effect": "NoSchedule"},
        {"key": "b", "value": None, "effect": "NoExecute"},
        {"key": "c", "effect": "NoSchedule"},
        {"key": "d", "value": "other", "effect": "NoSchedule"},
    ]
    found = offered({"spec": {"taints": taints}}, taints="d=said:NoSchedule,a=new:NoExecute")
    assert found.taints == (
        Taint("a", "kept", "NoSchedule"),
        Taint("b", "", "NoExecute"),
        Taint("c", "", "NoSchedule"),
        Taint("d", "said", "NoSchedule"),
        Taint("a", "new", "NoExecute"),
    )


@pytest.mark.rule("node-groups-bad-input")
@pytest.mark.parametrize(
    ("name", "said", "why"),
    [
        ("cpu", "two", "expected a quantity such as 2, 500m or 5Gi"),
        ("memory", "-1", "expected 0 or more"),
        ("ephemeral-disk", "", "expected a quantity such as 2, 500m or 5Gi"),
        ("maxPods", "many", "expected a quantity such as 2, 500m or 5Gi"),
        ("gpu-count", "one", "expected a quantity such as 2, 500m or 5Gi"),
        ("labels", "a", "expected labels such as a=b,c=d"),
        ("labels", "a=b,=c", "expected labels such as a=b,c=d"),
        ("taints", "a=b", "expected taints such as key=value:NoSchedule"),
        ("taints", "NoSchedule", "expected taints such as key=value:NoSchedule"),
        ("taints", "a:Never", "expected taints such as key=value:NoSchedule"),
        ("taints", ":NoSchedule", "expected taints such as key=value:NoSchedule"),
        ("taints", "=b:NoSchedule", "expected taints such as key=value:NoSchedule"),
    ],
)
def test_an_invalid_capacity_is_reported_with_its_name(name: str, said: str, why: str) -> None:
    with pytest.raises(BadAnnotation) as caught:
        template_of({**CAPACITIES, CAPACITY + name: said}, {}, {})
    assert str(caught.value) == f"annotation {CAPACITY}{name}: {why}"
    assert caught.value.annotation == CAPACITY + name
