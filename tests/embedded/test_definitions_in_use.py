"""Definitions as users have them: several versions, names, columns, fields to select by, and their end."""

import re
from typing import Any

import pytest

from tests.embedded.api_client import DEFINITIONS, Api, definition, events

GROUP = "/apis/shop.example.com"
THINGS = "namespaces/default/things"
AS_TABLE = {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}


def version(name: str, spec: dict[str, Any], **more: Any) -> dict[str, Any]:
    properties = {
        "spec": {"type": "object", "properties": spec},
        "status": {"type": "object", "properties": {"ready": {"type": "integer"}}},
    }
    schema = {"type": "object", "properties": properties}
    made = {"name": name, "served": True, "storage": False, "schema": {"openAPIV3Schema": schema}}
    return {**made, "subresources": {"status": {}}, **more}


def things(*versions: dict[str, Any], **names: Any) -> dict[str, Any]:
    made = definition(
        group="shop.example.com",
        names={"kind": "Thing", "plural": "things", **names},
        versions=list(versions),
    )
    made["metadata"]["name"] = "things.shop.example.com"
    return made


def thing(name: str, api_version: str = "v1", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": f"shop.example.com/{api_version}",
        "kind": "Thing",
        "metadata": {"name": name},
        "spec": spec,
    }


SIZE = {"size": {"type": "integer"}}
STORED = version("v1", SIZE, storage=True)
NEWER = version("v2", {**SIZE, "extra": {"type": "string", "default": "e"}})


@pytest.mark.rule("api-125")
def test_an_object_is_written_by_the_schema_of_its_request_and_kept_by_that_of_the_storage(api: Api) -> None:
    api.ok("POST", DEFINITIONS, things(STORED, NEWER))
    made = api.ok("POST", f"{GROUP}/v2/{THINGS}", thing("a", "v2", size=1, extra="x", more=1))
    assert made["spec"] == {"size": 1}
    older = api.ok("GET", f"{GROUP}/v1/{THINGS}/a")
    assert (older["apiVersion"], older["spec"]) == ("shop.example.com/v1", {"size": 1})
    assert api.ok("GET", f"{GROUP}/v2/{THINGS}/a")["metadata"]["uid"] == older["metadata"]["uid"]
    refused = api.send("POST", f"{GROUP}/v2/{THINGS}", thing("b", "v2", extra=1))
    assert refused.causes == [("FieldValueTypeInvalid", "spec.extra")]
    assert api.send("POST", f"{GROUP}/v2/{THINGS}", thing("b", "v1")).status == 400


@pytest.mark.rule("api-125")
def test_lists_and_watches_speak_the_version_that_they_were_asked_in(api: Api) -> None:
    api.ok("POST", DEFINITIONS, things(STORED, NEWER))
    watches = {name: api.watch(f"{GROUP}/{name}/{THINGS}") for name in ("v1", "v2")}
    for watch in watches.values():
        watch.take()
    api.ok("POST", f"{GROUP}/v1/{THINGS}", thing("a", size=1))
    wanted = {"v1": "shop.example.com/v1", "v2": "shop.example.com/v2"}
    assert {name: events(watch)[0][1]["apiVersion"] for name, watch in watches.items()} == wanted
    listed = {name: api.ok("GET", f"{GROUP}/{name}/{THINGS}")["items"] for name in wanted}
    assert {name: items[0]["apiVersion"] for name, items in listed.items()} == wanted


@pytest.mark.rule("api-125")
def test_a_version_that_objects_were_stored_in_stays_until_it_is_said_that_none_are(api: Api) -> None:
    path = f"{DEFINITIONS}/things.shop.example.com"
    api.ok("POST", DEFINITIONS, things(STORED, NEWER))
    changed = [{**STORED, "storage": False}, {**NEWER, "storage": True}]
    api.merge(path, {"spec": {"versions": changed}})
    assert api.ok("GET", path)["status"]["storedVersions"] == ["v1", "v2"]
    without = {"spec": {"versions": changed[1:]}}
    refused = api.send("PATCH", path, without, content_type="application/merge-patch+json")
    assert refused.causes == [("FieldValueInvalid", "status.storedVersions[0]")]
    api.merge(f"{path}/status", {"status": {"storedVersions": ["v2"]}})
    api.merge(path, without)
    assert api.send("GET", f"{GROUP}/v1/{THINGS}").status == 404


@pytest.mark.rule("api-126")
def test_a_version_that_is_not_served_and_a_wrong_scope_are_not_found(api: Api) -> None:
    api.ok("POST", DEFINITIONS, things(STORED, {**NEWER, "served": False}))
    assert api.send("GET", f"{GROUP}/v2/{THINGS}").status == 404
    assert api.send("POST", f"{GROUP}/v1/things", thing("a")).status in (404, 405)
    assert api.send("GET", f"{GROUP}/v1/things/a").status == 404
    served = api.ok("GET", GROUP)["versions"]
    assert [entry["version"] for entry in served] == ["v1"]


