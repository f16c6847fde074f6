"""Creating, reading, updating and patching objects, and what the server does to their metadata."""

import base64

import pytest

from tests.embedded.api_client import CONFIG_MAPS, MERGE, PODS, WIDGETS, Api, config_map, events, pod, widget


@pytest.mark.rule("api-31")
def test_the_server_sets_uid_time_and_generation_regardless_of_the_client(api: Api) -> None:
    made = api.ok("POST", WIDGETS, widget(uid="mine", creationTimestamp="2001-01-01T00:00:00Z", generation=7))
    metadata = made["metadata"]
    assert metadata["uid"] != "mine"
    assert metadata["creationTimestamp"] == "2026-01-02T03:04:05Z"
    assert metadata["generation"] == 1
    assert made["spec"] == {"color": "red"}


@pytest.mark.rule("api-40")
def test_a_generated_name_is_the_base_and_five_characters(api: Api) -> None:
    made = [
        api.ok("POST", WIDGETS, {**widget(), "metadata": {"generateName": "x" * 60}})["metadata"]["name"]
        for _ in range(20)
    ]
    assert len(set(made)) == 20
    assert all(len(name) == 63 and name.startswith("x" * 58) for name in made)


@pytest.mark.rule("api-41")
@pytest.mark.parametrize("name", ["Bad", "-a", "a_b", "a" * 254, "a..b"])
def test_a_name_that_is_not_a_subdomain_is_invalid(api: Api, name: str) -> None:
    answer = api.send("POST", WIDGETS, widget(name))
    assert answer.status == 422
    assert ("FieldValueInvalid", "metadata.name") in answer.causes


@pytest.mark.parametrize(
    ("version", "status"), [("1", 500), ("0", 201), ("", 201), ("v1", 201), ("-1", 201), (str(1 << 64), 201)]
)
def test_only_a_version_that_storage_can_read_is_refused_on_create(
    api: Api, version: str, status: int
) -> None:
    assert api.send("POST", WIDGETS, widget(resourceVersion=version)).status == status


@pytest.mark.rule("api-42")
@pytest.mark.parametrize(
    "metadata",
    [
        {"labels": {"a": "not valid!"}},
        {"labels": {"a/b/c": ""}},
        {"annotations": {"": "x"}},
        {"annotations": {"a": "x" * 262_145}},
    ],
)
def test_bad_labels_and_annotations_are_invalid(api: Api, metadata: dict[str, dict[str, str]]) -> None:
    answer = api.send("POST", WIDGETS, widget(**metadata))
    assert answer.status == 422
    assert {field for _, field in answer.causes} == {f"metadata.{next(iter(metadata))}"}


@pytest.mark.rule("api-43")
def test_only_one_owner_may_be_the_controller(api: Api) -> None:
    owners = [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": name, "controller": True}
        for name in "ab"
    ]
    answer = api.send("POST", WIDGETS, widget(ownerReferences=owners))
    assert answer.causes == [("FieldValueInvalid", "metadata.ownerReferences")]


@pytest.mark.rule("api-44")
def test_an_unqualified_finalizer_is_refused_by_built_in_kinds_and_a_warning_for_custom_ones(
    api: Api,
) -> None:
    assert api.send("POST", CONFIG_MAPS, config_map(finalizers=["hold"])).status == 422
    answer = api.send("POST", WIDGETS, widget(finalizers=["hold"]))
    assert answer.status == 201
    assert answer.headers["warning"].startswith("299 - ")


@pytest.mark.rule("api-34")
def test_a_write_that_changes_nothing_keeps_the_version_and_causes_no_event(api: Api) -> None:
    made = api.send("POST", WIDGETS, widget(spec={"size": 1}))
    watch = api.watch(WIDGETS, resourceVersion=made.version)
    api.clock.advance(5)
    assert api.send("PUT", f"{WIDGETS}/a", made.body).version == made.version
    assert api.merge(f"{WIDGETS}/a", {"spec": {"size": 1}})["metadata"]["resourceVersion"] == made.version
    assert api.merge(f"{WIDGETS}/a/status", {})["metadata"]["resourceVersion"] == made.version
    assert events(watch) == []


