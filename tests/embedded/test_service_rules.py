"""What the server fills in for Services, gives them, drops from them and refuses in them."""

from typing import Any

import pytest

from reconcile.embedded import AdmissionFunctionFor, AdmittedWrite
from reconcile.embedded.kinds.service_pools import ADDRESSES, NODE_PORTS
from tests.embedded.api_client import MERGE, Answer, Api

SERVICES = "/api/v1/namespaces/default/services"
WEB = {"selector": {"app": "web"}, "ports": [{"port": 80}]}
TWO = [{"name": "a", "port": 80}, {"name": "b", "port": 81}]
BALANCER = {**WEB, "type": "LoadBalancer"}
NODES = {**WEB, "type": "NodePort"}
LOCAL = {**BALANCER, "externalTrafficPolicy": "Local"}
RANGES = "service.beta.kubernetes.io/load-balancer-source-ranges"
OUTSIDE = {"type": "ExternalName", "externalName": "a.example.com"}


def make(api: Api, spec: dict[str, Any], name: str = "a", **metadata: Any) -> Answer:
    return api.send("POST", SERVICES, {"metadata": {"name": name, **metadata}, "spec": spec})


def made(api: Api, spec: dict[str, Any], name: str = "a", **metadata: Any) -> dict[str, Any]:
    answer = make(api, spec, name, **metadata)
    assert answer.status == 201, answer.body
    found: dict[str, Any] = answer.body["spec"]
    return found


def refused(answer: Answer) -> list[str]:
    assert answer.status == 422, answer.body
    return sorted(f"{reason} {field}" for reason, field in answer.causes)


def changed(api: Api, change: dict[str, Any], name: str = "a") -> Answer:
    return api.send("PATCH", f"{SERVICES}/{name}", {"spec": change}, content_type=MERGE)