@pytest.mark.rule("api-126")
def test_a_deprecated_version_warns_in_its_own_words_or_in_the_servers(api: Api) -> None:
    old = version("v1beta1", SIZE, deprecated=True)
    oldest = version("v1alpha1", SIZE, deprecated=True, deprecationWarning="use v1")
    api.ok("POST", DEFINITIONS, things(STORED, old, oldest))
    warned = {
        name: api.send("GET", f"{GROUP}/{name}/{THINGS}").headers.get("warning", "")
        for name in ("v1", "v1beta1", "v1alpha1")
    }
    assert warned == {
        "v1": "",
        "v1beta1": '299 - "shop.example.com/v1beta1 Thing is deprecated"',
        "v1alpha1": '299 - "use v1"',
    }


@pytest.mark.rule("api-118")
@pytest.mark.rule("api-119")
def test_objects_are_pruned_defaulted_and_typed_as_the_schema_says(api: Api) -> None:
    spec = {
        "note": {"type": "string", "nullable": True},
        "color": {"type": "string", "default": "red"},
        "port": {"x-kubernetes-int-or-string": True},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "template": {
            "type": "object",
            "x-kubernetes-embedded-resource": True,
            "properties": {"spec": {"type": "object", "properties": SIZE}},
        },
        "env": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name", "kind"],
            "items": {
                "type": "object",
                "required": ["name"],
                "properties": {"name": {"type": "string"}, "kind": {"type": "string", "default": "plain"}},
            },
        },
    }
    api.ok("POST", DEFINITIONS, things(version("v1", spec, storage=True)))
    embedded = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"a": "b"}}}
    given = thing(
        "a",
        note=None,
        color=None,
        port="http",
        free={"any": [{"thing": None}]},
        template={**embedded, "spec": {"size": 1, "gone": 1}},
        env=[{"name": "A"}, {"name": "A", "kind": "secret", "gone": 1}],
        gone=1,
    )
    made = api.ok("POST", f"{GROUP}/v1/{THINGS}", given)
    assert made["spec"] == {
        "note": None,
        "color": "red",
        "port": "http",
        "free": {"any": [{"thing": None}]},
        "template": {**embedded, "spec": {"size": 1}},
        "env": [{"name": "A", "kind": "plain"}, {"name": "A", "kind": "secret"}],
    }
    wrong = thing("b", port=1.5, template={"kind": "Pod"}, env=[{"name": "A"}, {"name": "A"}])
    assert api.send("POST", f"{GROUP}/v1/{THINGS}", wrong).causes == [
        ("FieldValueTypeInvalid", "spec.port"),
        ("FieldValueRequired", "spec.template.apiVersion"),
        ("FieldValueDuplicate", "spec.env[1]"),
    ]


@pytest.mark.rule("api-121")
def test_a_set_refuses_duplicate_items(api: Api) -> None:
    tags = {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}
    api.ok("POST", DEFINITIONS, things(version("v1", {"tags": tags}, storage=True)))
    api.ok("POST", f"{GROUP}/v1/{THINGS}", thing("a", tags=["a", "b"]))
    twice = api.send("POST", f"{GROUP}/v1/{THINGS}", thing("b", tags=["a", "b", "a"]))
    assert twice.causes == [("FieldValueDuplicate", "spec.tags[2]")]


@pytest.mark.rule("api-5")
def test_short_names_and_categories_are_discovered(api: Api) -> None:
    api.ok(
        "POST", DEFINITIONS, things(STORED, shortNames=["th"], categories=["all", "shop"], singular="thing")
    )
    (entry, _) = api.ok("GET", f"{GROUP}/v1")["resources"]
    assert (entry["shortNames"], entry["categories"], entry["singularName"]) == (
        ["th"],
        ["all", "shop"],
        "thing",
    )


@pytest.mark.rule("api-117")
def test_a_short_name_that_is_taken_is_not_accepted_and_the_rest_is_served(api: Api) -> None:
    api.ok("POST", DEFINITIONS, things(STORED, shortNames=["th"]))
    other = things(STORED, kind="Thong", plural="thongs", singular="thong", shortNames=["th", "tg"])
    other["metadata"]["name"] = "thongs.shop.example.com"
    api.ok("POST", DEFINITIONS, other)
    made = api.ok("GET", f"{DEFINITIONS}/thongs.shop.example.com")
    conditions = {item["type"]: (item["status"], item["reason"]) for item in made["status"]["conditions"]}
    assert conditions["NamesAccepted"] == ("False", "ShortNamesConflict")


