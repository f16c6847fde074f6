"""Options of requests, in the query or in a body: what is true, what is refused, and with which causes."""

from typing import Any

import pytest

from tests.embedded.api_client import CONFIG_MAPS, MERGE, PODS, WIDGETS, Api, config_map, names, pod, widget

APPLY = "application/apply-patch+yaml"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
INVALID, FORBIDDEN, UNSUPPORTED = "FieldValueInvalid", "FieldValueForbidden", "FieldValueNotSupported"


@pytest.fixture
def api() -> Api:
    api = Api()
    api.ok("POST", WIDGETS, widget(finalizers=["example.com/hold"]))
    api.ok("POST", CONFIG_MAPS, config_map())
    return api


MATCH = "resourceVersionMatch"
BOTH = [(FORBIDDEN, MATCH), (UNSUPPORTED, MATCH)]


@pytest.mark.rule("api-91")
@pytest.mark.parametrize(
    ("query", "causes"),
    [
        ({MATCH: "x"}, BOTH),
        ({MATCH: "Exact", "continue": "x"}, [(FORBIDDEN, MATCH)] * 2),
        ({MATCH: "Exact", "resourceVersion": "0"}, [(FORBIDDEN, MATCH)]),
        ({"sendInitialEvents": "false"}, [(FORBIDDEN, "sendInitialEvents")]),
        ({"watch": "1", MATCH: "NotOlderThan"}, [(FORBIDDEN, MATCH)]),
        ({"watch": "1", MATCH: "Exact"}, BOTH),
        ({"watch": "1", "sendInitialEvents": "false"}, [(FORBIDDEN, MATCH)]),
        ({"watch": "1", "sendInitialEvents": "true", MATCH: "Exact"}, BOTH),
        (
            {"watch": "1", "sendInitialEvents": "1", MATCH: "NotOlderThan", "continue": "x"},
            [(FORBIDDEN, MATCH)],
        ),
    ],
)
def test_each_fault_of_list_and_watch_options_is_a_cause(
    api: Api, query: dict[str, str], causes: list[tuple[str, str]]
) -> None:
    answer = api.send("GET", WIDGETS, query=query)
    assert (answer.status, answer.causes) == (422, causes)
    assert answer.body["details"]["kind"] == "ListOptions"


@pytest.mark.rule("api-65")
@pytest.mark.parametrize(
    ("content_type", "query", "causes"),
    [
        (APPLY, {"dryRun": "x"}, [("FieldValueRequired", "fieldManager"), (UNSUPPORTED, "dryRun")]),
        (MERGE, {"force": "false"}, [(FORBIDDEN, "force")]),
        (MERGE, {"force": ""}, [(FORBIDDEN, "force")]),
        (MERGE, {"fieldManager": "a\nb"}, [(INVALID, "fieldManager")]),
        (MERGE, {"fieldManager": "é" * 65}, [("FieldValueTooLong", "fieldManager")]),
        (
            MERGE,
            {"force": "1", "fieldValidation": "x"},
            [(FORBIDDEN, "force"), (UNSUPPORTED, "fieldValidation")],
        ),
    ],
)
def test_each_fault_of_patch_options_is_a_cause(
    api: Api, content_type: str, query: dict[str, str], causes: list[tuple[str, str]]
) -> None:
    answer = api.send("PATCH", f"{WIDGETS}/a", {}, query, content_type)
    assert (answer.status, answer.causes) == (422, causes)
    named = {"group": "meta.k8s.io", "kind": "PatchOptions"}
    assert answer.body["details"] == {**named, "causes": answer.body["details"]["causes"]}


@pytest.mark.rule("api-107")
@pytest.mark.parametrize("version", [None, "0"])
def test_a_watch_with_bookmarks_but_no_version_marks_the_end_of_the_initial_state(
    api: Api, version: str | None
) -> None:
    from_there = {"resourceVersion": version} if version else {}
    watch = api.watch(WIDGETS, allowWatchBookmarks="true", **from_there)
    assert [line.split(b'"')[3] for line in watch.take()] == [b"ADDED", b"BOOKMARK"]


def test_the_legacy_watch_of_one_object_accepts_only_a_selector_of_its_own_name(api: Api) -> None:
    path = WIDGETS.replace("/v1/", "/v1/watch/") + "/a"
    assert names(api.watch(path)) == [("ADDED", "a")]
    assert names(api.watch(path, fieldSelector="metadata.name=a", labelSelector="x")) == []
    assert api.send("GET", path, query={"fieldSelector": "metadata.name=b"}).status == 400