def port(**more: Any) -> dict[str, Any]:
    return {**WEB, "ports": [{"port": 80, **more}]}


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        (WEB, {"type": "ClusterIP", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster"}),
        (WEB, {"ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}]}),
        (port(targetPort="http"), {"ports": [{"port": 80, "protocol": "TCP", "targetPort": "http"}]}),
        (port(targetPort=""), {"ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}]}),
        (WEB, {"ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack"}),
        ({**WEB, "ipFamilyPolicy": "PreferDualStack"}, {"ipFamilies": ["IPv4"]}),
        (NODES, {"externalTrafficPolicy": "Cluster"}),
        ({**WEB, "externalIPs": ["1.2.3.4"]}, {"externalTrafficPolicy": "Cluster"}),
        (BALANCER, {"allocateLoadBalancerNodePorts": True}),
        (
            {**WEB, "sessionAffinity": "ClientIP"},
            {"sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10800}}},
        ),
        ({**WEB, "clusterIP": "None"}, {"clusterIPs": ["None"], "ipFamilyPolicy": "SingleStack"}),
        (
            {"ports": [{"port": 80}], "clusterIP": "None"},
            {"ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "RequireDualStack"},
        ),
    ],
)
def test_a_service_is_completed(api: Api, spec: dict[str, Any], wanted: dict[str, Any]) -> None:
    found = made(api, spec)
    assert {name: found[name] for name in wanted} == wanted


@pytest.mark.parametrize(
    ("spec", "without"),
    [
        (WEB, ["externalTrafficPolicy", "allocateLoadBalancerNodePorts", "healthCheckNodePort"]),
        ({**OUTSIDE, "internalTrafficPolicy": "Local"}, ["internalTrafficPolicy"]),
        (OUTSIDE, ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"]),
        ({**WEB, "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 9}}}, ["sessionAffinityConfig"]),
        (BALANCER, ["healthCheckNodePort"]),
    ],
)
def test_a_service_lacks_what_its_type_has_no_use_for(
    api: Api, spec: dict[str, Any], without: list[str]
) -> None:
    assert not set(without) & made(api, spec).keys()


def test_every_service_gets_an_address_of_its_own(api: Api) -> None:
    found = [made(api, WEB, name)["clusterIP"] for name in "abc"]
    assert len(set(found)) == 3
    assert all(address.startswith("10.96.0.") for address in found)


def test_an_address_that_was_asked_for_is_given_once_until_its_service_is_deleted(api: Api) -> None:
    asked = {**WEB, "clusterIP": "10.96.7.7"}
    assert made(api, asked)["clusterIPs"] == ["10.96.7.7"]
    assert refused(make(api, asked, "b")) == ["FieldValueInvalid spec.clusterIPs"]
    api.settled("DELETE", f"{SERVICES}/a")
    assert made(api, asked, "b")["clusterIP"] == "10.96.7.7"


def test_an_address_that_someone_asked_for_is_not_given_to_others(api: Api) -> None:
    following = made(api, WEB)["clusterIP"].rpartition(".")
    taken = f"{following[0]}.{int(following[2]) + 1}"
    made(api, {**WEB, "clusterIP": taken}, "b")
    assert made(api, WEB, "c")["clusterIP"] != taken


def test_a_refused_service_and_a_dry_run_keep_no_address(api: Api) -> None:
    asked = {**WEB, "clusterIP": "10.96.7.7"}
    assert make(api, {**asked, "sessionAffinity": "x"}).status == 422
    body = {"metadata": {"name": "a"}, "spec": asked}
    assert api.ok("POST", SERVICES, body, query={"dryRun": "All"})["spec"]["clusterIP"] == "10.96.7.7"
    assert made(api, asked, "b")["clusterIP"] == "10.96.7.7"


def test_a_copy_of_a_server_knows_the_addresses_and_ports_in_use(api: Api) -> None:
    asked = {**NODES, "clusterIP": "10.96.7.7", "ports": [{"port": 80, "nodePort": 31000}]}
    made(api, asked)
    api.server = api.server.copy(api.clock)
    assert refused(make(api, asked, "b")) == ["FieldValueInvalid spec.clusterIPs"]
    del asked["clusterIP"]
    assert refused(make(api, asked, "b")) == ["FieldValueInvalid spec.ports[0].nodePort"]


@pytest.mark.parametrize(
    "address", ["192.168.0.1", str(ADDRESSES[0]), str(ADDRESSES[1]), str(ADDRESSES[-1]), "10.112.0.1"]
)
def test_addresses_outside_of_the_range_and_reserved_ones_are_refused(api: Api, address: str) -> None:
    assert refused(make(api, {**WEB, "clusterIP": address})) == ["FieldValueInvalid spec.clusterIPs"]


def test_an_address_belongs_to_a_name(api: Api) -> None:
    assert refused(make(api, WEB, "")) == ["FieldValueInvalid spec.clusterIPs"]
    assert refused(make(api, {**WEB, "clusterIP": "None"}, "")) == ["FieldValueRequired metadata.name"]
    assert refused(make(api, OUTSIDE, "")) == ["FieldValueRequired metadata.name"]


def test_node_ports_are_given_and_differ(api: Api) -> None:
    found = [item["nodePort"] for item in made(api, {**NODES, "ports": TWO})["ports"]]
    found += [item["nodePort"] for item in made(api, BALANCER, "b")["ports"]]
    assert len(set(found)) == 3
    assert all(number in NODE_PORTS for number in found)


def test_ports_of_one_number_share_a_node_port(api: Api) -> None:
    both = [{"name": "a", "port": 53}, {"name": "b", "port": 53, "protocol": "UDP"}]
    first, second = made(api, {**NODES, "ports": both})["ports"]
    assert first["nodePort"] == second["nodePort"]
    both[1] |= {"nodePort": 31000}
    first, second = made(api, {**NODES, "ports": both}, "b")["ports"]
    assert first["nodePort"] == second["nodePort"] == 31000


@pytest.mark.parametrize("number", [1, 29999, 32768, 31000])
def test_node_ports_in_use_or_out_of_range_are_refused(api: Api, number: int) -> None:
    made(api, {**NODES, "ports": [{"port": 80, "nodePort": 31000}]}, "b")
    asked = {**NODES, "ports": [{"port": 80, "nodePort": number}]}
    assert refused(make(api, asked)) == ["FieldValueInvalid spec.ports[0].nodePort"]


def test_a_node_port_is_free_again_when_its_service_needs_none(api: Api) -> None:
    asked = {**NODES, "ports": [{"port": 80, "nodePort": 31000}]}
    made(api, asked)
    answer = changed(api, {"type": "ClusterIP"})
    assert "nodePort" not in answer.body["spec"]["ports"][0]
    assert "externalTrafficPolicy" not in answer.body["spec"]
    assert made(api, asked, "b")["ports"][0]["nodePort"] == 31000


def test_node_ports_are_given_to_load_balancers_unless_they_want_none(api: Api) -> None:
    spec = made(api, {**BALANCER, "allocateLoadBalancerNodePorts": False})
    assert "nodePort" not in spec["ports"][0]
    asked = {**BALANCER, "allocateLoadBalancerNodePorts": False, "ports": [{"port": 80, "nodePort": 31000}]}
    assert made(api, asked, "b")["ports"][0]["nodePort"] == 31000


def test_local_load_balancers_get_a_port_for_health_checks_that_stays(api: Api) -> None:
    number = made(api, LOCAL)["healthCheckNodePort"]
    assert number in NODE_PORTS
    api.ok("PUT", f"{SERVICES}/a", {"metadata": {"name": "a"}, "spec": LOCAL})
    assert api.ok("GET", f"{SERVICES}/a")["spec"]["healthCheckNodePort"] == number
    assert refused(changed(api, {"healthCheckNodePort": 31000})) == [
        "FieldValueForbidden spec.healthCheckNodePort"
    ]
    assert "healthCheckNodePort" not in changed(api, {"externalTrafficPolicy": "Cluster"}).body["spec"]


def test_a_health_check_port_in_use_is_a_500(api: Api) -> None:
    made(api, {**LOCAL, "healthCheckNodePort": 31000})
    assert make(api, {**LOCAL, "healthCheckNodePort": 31000}, "b").status == 500


def test_an_update_may_omit_what_was_given(api: Api) -> None:
    before = made(api, {**NODES, "ports": TWO})
    after = api.ok("PUT", f"{SERVICES}/a", {"metadata": {"name": "a"}, "spec": {**NODES, "ports": TWO}})
    assert after["spec"] == before


def test_an_update_keeps_node_ports_by_the_names_of_ports(api: Api) -> None:
    before = made(api, {**NODES, "ports": TWO})["ports"]
    after = api.merge(f"{SERVICES}/a", {"spec": {"ports": [{"name": "b", "port": 8081}]}})["spec"]["ports"]
    assert after[0]["nodePort"] == before[1]["nodePort"]


def test_a_service_that_becomes_an_external_name_loses_its_addresses(api: Api) -> None:
    made(api, WEB)
    spec = changed(api, {"type": "ExternalName", "externalName": "a.b"}).body["spec"]
    assert spec.keys() == {"type", "externalName", "selector", "ports", "sessionAffinity"}
    back = changed(api, {"type": "ClusterIP", "externalName": None}).body["spec"]
    assert back["clusterIPs"] == [back["clusterIP"]]
    assert back["ipFamilyPolicy"] == "SingleStack"


def test_a_load_balancer_that_becomes_another_type_loses_what_it_had(api: Api) -> None:
    made(api, {**BALANCER, "loadBalancerClass": "ex.io/a"})
    api.merge(f"{SERVICES}/a/status", {"status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}})
    answer = changed(api, {"type": "NodePort"}).body
    assert not {"loadBalancerClass", "allocateLoadBalancerNodePorts"} & answer["spec"].keys()
    assert answer["status"] == {"loadBalancer": {}}


@pytest.mark.parametrize(
    ("spec", "causes"),
    [
        ({"selector": {"app": "web"}}, ["FieldValueRequired spec.ports"]),
        ({**WEB, "type": "x"}, ["FieldValueNotSupported spec.type"]),
        (
            port(port=0),
            ["FieldValueInvalid spec.ports[0].port", "FieldValueInvalid spec.ports[0].targetPort"],
        ),
        (port(port=65536, targetPort=1), ["FieldValueInvalid spec.ports[0].port"]),
        (port(targetPort="x_"), ["FieldValueInvalid spec.ports[0].targetPort"]),
        (port(targetPort="-"), ["FieldValueInvalid spec.ports[0].targetPort"] * 2),
        (port(targetPort="a--b"), ["FieldValueInvalid spec.ports[0].targetPort"]),
        (port(targetPort="a" * 16), ["FieldValueInvalid spec.ports[0].targetPort"]),
        (port(protocol="HTTP"), ["FieldValueNotSupported spec.ports[0].protocol"]),
        (port(name="A"), ["FieldValueInvalid spec.ports[0].name"]),
        (port(appProtocol="a b"), ["FieldValueInvalid spec.ports[0].appProtocol"]),
        (port(nodePort=31000), ["FieldValueForbidden spec.ports[0].nodePort"]),
        (
            {**WEB, "ports": [{"port": 80}, {"port": 81}]},
            ["FieldValueRequired spec.ports[0].name", "FieldValueRequired spec.ports[1].name"],
        ),
        ({**WEB, "ports": [TWO[0], {**TWO[1], "name": "a"}]}, ["FieldValueDuplicate spec.ports[1].name"]),
        ({**WEB, "ports": [TWO[0], {**TWO[0], "name": "b"}]}, ["FieldValueDuplicate spec.ports[1]"]),
        ({**WEB, "selector": {"a b": "c"}}, ["FieldValueInvalid spec.selector"]),
        ({**WEB, "selector": {"a": "b c"}}, ["FieldValueInvalid spec.selector"]),
        ({**WEB, "sessionAffinity": "x"}, ["FieldValueNotSupported spec.sessionAffinity"]),
        (
            {
                **WEB,
                "sessionAffinity": "ClientIP",
                "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 86401}},
            },
            ["FieldValueInvalid spec.sessionAffinityConfig.clientIP.timeoutSeconds"],
        ),
        ({**WEB, "externalIPs": ["x"]}, ["FieldValueInvalid spec.externalIPs[0]"]),
        ({**WEB, "externalIPs": ["010.0.0.1"]}, ["FieldValueInvalid spec.externalIPs[0]"]),
        ({**WEB, "externalIPs": ["169.254.1.1"]}, ["FieldValueInvalid spec.externalIPs[0]"]),
        ({**WEB, "externalIPs": ["0.0.0.0"]}, ["FieldValueInvalid spec.externalIPs[0]"]),
        ({**WEB, "externalTrafficPolicy": "Local"}, ["FieldValueInvalid spec.externalTrafficPolicy"]),
        ({**NODES, "externalTrafficPolicy": "x"}, ["FieldValueNotSupported spec.externalTrafficPolicy"]),
        ({**WEB, "internalTrafficPolicy": "x"}, ["FieldValueNotSupported spec.internalTrafficPolicy"]),
        ({**WEB, "trafficDistribution": "x"}, ["FieldValueNotSupported spec.trafficDistribution"]),
        ({**WEB, "loadBalancerClass": "ex.io/a"}, ["FieldValueForbidden spec.loadBalancerClass"]),
        ({**BALANCER, "loadBalancerClass": "a b"}, ["FieldValueInvalid spec.loadBalancerClass"]),
        (
            {**WEB, "allocateLoadBalancerNodePorts": False},
            ["FieldValueForbidden spec.allocateLoadBalancerNodePorts"],
        ),
        ({**NODES, "healthCheckNodePort": 31000}, ["FieldValueInvalid spec.healthCheckNodePort"]),
        (
            {**WEB, "loadBalancerSourceRanges": ["10.0.0.0/8"]},
            ["FieldValueForbidden spec.LoadBalancerSourceRanges"],
        ),
        (
            {**BALANCER, "loadBalancerSourceRanges": [" 10.0.0.0/8 ", "10.0.0.1/8"]},
            ["FieldValueInvalid spec.LoadBalancerSourceRanges[1]"],
        ),
        ({**NODES, "clusterIP": "None"}, ["FieldValueInvalid spec.clusterIPs[0]"]),
        ({**WEB, "clusterIP": "x"}, ["FieldValueInvalid spec.clusterIPs[0]"]),
        ({**WEB, "clusterIPs": ["10.96.7.7"]}, ["FieldValueInvalid spec.clusterIPs"]),
        (
            {**WEB, "clusterIP": "10.96.7.7", "clusterIPs": ["10.96.7.8"]},
            ["FieldValueInvalid spec.clusterIPs"],
        ),
        (
            {**WEB, "clusterIP": "None", "clusterIPs": ["None", "10.96.7.7"]},
            ["FieldValueInvalid spec.clusterIPs"],
        ),
        ({**WEB, "clusterIP": "fd00::1"}, ["FieldValueInvalid spec.clusterIPs[0]"]),
        ({**WEB, "ipFamilies": ["IPv6"]}, ["FieldValueInvalid spec.ipFamilies[0]"]),
        ({**WEB, "ipFamilies": ["x"]}, ["FieldValueNotSupported spec.ipFamilies[0]"]),
        ({**WEB, "ipFamilies": ["IPv4", "IPv4"]}, ["FieldValueDuplicate spec.ipFamilies[1]"]),
        ({**WEB, "ipFamilyPolicy": "x"}, ["FieldValueNotSupported spec.ipFamilyPolicy"]),
        ({**WEB, "ipFamilyPolicy": "RequireDualStack"}, ["FieldValueInvalid spec.ipFamilyPolicy"]),
        (
            {**WEB, "ipFamilyPolicy": "PreferDualStack", "ipFamilies": ["IPv4", "IPv6"]},
            ["FieldValueInvalid spec.ipFamilies[1]"],
        ),
        ({"type": "ExternalName"}, ["FieldValueRequired spec.externalName"]),
        ({**OUTSIDE, "internalTrafficPolicy": "x"}, ["FieldValueNotSupported spec.internalTrafficPolicy"]),
        ({**OUTSIDE, "externalName": "a_b"}, ["FieldValueInvalid spec.externalName"]),
        ({**OUTSIDE, "clusterIP": "10.96.7.7"}, ["FieldValueForbidden spec.clusterIPs"]),
        (
            {**OUTSIDE, "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack"},
            ["FieldValueForbidden spec.ipFamilies", "FieldValueForbidden spec.ipFamilyPolicy"],
        ),
    ],
)
def test_a_faulty_service_is_refused(api: Api, spec: dict[str, Any], causes: list[str]) -> None:
    assert refused(make(api, spec)) == causes


@pytest.mark.parametrize(
    "spec", [{**OUTSIDE, "externalName": "a.b."}, {"selector": {"a": "b"}, "clusterIP": "None"}]
)
def test_odd_but_good_services_are_accepted(api: Api, spec: dict[str, Any]) -> None:
    assert make(api, spec).status == 201


def test_the_name_of_a_service_is_a_label_and_may_begin_with_a_digit(api: Api) -> None:
    assert make(api, WEB, "9-a").status == 201
    assert refused(make(api, WEB, "a.b")) == ["FieldValueInvalid metadata.name"]


@pytest.mark.parametrize(
    ("annotations", "causes"),
    [
        (
            {
                "service.kubernetes.io/topology-aware-hints": "a",
                "service.kubernetes.io/topology-mode": "b",
            },
            ["FieldValueInvalid metadata.annotations[service.kubernetes.io/topology-mode]"],
        ),
        (
            {RANGES: "10.0.0.0/8,x"},
            [
                f"FieldValueForbidden metadata.annotations[{RANGES}]",
                f"FieldValueInvalid metadata.annotations[{RANGES}]",
            ],
        ),
    ],
)
def test_annotations_of_a_service_are_checked(
    api: Api, annotations: dict[str, str], causes: list[str]
) -> None:
    assert refused(make(api, WEB, annotations=annotations)) == causes


@pytest.mark.parametrize(
    ("spec", "change", "causes"),
    [
        (
            {**WEB, "clusterIP": "10.96.7.7"},
            {"clusterIP": "10.96.7.8"},
            ["FieldValueInvalid spec.clusterIPs[0]"],
        ),
        (WEB, {"clusterIP": "None", "clusterIPs": ["None"]}, ["FieldValueInvalid spec.clusterIPs[0]"]),
        (WEB, {"ipFamilies": ["IPv6"]}, ["FieldValueInvalid spec.clusterIPs[0]"]),
        (BALANCER, {"loadBalancerClass": "ex.io/b"}, ["FieldValueInvalid spec.loadBalancerClass"]),
        (
            NODES,
            {"type": "ClusterIP", "ports": [{"port": 80, "nodePort": 31000}]},
            ["FieldValueForbidden spec.ports[0].nodePort"],
        ),
        (WEB, {"ports": []}, ["FieldValueRequired spec.ports"]),
    ],
)
def test_a_faulty_change_is_refused(
    api: Api, spec: dict[str, Any], change: dict[str, Any], causes: list[str]
) -> None:
    made(api, spec)
    assert refused(changed(api, change)) == causes


@pytest.mark.parametrize(
    ("spec", "point", "causes"),
    [
        (BALANCER, {"ip": "1.2"}, ["FieldValueInvalid status.loadBalancer.ingress[0].ip"]),
        (BALANCER, {"hostname": "A_"}, ["FieldValueInvalid status.loadBalancer.ingress[0].hostname"]),
        (BALANCER, {"hostname": "1.2.3.4"}, ["FieldValueInvalid status.loadBalancer.ingress[0].hostname"]),
        (
            BALANCER,
            {"ip": "1.2.3.4", "ipMode": "x"},
            ["FieldValueNotSupported status.loadBalancer.ingress[0].ipMode"],
        ),
        (
            BALANCER,
            {"hostname": "a", "ipMode": "VIP"},
            ["FieldValueForbidden status.loadBalancer.ingress[0].ipMode"],
        ),
        (WEB, {"ip": "1.2.3.4"}, ["FieldValueForbidden status.loadBalancer.ingress"]),
    ],
)
def test_a_faulty_status_is_refused(
    api: Api, spec: dict[str, Any], point: dict[str, Any], causes: list[str]
) -> None:
    made(api, spec)
    status = {"status": {"loadBalancer": {"ingress": [point]}}}
    assert refused(api.send("PATCH", f"{SERVICES}/a/status", status, content_type=MERGE)) == causes


def test_an_address_of_a_load_balancer_is_virtual_by_default(api: Api) -> None:
    made(api, BALANCER)
    status = {"status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}, {"hostname": "a"}]}}}
    written = api.merge(f"{SERVICES}/a/status", status)["status"]["loadBalancer"]["ingress"]
    assert written == [{"ip": "1.2.3.4", "ipMode": "VIP"}, {"hostname": "a"}]


@pytest.mark.parametrize(
    ("spec", "count"),
    [
        (WEB, 0),
        ({**WEB, "trafficDistribution": "PreferClose"}, 1),
        ({**WEB, "trafficDistribution": "PreferSameZone"}, 0),
        ({**WEB, "externalIPs": ["1.2.3.4"]}, 1),
        ({**WEB, "externalIPs": ["2001:DB8::1"]}, 2),
        ({**WEB, "clusterIP": "None", "externalIPs": ["1.2.3.4"]}, 1),
        ({**WEB, "clusterIP": "None", "sessionAffinity": "ClientIP"}, 1),
        ({**OUTSIDE, "externalIPs": ["1.2.3.4"]}, 1),
        ({**WEB, "externalName": "a.b"}, 1),
        ({**BALANCER, "loadBalancerIP": "1.2.3.4"}, 0),
        ({**BALANCER, "loadBalancerIP": "x"}, 0),
        ({**BALANCER, "loadBalancerIP": "01.2.3.4"}, 1),
        ({**BALANCER, "loadBalancerSourceRanges": ["2001:DB8::/32"]}, 1),
    ],
)
def test_the_writer_of_a_service_is_warned_of_what_is_deprecated_or_ignored(
    api: Api, spec: dict[str, Any], count: int
) -> None:
    answer = make(api, spec)
    assert answer.status == 201, answer.body
    assert answer.headers.get("warning", "").count("299 - ") == count


def test_defaults_are_filled_in_again_after_admission(api: Api) -> None:
    def bind_to_clients(request: AdmittedWrite) -> None:
        assert request.object is not None
        request.object["spec"] |= {"sessionAffinity": "ClientIP", "type": ""}

    api.server.admission.append(AdmissionFunctionFor("services", bind_to_clients))
    spec = made(api, WEB)
    assert spec["type"] == "ClusterIP"
    assert spec["sessionAffinityConfig"] == {"clientIP": {"timeoutSeconds": 10800}}


def test_a_bad_label_is_named_as_often_as_layers_look_at_it(api: Api) -> None:
    made(api, WEB)
    change = {"metadata": {"labels": {"a": "b c"}}}
    whole = api.send("PATCH", f"{SERVICES}/a", change, content_type=MERGE)
    assert refused(whole) == ["FieldValueInvalid metadata.labels"] * 4
    status = api.send("PATCH", f"{SERVICES}/a/status", change, content_type=MERGE)
    assert refused(status) == ["FieldValueInvalid metadata.labels"] * 3