@pytest.mark.rule("api-124")
def test_columns_show_counts_dates_and_what_is_missing(api: Api) -> None:
    columns = [
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
        {"name": "Ready", "type": "integer", "jsonPath": ".status.ready", "priority": 1},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        {"name": "Up", "type": "string", "jsonPath": '.status.conditions[?(@.type=="Up")].status'},
    ]
    api.ok("POST", DEFINITIONS, things({**STORED, "additionalPrinterColumns": columns}))
    api.ok("POST", f"{GROUP}/v1/{THINGS}", thing("a", size=3))
    api.clock.advance(120)
    table = api.ok("GET", f"{GROUP}/v1/{THINGS}", **AS_TABLE)
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Size", "Ready", "Age", "Up"]
    assert [column["priority"] for column in table["columnDefinitions"]] == [0, 0, 1, 0, 0]
    assert table["rows"][0]["cells"] == ["a", 3, None, "2m", None]


@pytest.mark.rule("api-97")
def test_selectable_fields_select_lists_and_watches(api: Api) -> None:
    api.ok("POST", DEFINITIONS, things({**STORED, "selectableFields": [{"jsonPath": ".spec.size"}]}))
    for name, size in (("a", 1), ("b", 2)):
        api.ok("POST", f"{GROUP}/v1/{THINGS}", thing(name, size=size))
    listed = api.ok("GET", f"{GROUP}/v1/{THINGS}", query={"fieldSelector": "spec.size=2"})["items"]
    assert [item["metadata"]["name"] for item in listed] == ["b"]
    watch = api.watch(f"{GROUP}/v1/{THINGS}", fieldSelector="spec.size=2")
    watch.take()
    api.merge(f"{GROUP}/v1/{THINGS}/a", {"spec": {"size": 2}})
    assert [(kind, obj["metadata"]["name"]) for kind, obj in events(watch)] == [("ADDED", "a")]
    refused = api.send("GET", f"{GROUP}/v1/{THINGS}", query={"fieldSelector": "spec.color=red"})
    assert (refused.status, refused.body["message"]) == (400, "field label not supported: spec.color")


@pytest.mark.rule("api-127")
def test_a_definition_waits_for_the_finalizers_of_its_objects(api: Api) -> None:
    api.ok("POST", DEFINITIONS, things(STORED))
    held = thing("held")
    held["metadata"]["finalizers"] = ["example.com/held"]
    api.ok("POST", f"{GROUP}/v1/{THINGS}", held)
    api.ok("DELETE", f"{DEFINITIONS}/things.shop.example.com")
    api.server.settle()
    ending = api.ok("GET", f"{DEFINITIONS}/things.shop.example.com")
    assert ending["metadata"]["finalizers"] == ["customresourcecleanup.apiextensions.k8s.io"]
    assert any(
        item["type"] == "Terminating" and item["status"] == "True" for item in ending["status"]["conditions"]
    )
    refused = api.send("POST", f"{GROUP}/v1/{THINGS}", thing("late"))
    assert refused.status in (403, 405), refused.body
    assert re.search("terminating|deleted", refused.body["message"])
    api.merge(f"{GROUP}/v1/{THINGS}/held", {"metadata": {"finalizers": None}})
    api.server.settle()
    assert api.send("GET", f"{DEFINITIONS}/things.shop.example.com").status == 404
    assert api.send("GET", f"{GROUP}/v1/{THINGS}").status == 404
    assert "shop.example.com" not in [group["name"] for group in api.ok("GET", "/apis")["groups"]]


@pytest.mark.rule("api-129")
def test_a_new_schema_holds_for_the_next_write_and_reads_old_objects(api: Api) -> None:
    api.ok("POST", DEFINITIONS, things(version("v1", {"size": {"type": "string"}}, storage=True)))
    api.ok("POST", f"{GROUP}/v1/{THINGS}", thing("a", size="three"))
    api.merge(f"{DEFINITIONS}/things.shop.example.com", {"spec": {"versions": [STORED]}})
    assert api.ok("GET", f"{GROUP}/v1/{THINGS}/a")["spec"] == {"size": "three"}
    refused = api.send("POST", f"{GROUP}/v1/{THINGS}", thing("b", size="three"))
    assert refused.causes == [("FieldValueTypeInvalid", "spec.size")]
    api.merge(f"{GROUP}/v1/{THINGS}/a", {"metadata": {"labels": {"still": "there"}}})
    assert api.merge(f"{GROUP}/v1/{THINGS}/a", {"spec": {"size": 3}})["spec"] == {"size": 3}