@pytest.mark.rule("api-99")
def test_include_object_has_three_valid_values(api: Api) -> None:
    for path in (WIDGETS, f"{WIDGETS}/a"):
        assert api.send("GET", path, query={"includeObject": "Everything"}, accept=TABLE).status == 400
        assert api.send("GET", path, query={"includeObject": "None"}, accept=TABLE).status == 200


@pytest.mark.rule("api-86")
def test_each_fault_of_delete_options_is_a_cause(api: Api) -> None:
    both = {"propagationPolicy": "Sideways", "orphanDependents": True}
    answer = api.send("DELETE", f"{WIDGETS}/a", both)
    assert answer.causes == [(INVALID, "propagationPolicy"), (UNSUPPORTED, "propagationPolicy")]
    answer = api.send("DELETE", f"{WIDGETS}/a", {"dryRun": ["All", "Some", "None"]})
    assert answer.causes == [(UNSUPPORTED, "dryRun")]


@pytest.mark.rule("api-86")
@pytest.mark.parametrize(
    "options",
    [
        {"gracePeriodSeconds": "1"},
        {"gracePeriodSeconds": 2**63},
        {"orphanDependents": "true"},
        {"preconditions": []},
        {"preconditions": {"uid": 1}},
        {"propagationPolicy": 1},
        {"dryRun": "All"},
        {"dryRun": [1]},
        {"kind": "Pod"},
        [],
    ],
)
def test_delete_options_of_a_wrong_type_are_a_bad_request(api: Api, options: Any) -> None:
    answer = api.send("DELETE", f"{WIDGETS}/a", options)
    assert (answer.status, answer.body["reason"]) == (400, "BadRequest")
    assert "deletionTimestamp" not in api.ok("GET", f"{WIDGETS}/a")["metadata"]


@pytest.mark.rule("api-87")
def test_only_the_legacy_option_for_cascading_is_answered_with_202(api: Api) -> None:
    for path, answers in ((f"{WIDGETS}/a", 202), (f"{CONFIG_MAPS}/a", 200)):
        assert api.send("DELETE", path, query={"orphanDependents": "false"}).status == answers
    api.ok("POST", WIDGETS, widget("b", finalizers=["example.com/hold"]))
    assert api.send("DELETE", f"{WIDGETS}/b", query={"propagationPolicy": "Background"}).status == 200


@pytest.mark.rule("api-21")
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_the_cluster_wide_path_of_a_namespaced_kind_is_read_only(api: Api, method: str) -> None:
    custom = api.send(method, "/apis/example.com/v1/widgets", {}, content_type=MERGE)
    assert (custom.status, custom.body) == (404, "404 page not found\n")
    assert api.send(method, "/api/v1/configmaps", {}, content_type=MERGE).status == 405


@pytest.mark.rule("api-61", "api-63")
@pytest.mark.parametrize(
    ("path", "content_type", "patch"),
    [
        (f"{CONFIG_MAPS}/a", MERGE, {"data": 5}),
        (f"{CONFIG_MAPS}/a", MERGE, {"kind": "Pod"}),
        (f"{CONFIG_MAPS}/a", MERGE, {"metadata": {"labels": {"a": 5}}}),
        (f"{CONFIG_MAPS}/a", "application/strategic-merge-patch+json", {"data": {"a": 1}}),
        (f"{CONFIG_MAPS}/a", "application/json-patch+json", [{"op": "add", "path": "/data", "value": []}]),
        (f"{WIDGETS}/a", MERGE, {"metadata": {"labels": 5}}),
        (f"{WIDGETS}/a", MERGE, {"metadata": {"creationTimestamp": "yesterday"}}),
        (f"{WIDGETS}/a", MERGE, {"kind": None}),
        (f"{PODS}/a", "application/strategic-merge-patch+json", {"spec": {"priority": "x"}}),
    ],
)
def test_a_patch_whose_result_is_not_an_object_is_invalid_as_a_patch(
    api: Api, path: str, content_type: str, patch: Any
) -> None:
    api.ok("POST", PODS, pod())
    answer = api.send("PATCH", path, patch, content_type=content_type)
    assert (answer.status, answer.body["reason"]) == (422, "Invalid")
    assert answer.body["details"] == {
        "causes": [{**answer.body["details"]["causes"][0], "reason": INVALID, "field": "patch"}]
    }


