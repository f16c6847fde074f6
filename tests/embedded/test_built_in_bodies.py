"""Bodies of built-in kinds as a typed server reads and shows them, and deletions of collections."""

from typing import Any

import pytest

from tests.embedded.api_client import CONFIG_MAPS, MERGE, WIDGETS, Api, config_map, owned_by, widget

SECRETS = "/api/v1/namespaces/default/secrets"
SERVICES = "/api/v1/namespaces/default/services"
ENDPOINTS = "/api/v1/namespaces/default/endpoints"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
NO_ENDPOINTS = {"addressType": "IPv4", "endpoints": []}
INVALID, REQUIRED = "FieldValueInvalid", "FieldValueRequired"


@pytest.mark.rule("api-20")
@pytest.mark.parametrize("body", [{}, {"kind": "ConfigMap"}, {"apiVersion": "v1"}])
def test_a_built_in_body_may_omit_kind_and_version(api: Api, body: dict[str, str]) -> None:
    made = api.ok("POST", CONFIG_MAPS, {**body, "metadata": {"name": "a"}})
    assert (made["kind"], made["apiVersion"]) == ("ConfigMap", "v1")


@pytest.mark.rule("api-20")
@pytest.mark.parametrize("body", [{"apiVersion": "v2"}, {"kind": "Secret"}, {"kind": 5}, {"apiVersion": []}])
def test_kind_and_version_in_a_body_must_match_the_path(api: Api, body: dict[str, Any]) -> None:
    assert api.send("POST", CONFIG_MAPS, {**body, "metadata": {"name": "a"}}).status == 400


@pytest.mark.rule("api-20")
@pytest.mark.parametrize("body", [{"kind": "Widget"}, {"apiVersion": "example.com/v1"}, {}])
def test_a_custom_body_must_have_kind_and_version(api: Api, body: dict[str, str]) -> None:
    assert api.send("POST", WIDGETS, {**body, "metadata": {"name": "a"}}).status == 400


def test_null_becomes_an_empty_text_and_an_empty_map_is_omitted(api: Api) -> None:
    made = api.ok(
        "POST", CONFIG_MAPS, {"metadata": {"name": "a", "labels": {"a": None}}, "data": {"k": None}}
    )
    assert (made["metadata"]["labels"], made["data"]) == ({"a": ""}, {"k": ""})
    assert "data" not in api.merge(f"{CONFIG_MAPS}/a", {"data": {"k": None}})
    assert "data" not in api.ok("POST", SECRETS, {"metadata": {"name": "a"}, "data": {}})
    custom = api.ok("POST", WIDGETS, widget(annotations={"a": None}))
    assert custom["metadata"]["annotations"] == {"a": ""}
    assert api.send("POST", CONFIG_MAPS, b"null").causes == [(REQUIRED, "metadata.name")]


@pytest.mark.rule("api-134")
@pytest.mark.parametrize(
    ("kind", "data", "causes"),
    [
        ("basic-auth", {}, [(REQUIRED, "data[username]"), (REQUIRED, "data[password]")]),
        ("basic-auth", {"password": ""}, []),
        ("ssh-auth", {}, [(REQUIRED, "data[ssh-privatekey]")]),
        (
            "service-account-token",
            {},
            [(REQUIRED, "metadata.annotations[kubernetes.io/service-account.name]")],
        ),
        ("dockerconfigjson", {".dockerconfigjson": "eA=="}, [(INVALID, "data[.dockerconfigjson]")]),
        ("dockerconfigjson", {".dockerconfigjson": "e30="}, []),
    ],
)
def test_a_secret_must_have_the_keys_of_its_type(
    api: Api, kind: str, data: dict[str, str], causes: list[tuple[str, str]]
) -> None:
    secret = {"metadata": {"name": "s"}, "type": f"kubernetes.io/{kind}", "data": data}
    answer = api.send("POST", SECRETS, secret)
    assert (answer.causes if causes else answer.status) == (causes or 201)
    assert "eA==" not in str(answer.body) or not causes


