"""What the server sets in Ingresses, and what it refuses in them and their classes."""

from typing import Any

import pytest

from tests.embedded.api_client import MERGE, Answer, Api

INGRESSES = "/apis/networking.k8s.io/v1/namespaces/default/ingresses"
CLASSES = "/apis/networking.k8s.io/v1/ingressclasses"
BACKEND: dict[str, Any] = {"service": {"name": "web", "port": {"number": 80}}}
PATH: dict[str, Any] = {"path": "/", "pathType": "Prefix", "backend": BACKEND}
CLASS_NOTE = "kubernetes.io/ingress.class"
BUCKET = {"kind": "Bucket", "name": "b"}
AT = "spec.rules[0].http.paths[0]"


def refused(answer: Answer) -> list[str]:
    assert answer.status == 422, answer.body
    return sorted(f"{reason} {field}" for reason, field in answer.causes)


def make(api: Api, spec: dict[str, Any], name: str = "a", **metadata: Any) -> Answer:
    return api.send("POST", INGRESSES, {"metadata": {"name": name, **metadata}, "spec": spec})


def rule(host: str = "", **path: Any) -> dict[str, Any]:
    return {"rules": [{"host": host, "http": {"paths": [{**PATH, **path}]}}]}


def port(**named: Any) -> dict[str, Any]:
    return rule(backend={"service": {"name": "web", "port": named}})


@pytest.mark.parametrize(
    ("spec", "causes"),
    [
        ({}, ["FieldValueInvalid spec"]),
        ({"defaultBackend": {}}, ["FieldValueInvalid spec.defaultBackend"]),
        ({"rules": [{"http": {"paths": []}}]}, ["FieldValueRequired spec.rules[0].http.paths"]),
        (rule("1.2.3.4"), ["FieldValueInvalid spec.rules[0].host"]),
        (rule("a_b"), ["FieldValueInvalid spec.rules[0].host"]),
        (rule("a.*.b"), ["FieldValueInvalid spec.rules[0].host"]),
        ({"rules": [{"http": {"paths": [{"backend": BACKEND}]}}]}, [f"FieldValueRequired {AT}.pathType"]),
        (rule(pathType="x"), [f"FieldValueNotSupported {AT}.pathType"]),
        (rule(path=""), [f"FieldValueInvalid {AT}.path"]),
        (rule(path="a", pathType="ImplementationSpecific"), [f"FieldValueInvalid {AT}.path"]),
        (rule(path="/a//b"), [f"FieldValueInvalid {AT}.path"]),
        (rule(path="/a/../b"), [f"FieldValueInvalid {AT}.path"]),
        (rule(path="/a/.."), [f"FieldValueInvalid {AT}.path"]),
        (rule(path="/a%2fb"), [f"FieldValueInvalid {AT}.path"]),
        (rule(backend={}), [f"FieldValueInvalid {AT}.backend"]),
        (rule(backend={**BACKEND, "resource": BUCKET}), [f"FieldValueInvalid {AT}.backend"]),
        (rule(backend={"resource": {"kind": "B"}}), [f"FieldValueRequired {AT}.backend.resource.name"]),
        (
            rule(backend={"resource": {**BUCKET, "apiGroup": "-"}}),
            [f"FieldValueInvalid {AT}.backend.resource.apiGroup"],
        ),
        (
            rule(backend={"resource": {**BUCKET, "name": "a/b"}}),
            [f"FieldValueInvalid {AT}.backend.resource.name"],
        ),
        (
            rule(backend={"service": {"port": {"number": 80}}}),
            [f"FieldValueRequired {AT}.backend.service.name"],
        ),
        (port(), [f"FieldValueRequired {AT}.backend"]),
        (port(number=80, name="a"), [f"FieldValueInvalid {AT}.backend"]),
        (port(number=65536), [f"FieldValueInvalid {AT}.backend.service.port.number"]),
        (port(name="a_"), [f"FieldValueInvalid {AT}.backend.service.port.name"]),
        ({**rule(), "tls": [{"hosts": ["a_b"]}]}, ["FieldValueInvalid spec.tls[0].hosts[0]"]),
        ({**rule(), "tls": [{"secretName": "a_b"}]}, ["FieldValueInvalid spec.tls[0].secretName"]),
        ({**rule(), "ingressClassName": ""}, ["FieldValueInvalid spec.ingressClassName"]),
    ],
)
def test_a_faulty_ingress_is_refused(api: Api, spec: dict[str, Any], causes: list[str]) -> None:
    assert refused(make(api, spec)) == causes


@pytest.mark.parametrize(
    "spec",
    [
        {"defaultBackend": BACKEND},
        {"rules": [{"host": "a.b"}], "tls": [{"hosts": ["*.a.b"]}]},
        rule("*.a.b"),
        rule(path="", pathType="ImplementationSpecific"),
        rule(backend={"service": {"name": "9web", "port": {"name": "http"}}}),
    ],
)
def test_odd_but_good_ingresses_are_accepted(api: Api, spec: dict[str, Any]) -> None:
    assert make(api, spec).status == 201