@pytest.mark.rule("api-36")
def test_the_generation_counts_changes_outside_metadata_and_status(api: Api) -> None:
    api.ok("POST", WIDGETS, widget())
    assert api.merge(f"{WIDGETS}/a", {"metadata": {"labels": {"a": "b"}}})["metadata"]["generation"] == 1
    assert api.merge(f"{WIDGETS}/a/status", {"status": {"x": 1}})["metadata"]["generation"] == 1
    assert api.merge(f"{WIDGETS}/a", {"spec": {"size": 2}})["metadata"]["generation"] == 2


@pytest.mark.rule("api-48")
def test_an_update_of_an_older_version_is_a_conflict(api: Api) -> None:
    old = api.ok("POST", WIDGETS, widget())
    api.merge(f"{WIDGETS}/a", {"spec": {"size": 1}})
    answer = api.send("PUT", f"{WIDGETS}/a", old)
    assert (answer.status, answer.body["reason"]) == (409, "Conflict")
    assert api.ok("GET", f"{WIDGETS}/a")["spec"]["size"] == 1


@pytest.mark.rule("api-53")
def test_the_status_endpoint_changes_only_the_status(api: Api) -> None:
    api.ok("POST", WIDGETS, widget(spec={"size": 1}, labels={"l": "1"}))
    patch = {"metadata": {"labels": {"l": "2"}}, "spec": {"size": 9}, "status": {"ready": 1}}
    made = api.merge(f"{WIDGETS}/a/status", patch)
    assert (made["metadata"]["labels"], made["spec"]["size"], made["status"]) == ({"l": "1"}, 1, {"ready": 1})


@pytest.mark.rule("api-54")
def test_the_main_endpoint_leaves_the_status_alone(api: Api) -> None:
    assert "status" not in api.ok("POST", WIDGETS, {**widget(), "status": {"ready": 7}})
    api.merge(f"{WIDGETS}/a/status", {"status": {"ready": 1}})
    assert api.merge(f"{WIDGETS}/a", {"status": None})["status"] == {"ready": 1}


@pytest.mark.rule("api-57")
def test_a_scale_patch_writes_the_replicas_and_bumps_the_generation(api: Api) -> None:
    api.ok("POST", WIDGETS, widget(spec={"replicas": 1}))
    scale = api.merge(f"{WIDGETS}/a/scale", {"spec": {"replicas": 3}})
    assert (scale["kind"], scale["spec"], scale["status"]) == ("Scale", {"replicas": 3}, {"replicas": 0})
    made = api.ok("GET", f"{WIDGETS}/a")
    assert (made["spec"]["replicas"], made["metadata"]["generation"]) == (3, 2)


@pytest.mark.rule("api-58")
def test_a_scale_without_replicas_cannot_be_read_and_a_negative_one_not_written(api: Api) -> None:
    api.ok("POST", WIDGETS, widget())
    assert api.send("GET", f"{WIDGETS}/a/scale").status == 500
    answer = api.send("PATCH", f"{WIDGETS}/a/scale", {"spec": {"replicas": -1}}, content_type=MERGE)
    assert answer.causes == [("FieldValueInvalid", ".spec.replicas"), ("FieldValueInvalid", "spec.replicas")]


@pytest.mark.rule("api-135")
def test_a_dry_run_does_everything_but_store(api: Api) -> None:
    made = api.ok("POST", WIDGETS, widget(), query={"dryRun": "All"})
    assert "resourceVersion" not in made["metadata"]
    assert api.send("GET", f"{WIDGETS}/a").status == 404
    api.ok("POST", WIDGETS, widget())
    before = api.server.version
    assert api.merge(f"{WIDGETS}/a", {"spec": {"size": 4}}, query={"dryRun": "All"})["spec"]["size"] == 4
    api.ok("DELETE", f"{WIDGETS}/a", query={"dryRun": "All"})
    api.ok("DELETE", WIDGETS, query={"dryRun": "All"})
    assert api.server.version == before
    assert api.send("POST", WIDGETS, widget("b"), query={"dryRun": "Some"}).status == 422