@pytest.mark.rule("api-62")
@pytest.mark.parametrize("text", ["%", '% must be of type byte: "%', "% must be of type byte: %"])
def test_data_that_is_not_base64_is_400_in_a_body_and_422_as_a_patch(api: Api, text: str) -> None:
    api.ok("POST", SECRETS, {"metadata": {"name": "s"}})
    answer = api.send("POST", SECRETS, {"metadata": {"name": "t"}, "data": {"k": text}})
    assert answer.status == 400
    assert answer.body["message"].endswith(": illegal base64 data at input byte 0")
    answer = api.send("PATCH", f"{SECRETS}/s", {"data": {"k": text}}, content_type=MERGE)
    assert answer.causes == [(INVALID, "patch")]


# --- collections ------------------------------------------------------------------------------


@pytest.mark.rule("api-85")
def test_the_deletion_of_a_collection_takes_the_options_of_a_list(api: Api) -> None:
    for name in "abc":
        api.ok("POST", WIDGETS, widget(name))
    before = str(api.server.version)
    answer = api.ok("DELETE", WIDGETS, query={"limit": "2"})
    assert [item["metadata"]["name"] for item in answer["items"]] == ["a", "b"]
    assert answer["metadata"]["resourceVersion"] == before
    assert [item["metadata"]["name"] for item in api.ok("GET", WIDGETS)["items"]] == ["c"]
    bad = api.send("DELETE", WIDGETS, query={"resourceVersionMatch": "Exact"})
    assert (bad.status, bad.body["details"]["kind"]) == (422, "ListOptions")


@pytest.mark.rule("api-85")
def test_each_object_of_a_collection_is_deleted_in_its_own_way(api: Api) -> None:
    api.ok("POST", WIDGETS, widget("free"))
    api.ok("POST", WIDGETS, widget("held", finalizers=["example.com/hold"]))
    answer = api.ok("DELETE", WIDGETS, {"propagationPolicy": "Background"})
    assert [item["metadata"]["name"] for item in answer["items"]] == ["free", "held"]
    [left] = api.ok("GET", WIDGETS)["items"]
    assert (left["metadata"]["name"], "deletionTimestamp" in left["metadata"]) == ("held", True)


@pytest.mark.rule("api-85", "api-51")
def test_preconditions_apply_to_each_object_of_a_collection(api: Api) -> None:
    api.ok("POST", CONFIG_MAPS, config_map())
    assert api.send("DELETE", CONFIG_MAPS, {"preconditions": {"uid": "another"}}).status == 409
    assert api.send("GET", f"{CONFIG_MAPS}/a").status == 200


# --- templates of pods ------------------------------------------------------------------------


@pytest.mark.rule("api-137")
@pytest.mark.parametrize(
    ("spec", "causes"),
    [
        ({"containers": []}, [(REQUIRED, "containers")]),
        ({"containers": [{"name": "A_", "image": "a"}]}, [(INVALID, "containers[0].name")]),
        (
            {"containers": [{"name": "a", "image": "a"}, {"name": "a", "image": ""}]},
            [(REQUIRED, "containers[1].image"), ("FieldValueDuplicate", "containers[1].name")],
        ),
        (
            {"containers": [{"name": "a", "image": "a"}], "restartPolicy": "Never"},
            [("FieldValueNotSupported", "restartPolicy")],
        ),
    ],
)
@pytest.mark.parametrize("plural", ["deployments", "replicasets", "daemonsets", "statefulsets"])
def test_the_pod_template_of_a_workload_is_validated_and_must_restart_always(
    api: Api, plural: str, spec: dict[str, Any], causes: list[tuple[str, str]]
) -> None:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": spec}
    whole = {"selector": {"matchLabels": {"a": "b"}}, "template": template, "serviceName": "a"}
    if plural != "statefulsets":
        del whole["serviceName"]
    path = f"/apis/apps/v1/namespaces/default/{plural}"
    answer = api.send("POST", path, {"metadata": {"name": "a"}, "spec": whole})
    assert answer.causes == [(reason, f"spec.template.spec.{field}") for reason, field in causes]


