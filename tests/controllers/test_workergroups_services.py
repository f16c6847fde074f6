"""The Services of a RayCluster and its Ingress, where the user says more than that there be one."""

from typing import Any

import pytest
from attrs import evolve

from controllers.workergroups.ray_pods import worker_pod
from controllers.workergroups.ray_services import endpoints, head_ingress, head_service, services
from controllers.workergroups.raycluster_view import ClusterView
from tests.controllers.ray_manifests import cluster


def ports(ray: dict[str, Any] | None = None, **head: Any) -> dict[str, int]:
    return {port["name"]: port["port"] for port in head_service(cluster(ray, **head))["spec"]["ports"]}


DEFAULT_PORTS = {"gcs-server": 6379, "dashboard": 8265, "client": 10001, "metrics": 8080, "serve": 8000}


@pytest.mark.parametrize(
    ("declared", "changed"),
    [
        ([], {}),
        ([{"name": "dashboard", "containerPort": 1}], {"dashboard": 1}),
        ([{"name": "ui", "containerPort": 8265}], {"dashboard": None, "ui": 8265}),
        ([{"containerPort": 8265}], {"dashboard": None, "8265-port": 8265}),
        ([{"name": "gcs", "containerPort": 6379}], {"gcs-server": None, "gcs": 6379}),
        ([{"name": "debug", "containerPort": 5678}], {"debug": 5678}),
    ],
)
def test_a_port_that_the_head_declares_replaces_the_default(
    declared: list[dict[str, Any]], changed: dict[str, int | None]
) -> None:
    expected = {name: port for name, port in {**DEFAULT_PORTS, **changed}.items() if port is not None}
    assert ports({"ports": declared}) == expected


def test_ports_are_sorted_by_name_with_unnamed_ones_first() -> None:
    given = [{"port": 9}, {"name": "1st", "port": 1}, {"name": "z", "port": 2}, {"name": "serve", "port": 3}]
    service = head_service(cluster(service={"spec": {"ports": given}}))
    found = [(port.get("name"), port["port"]) for port in service["spec"]["ports"]]
    ours = sorted(DEFAULT_PORTS.items())
    assert found == [(None, 9), ("1st", 1), *ours, ("z", 2)]


def test_the_status_shows_the_port_under_which_each_is_reachable() -> None:
    given = [
        {"name": "outside", "port": 1, "targetPort": 2, "nodePort": 30001},
        {"name": "inside", "port": 3, "targetPort": "web"},
        {"name": "plain", "port": 5},
    ]
    assert endpoints(cluster(service={"spec": {"ports": given}})) == {
        **{name: str(port) for name, port in DEFAULT_PORTS.items()},
        "outside": "30001",
        "inside": "web",
        "plain": "5",
    }


@pytest.mark.parametrize(
    ("head", "kind", "headless"),
    [
        ({}, "ClusterIP", True),
        ({"service_type": "ClusterIP"}, "ClusterIP", True),
        ({"service_type": "NodePort"}, "NodePort", False),
        ({"service": {}}, "ClusterIP", False),
        ({"service": {"spec": {"type": "LoadBalancer"}}, "service_type": "NodePort"}, "LoadBalancer", False),
        ({"service": {"metadata": {"name": "mine"}}, "service_type": "NodePort"}, "NodePort", False),
    ],
)
def test_the_head_service_is_headless_unless_the_user_configures_it(
    head: dict[str, Any], kind: str, headless: bool
) -> None:
    spec = head_service(cluster(**head))["spec"]
    assert spec["type"] == kind
    assert ("clusterIP" in spec, "publishNotReadyAddresses" in spec) == (headless, headless)


def test_an_ingress_is_created_only_if_requested() -> None:
    assert head_ingress(cluster(ingress_options={"host": "h"})) == []
    assert len(head_ingress(cluster(ingress=True))) == 1


def test_an_ingress_with_a_long_name_is_named_by_its_end_and_routes_to_the_declared_port() -> None:
    ray = {"ports": [{"name": "dashboard", "containerPort": 8266}]}
    (made,) = head_ingress(evolve(cluster(ray, ingress=True), name="x" * 60))
    assert made["metadata"]["name"] == "x" * 37 + "-head-ingress"
    assert made["metadata"]["labels"]["ray.io/identifier"] == "x" * 58 + "-head"
    (path,) = made["spec"]["rules"][0]["http"]["paths"]
    assert path["backend"]["service"] == {"name": "x" * 41 + "-head-svc", "port": {"number": 8266}}


def test_services_for_hosts_and_serve_are_created_only_if_needed() -> None:
    def names(view: ClusterView) -> list[str]:
        return [one["metadata"]["name"] for one in services(view)]

    serving = evolve(cluster(), annotations={"ray.io/enable-serve-service": "true"})
    assert (names(cluster()), names(serving)) == ([], ["ray-serve-svc"])
    several = tuple(evolve(group, num_of_hosts=2) for group in cluster().groups)
    assert names(evolve(serving, groups=several)) == ["ray-headless", "ray-serve-svc"]


@pytest.mark.parametrize("name", ["ray", "x" * 60])
def test_hosts_are_in_the_domain_of_their_headless_service(name: str) -> None:
    group = evolve(cluster().groups[0], num_of_hosts=2)
    view = evolve(cluster(), name=name, groups=(group,))
    (service,) = services(view)
    assert worker_pod(view, group)["spec"]["subdomain"] == service["metadata"]["name"]