def test_the_annotation_of_the_class_must_agree_with_the_field_in_a_new_ingress(api: Api) -> None:
    spec = {**rule(), "ingressClassName": "a"}
    other = make(api, spec, annotations={CLASS_NOTE: "b"})
    assert refused(other) == [f"FieldValueInvalid annotations.{CLASS_NOTE}"]
    made = make(api, rule(), annotations={CLASS_NOTE: "b"})
    assert made.headers["warning"].count("299 - ") == 1
    changed = api.send("PATCH", f"{INGRESSES}/a", {"spec": spec}, content_type=MERGE)
    assert (changed.status, changed.headers.get("warning")) == (200, None)


def test_a_new_ingress_gets_the_default_class(api: Api) -> None:
    default = {"ingressclass.kubernetes.io/is-default-class": "true"}
    for name, annotations in (("b", default), ("a", default), ("c", {})):
        metadata = {"name": name, "annotations": annotations}
        api.ok("POST", CLASSES, {"metadata": metadata, "spec": {"controller": "ex.io/c"}})
    assert make(api, rule()).body["spec"]["ingressClassName"] == "a"
    assert make(api, {**rule(), "ingressClassName": "c"}, "b").body["spec"]["ingressClassName"] == "c"
    noted = make(api, rule(), "c", annotations={CLASS_NOTE: "x"}).body
    assert "ingressClassName" not in noted["spec"]
    api.clock.advance(1)
    metadata = {"name": "newest", "annotations": default}
    api.ok("POST", CLASSES, {"metadata": metadata, "spec": {"controller": "ex.io/c"}})
    assert make(api, rule(), "d").body["spec"]["ingressClassName"] == "newest"


@pytest.mark.parametrize(
    ("point", "field"),
    [({"ip": "x"}, "ip"), ({"hostname": "1.2.3.4"}, "hostname"), ({"hostname": "A"}, "hostname")],
)
def test_a_faulty_status_of_an_ingress_is_refused(api: Api, point: dict[str, str], field: str) -> None:
    make(api, rule())
    status = {"status": {"loadBalancer": {"ingress": [point]}}}
    answer = api.send("PATCH", f"{INGRESSES}/a/status", status, content_type=MERGE)
    assert refused(answer) == [f"FieldValueInvalid status.loadBalancer.ingress[0].{field}"]


def make_class(api: Api, controller: str = "ex.io/c", **parameters: Any) -> Answer:
    spec = {"controller": controller, **({"parameters": {**BUCKET, **parameters}} if parameters else {})}
    return api.send("POST", CLASSES, {"metadata": {"name": "a"}, "spec": spec})


@pytest.mark.parametrize(
    ("controller", "causes"),
    [
        ("", ["FieldValueRequired spec.controller"]),
        ("nodomain", ["FieldValueInvalid spec.controller"]),
        ("/a", ["FieldValueInvalid spec.controller"]),
        ("A/a", ["FieldValueInvalid spec.controller"]),
        ("a/b c", ["FieldValueInvalid spec.controller"]),
        (f"a/{'b' * 249}", ["FieldValueTooLong spec.controller"]),
    ],
)
def test_the_controller_of_a_class_is_a_path_with_a_domain(
    api: Api, controller: str, causes: list[str]
) -> None:
    assert refused(make_class(api, controller)) == causes


@pytest.mark.parametrize(
    ("parameters", "causes"),
    [
        ({"scope": "Cluster", "namespace": "a"}, ["FieldValueForbidden spec.parameters.namespace"]),
        ({"scope": "Namespace"}, ["FieldValueRequired spec.parameters.namespace"]),
        ({"scope": "Namespace", "namespace": "A"}, ["FieldValueInvalid spec.parameters.namespace"]),
        ({"scope": "x"}, ["FieldValueNotSupported spec.parameters.scope"]),
        (
            {"kind": "", "name": ""},
            ["FieldValueRequired spec.parameters.kind", "FieldValueRequired spec.parameters.name"],
        ),
        ({"apiGroup": "A b"}, ["FieldValueInvalid spec.parameters.apiGroup"]),
    ],
)
def test_faulty_parameters_of_a_class_are_refused(
    api: Api, parameters: dict[str, str], causes: list[str]
) -> None:
    assert refused(make_class(api, **parameters)) == causes


def test_parameters_of_a_class_are_of_the_cluster_by_default_and_its_controller_stays(api: Api) -> None:
    assert make_class(api, apiGroup="a.b").body["spec"]["parameters"]["scope"] == "Cluster"
    answer = api.send("PATCH", f"{CLASSES}/a", {"spec": {"controller": "ex.io/d"}}, content_type=MERGE)
    assert refused(answer) == ["FieldValueInvalid spec.controller"]