@pytest.mark.rule("api-137")
def test_the_pod_template_of_a_job_has_containers_and_terminates(api: Api) -> None:
    path = "/apis/batch/v1/namespaces/default/jobs"
    template = {"spec": {"containers": []}}
    answer = api.send("POST", path, {"metadata": {"name": "a"}, "spec": {"template": template}})
    assert answer.causes == [
        (REQUIRED, "spec.template.spec.containers"),
        (REQUIRED, "spec.template.spec.restartPolicy"),
    ]


@pytest.mark.parametrize(
    ("sent", "kept"),
    [("MQ==\n", "MQ=="), ("M\r\nQ==", "MQ=="), ([], ""), ([49], "MQ=="), ([None, 255], "AP8=")],
)
def test_bytes_are_read_as_go_reads_them(api: Api, sent: Any, kept: str) -> None:
    made = api.ok("POST", SECRETS, {"metadata": {"name": "a"}, "data": {"a": sent}})
    assert made["data"] == {"a": kept}


@pytest.mark.parametrize("sent", ["M Q==", [256], [-1], ["a"], [1.5], {}, 1])
def test_what_holds_no_bytes_is_a_bad_request(api: Api, sent: Any) -> None:
    answer = api.send("POST", SECRETS, {"metadata": {"name": "a"}, "data": {"a": sent}})
    assert answer.status == 400


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ({"port": 2**31}, "spec.ports[0].port: number 2147483648 into Go value of type int32"),
        ({"port": 80, "nodePort": -(2**40)}, "spec.ports[0].nodePort: number -1099511627776 into"),
        ({"port": 80, "targetPort": 2**31}, "spec.ports[0].targetPort: number 2147483648 into"),
    ],
)
def test_a_number_out_of_the_range_of_its_go_type_is_a_bad_request(
    api: Api, value: dict[str, int], fault: str
) -> None:
    answer = api.send("POST", SERVICES, {"metadata": {"name": "a"}, "spec": {"ports": [value]}})
    assert (answer.status, answer.body["reason"]) == (400, "BadRequest")
    assert f"json: cannot unmarshal {fault}" in answer.body["message"]


# --- services -------------------------------------------------------------------------------------


def test_a_deleted_service_takes_its_endpoints_and_slices_along(api: Api) -> None:
    made = api.ok("POST", SERVICES, {"metadata": {"name": "a"}, "spec": {"ports": [{"port": 80}]}})
    for name in ("a", "b"):
        api.ok("POST", ENDPOINTS, {"metadata": {"name": name}})
    api.ok("POST", SLICES, {"metadata": {"name": "a-1", "ownerReferences": owned_by(made)}, **NO_ENDPOINTS})
    api.ok("POST", SLICES, {"metadata": {"name": "by-hand"}, **NO_ENDPOINTS})
    api.ok("DELETE", f"{SERVICES}/a", query={"dryRun": "All"})
    assert not api.gone(f"{ENDPOINTS}/a")
    api.ok("DELETE", f"{SERVICES}/a")
    assert [one["metadata"]["name"] for one in api.ok("GET", ENDPOINTS)["items"]] == ["b"]
    api.server.settle()
    assert [one["metadata"]["name"] for one in api.ok("GET", SLICES)["items"]] == ["by-hand"]


def test_the_endpoints_of_a_service_stay_as_long_as_its_finalizers(api: Api) -> None:
    spec = {"ports": [{"port": 80}]}
    api.ok("POST", SERVICES, {"metadata": {"name": "a", "finalizers": ["example.com/a"]}, "spec": spec})
    api.ok("POST", SERVICES, {"metadata": {"name": "b"}, "spec": spec})
    for name in ("a", "b"):
        api.ok("POST", ENDPOINTS, {"metadata": {"name": name}})
        api.ok("DELETE", f"{SERVICES}/{name}", {"propagationPolicy": "Foreground"})
        assert not api.gone(f"{ENDPOINTS}/{name}")
    api.server.settle()
    assert not api.gone(f"{ENDPOINTS}/a")
    assert api.gone(f"{ENDPOINTS}/b")
    api.merge(f"{SERVICES}/a", {"metadata": {"finalizers": None}})
    assert api.gone(f"{ENDPOINTS}/a")