@pytest.mark.rule("api-136")
@pytest.mark.parametrize(
    ("content_type", "patch"),
    [
        (MERGE, b'{"spec":{"size":1,"size":2}}'),
        (MERGE, b'{"spec":{"nothing":2}}'),
        (APPLY, b'apiVersion: example.com/v1\nkind: Widget\nspec: {size: 1, "size": 2}\n'),
    ],
)
def test_duplicate_and_unknown_fields_of_a_patch_follow_the_field_validation(
    api: Api, content_type: str, patch: bytes
) -> None:
    path, manager = f"{WIDGETS}/a", {"fieldManager": "m"}
    strict = api.send("PATCH", path, patch, {"fieldValidation": "Strict", **manager}, content_type)
    assert strict.status == (400 if content_type == APPLY else 422)
    assert api.send("PATCH", path, patch, manager, content_type).headers["warning"].startswith("299 - ")
    silent = api.send("PATCH", path, patch, {"fieldValidation": "Ignore", **manager}, content_type)
    assert (silent.status, silent.headers.get("warning")) == (200, None)


@pytest.mark.rule("api-47", "api-50")
def test_a_patch_may_not_remove_the_version_of_a_custom_object(api: Api) -> None:
    patch = {"metadata": {"resourceVersion": None}, "spec": {"size": 1}}
    answer = api.send("PATCH", f"{WIDGETS}/a", patch, content_type=MERGE)
    assert answer.causes == [(INVALID, "metadata.resourceVersion")]
    assert api.send("PATCH", f"{CONFIG_MAPS}/a", {**patch, "spec": None}, content_type=MERGE).status == 200


@pytest.mark.rule("api-42", "api-43")
def test_an_update_repeats_each_metadata_fault_as_often_as_a_real_server(api: Api) -> None:
    patch = {"metadata": {"labels": {"a": "not valid!"}}}
    custom = api.send("PATCH", f"{WIDGETS}/a", patch, content_type=MERGE)
    assert custom.causes == [(INVALID, "metadata.labels")] * 3
    built_in = api.send("PATCH", f"{CONFIG_MAPS}/a", patch, content_type=MERGE)
    assert built_in.causes == [(INVALID, "metadata.labels")] * 4


@pytest.mark.rule("api-43")
def test_an_incomplete_owner_is_reported_by_field_and_events_cannot_own(api: Api) -> None:
    answer = api.send("POST", WIDGETS, widget("b", ownerReferences=[{"apiVersion": "v1", "kind": "Event"}]))
    assert sorted(answer.causes) == [
        (INVALID, "metadata.ownerReferences"),
        (INVALID, "metadata.ownerReferences.name"),
        (INVALID, "metadata.ownerReferences.uid"),
    ]


@pytest.mark.rule("api-44")
def test_faults_of_finalizers_have_their_index_and_the_two_deletion_finalizers_exclude_each_other(
    api: Api,
) -> None:
    answer = api.send("POST", CONFIG_MAPS, config_map("b", finalizers=["example.com/a", "hold"]))
    assert answer.causes == [(INVALID, "metadata.finalizers[1]")]
    answer = api.send("POST", WIDGETS, widget("b", finalizers=["orphan", "foregroundDeletion"]))
    assert answer.causes == [(INVALID, "metadata.finalizers")]


@pytest.mark.rule("api-40", "api-41")
def test_an_invalid_base_for_generated_names_is_reported_beside_the_resulting_name(api: Api) -> None:
    body = widget()
    body["metadata"] = {"generateName": "Not_valid-"}
    answer = api.send("POST", WIDGETS, body)
    assert answer.causes == [(INVALID, "metadata.generateName"), (INVALID, "metadata.name")]
    body["metadata"] = {"generateName": "fine-"}
    assert api.send("POST", WIDGETS, body).status == 201


@pytest.mark.rule("api-39")
def test_the_deletion_timestamp_cannot_be_changed(api: Api) -> None:
    marked = api.ok("DELETE", f"{WIDGETS}/a")
    patch = {"metadata": {"deletionTimestamp": "2001-01-01T00:00:00Z"}}
    assert api.merge(f"{WIDGETS}/a", patch)["metadata"] == marked["metadata"]


@pytest.mark.rule("api-27")
def test_an_invalid_object_with_a_version_is_invalid_before_it_is_untidy(api: Api) -> None:
    body = widget("b", spec={"size": -1}, resourceVersion="1")
    assert api.send("POST", WIDGETS, body).status == 422
    body = widget("a", resourceVersion="1")
    assert api.send("POST", WIDGETS, body).status == 500


@pytest.mark.rule("api-28")
def test_the_total_size_of_warnings_is_bounded(api: Api) -> None:
    body = {**config_map("many"), **{f"unknown{number}": 1 for number in range(5000)}, "x" * 9000: 1}
    warning = api.send("POST", CONFIG_MAPS, body).headers["warning"]
    assert warning.startswith('299 - "unknown field ')
    assert len(warning) < 8192
