"""What the objects of a RayCluster are called, and how they are labelled."""

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from controllers.workergroups.raycluster_names import (
    head_host,
    head_port,
    head_service_name,
    pod_labels,
    pod_prefix,
    scheduler_labels,
    short_name,
)
from tests.controllers.ray_manifests import cluster


@given(st.text("abcdefghijklmnopqrstuvwxyz0123456789-", min_size=1, max_size=80), st.integers(1, 63))
def test_names_are_short_and_start_with_a_letter(name: str, longest: int) -> None:
    short = short_name(name, longest)
    assert len(short) == min(len(name), longest)
    assert short[0].isalpha()
    assert short[1:] == name[-longest:][1:]


@pytest.mark.parametrize(
    ("name", "short"),
    [("a", "a"), ("1-a", "r-a"), ("-a", "ra"), ("x" * 51, "x" * 50), ("a1" + "b" * 49, "r" + "b" * 49)],
)
def test_a_shortened_name_keeps_its_end_and_starts_with_a_letter(name: str, short: str) -> None:
    assert short_name(name) == short


def test_a_pods_generated_name_fits_a_host_name() -> None:
    assert len(pod_prefix("c" * 200, "worker")) + len("abcde") <= 63
    assert pod_prefix("C" * 51, "head") == "c" * 50 + "-head-"
    assert pod_prefix("ray-Small", "worker") == "ray-small-worker-"


def test_the_head_service_has_a_short_name_or_the_users() -> None:
    long = evolve(cluster(), name="x" * 60)
    assert head_service_name(long) == "x" * 41 + "-head-svc"
    assert head_host(long) == "x" * 41 + "-head-svc.default.svc.cluster.local"
    named = cluster(service={"metadata": {"name": "mine"}})
    assert (head_service_name(named), head_host(named)) == ("mine", "mine.default.svc.cluster.local")
    for unnamed in ({}, {"metadata": None}, {"metadata": {"name": ""}}):
        assert head_service_name(cluster(service=unnamed)) == "ray-head-svc"


def test_the_port_of_the_head_is_an_option_of_ray_start() -> None:
    assert head_port(cluster()) == "6379"
    assert head_port(cluster(params={"port": "7000"})) == "7000"


OURS = {
    "ray.io/is-ray-node": "yes",
    "ray.io/cluster": "ray",
    "ray.io/node-type": "worker",
    "ray.io/group": "small",
    "ray.io/identifier": "ray-worker",
    "app.kubernetes.io/name": "kuberay",
    "app.kubernetes.io/created-by": "kuberay-operator",
}


def test_labels_of_the_group_override_those_of_the_template_and_both_override_ours() -> None:
    template = {"metadata": {"labels": {"a": "template", "b": "template", "ray.io/is-ray-node": "no"}}}
    labels = pod_labels(cluster(), "worker", "small", template, {"b": "group", "ray.io/node-type": "head"})
    assert labels == {**OURS, "a": "template", "b": "group", "ray.io/is-ray-node": "no"}
    for none in ({}, {"metadata": None}, {"metadata": {"labels": None}}):
        assert pod_labels(cluster(), "worker", "small", none, {}) == OURS


@pytest.mark.parametrize(("said", "serves"), [("true", True), ("True", True), ("false", False), ("", False)])
def test_pods_that_serve_are_labelled(said: str, serves: bool) -> None:
    asked = evolve(cluster(), annotations={"ray.io/enable-serve-service": said})
    labels = pod_labels(asked, "worker", "small", {}, {})
    assert labels == ({**OURS, "ray.io/serve": "true"} if serves else OURS)


def test_the_identifier_label_is_the_end_of_a_long_name() -> None:
    labels = pod_labels(evolve(cluster(), name="x" * 63), "worker", "small", {}, {})
    assert labels["ray.io/identifier"] == "x" * 56 + "-worker"
    assert labels["ray.io/cluster"] == "x" * 63


@pytest.mark.parametrize(
    ("name", "reaches"),
    [
        ("volcano.sh/queue-name", True),
        ("scheduling.volcano.sh/queue-name", True),
        ("yunikorn.apache.org/app-id", True),
        ("kai.scheduler/queue", True),
        ("scheduling.x-k8s.io/pod-group", True),
        ("scheduling.k8s.io/group", True),
        ("kueue.x-k8s.io/queue-name", False),
        ("team", False),
        ("volcano.sh", False),
        ("example.com/volcano.sh", False),
    ],
)
def test_labels_and_annotations_of_batch_schedulers_are_recognised_by_domain(
    name: str, reaches: bool
) -> None:
    assert scheduler_labels({name: "value", "other": "value"}) == ({name: "value"} if reaches else {})