@pytest.mark.rule("api-136")
def test_unknown_and_duplicate_fields_are_refused_warned_about_or_dropped_as_requested(api: Api) -> None:
    body = widget(spec={"bogus": 1})
    assert api.send("POST", WIDGETS, body, query={"fieldValidation": "Strict"}).status == 400
    doubled = (
        b'{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"d"},"spec":{"size":1,"size":2}}'
    )
    assert api.send("POST", WIDGETS, doubled, query={"fieldValidation": "Strict"}).status == 400
    answer = api.send("POST", WIDGETS, body)
    assert answer.headers["warning"] == '299 - "unknown field \\"spec.bogus\\""'
    assert answer.body["spec"] == {"color": "red"}
    assert (
        "warning" not in api.send("POST", WIDGETS, widget("b"), query={"fieldValidation": "Ignore"}).headers
    )


@pytest.mark.rule("api-130")
def test_nothing_can_be_created_in_a_missing_or_terminating_namespace(api: Api) -> None:
    answer = api.send("POST", "/api/v1/namespaces/nope/configmaps", config_map())
    assert (answer.status, answer.body["message"]) == (404, 'namespaces "nope" not found')
    api.ok("POST", "/api/v1/namespaces", {"metadata": {"name": "going"}})
    api.ok("DELETE", "/api/v1/namespaces/going")
    answer = api.send("POST", "/api/v1/namespaces/going/configmaps", config_map())
    assert answer.status == 403
    assert answer.causes == [("NamespaceTerminating", "metadata.namespace")]


@pytest.mark.rule("api-134")
def test_string_data_becomes_data_and_an_immutable_secret_stays(api: Api) -> None:
    path = "/api/v1/namespaces/default/secrets"
    made = api.ok("POST", path, {"metadata": {"name": "a"}, "stringData": {"k": "v"}, "immutable": True})
    assert made["data"] == {"k": base64.b64encode(b"v").decode()}
    assert "stringData" not in made
    answer = api.send("PATCH", f"{path}/a", {"stringData": {"k": "w"}}, content_type=MERGE)
    assert answer.causes == [("FieldValueForbidden", "data")]
    assert api.send("POST", path, {"metadata": {"name": "b"}, "data": {"k": "%"}}).status == 400


def test_a_pod_gets_its_defaults_and_can_be_bound_only_once(api: Api) -> None:
    made = api.ok("POST", PODS, pod())
    assert made["spec"]["restartPolicy"] == "Always"
    assert made["spec"]["terminationGracePeriodSeconds"] == 30
    assert made["status"]["phase"] == "Pending"
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "a"}, "target": {"name": "node-1"}}
    assert api.send("POST", f"{PODS}/a/binding", binding).status == 201
    bound = api.ok("GET", f"{PODS}/a")
    assert bound["spec"]["nodeName"] == "node-1"
    assert [condition["type"] for condition in bound["status"]["conditions"]] == ["PodScheduled"]
    assert api.send("POST", f"{PODS}/a/binding", binding).status == 409


def test_services_get_their_own_addresses_unless_headless(api: Api) -> None:
    path = "/api/v1/namespaces/default/services"
    spec = {"ports": [{"port": 80}]}
    made = [api.ok("POST", path, {"metadata": {"name": name}, "spec": spec}) for name in ("a", "b")]
    addresses = {service["spec"]["clusterIP"] for service in made}
    assert len(addresses) == 2
    assert all(address.startswith("10.96.") for address in addresses)
    headless = {"metadata": {"name": "c"}, "spec": {**spec, "clusterIP": "None"}}
    assert api.ok("POST", path, headless)["spec"]["clusterIP"] == "None"


@pytest.mark.rule("api-12")
def test_an_unknown_resource_is_text_in_a_custom_group_and_a_status_in_a_built_in_one(api: Api) -> None:
    assert api.send("GET", "/apis/example.com/v1/namespaces/default/nothings").body == "404 page not found\n"
    assert api.send("GET", "/api/v1/nothings").body["details"] == {}
