"""Definitions as users have them: several versions, names, columns, fields to select by, and their end."""

import pytest

from tests.embedded.api_client import DEFINITIONS, MERGE, Api, events
from tests.embedded.versioned_things import GROUP, collection, thing, things, version

V1 = collection("v1")
V2 = collection("v2")
DEFINED = f"{DEFINITIONS}/things.shop.example.com"
AS_TABLE = {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
STORED = version("v1", "size")
NEWER = version("v2", "size", members={"extra": {"type": "string", "default": "e"}})


@pytest.mark.rule("api-125")
def test_an_object_is_validated_in_the_requested_version_and_stored_in_the_storage_version(api: Api) -> None:
    api.ok("POST", DEFINITIONS, things(STORED, NEWER))
    assert api.ok("POST", V2, thing("v2", "a", size=1, extra="x", more=1))["spec"] == {"size": 1}
    older = api.ok("GET", f"{V1}/a")
    assert (older["apiVersion"], older["spec"]) == ("shop.example.com/v1", {"size": 1})
    assert api.ok("GET", f"{V2}/a")["metadata"]["uid"] == older["metadata"]["uid"]
    refused = api.send("POST", V2, thing("v2", "b", extra=1))
    assert refused.causes == [("FieldValueTypeInvalid", "spec.extra")]
    assert api.send("POST", V2, thing("v1", "b")).status == 400


@pytest.mark.rule("api-125")
def test_lists_and_watches_use_the_requested_version(api: Api) -> None:
    api.ok("POST", DEFINITIONS, things(STORED, NEWER))
    watches = {name: api.watch(collection(name)) for name in ("v1", "v2")}
    for watch in watches.values():
        watch.take()
    api.ok("POST", V1, thing("v1", "a", size=1))
    wanted = {"v1": "shop.example.com/v1", "v2": "shop.example.com/v2"}
    assert {name: events(watch)[0][1]["apiVersion"] for name, watch in watches.items()} == wanted
    listed = {name: api.ok("GET", collection(name))["items"] for name in wanted}
    assert {name: items[0]["apiVersion"] for name, items in listed.items()} == wanted


@pytest.mark.rule("api-125")
def test_a_stored_version_cannot_be_removed_while_it_is_in_stored_versions(api: Api) -> None:
    path = DEFINED
    api.ok("POST", DEFINITIONS, things(STORED, NEWER))
    changed = [{**STORED, "storage": False}, {**NEWER, "storage": True}]
    api.merge(path, {"spec": {"versions": changed}})
    assert api.ok("GET", path)["status"]["storedVersions"] == ["v1", "v2"]
    without = {"spec": {"versions": changed[1:]}}
    refused = api.send("PATCH", path, without, content_type=MERGE)
    assert refused.causes == [("FieldValueInvalid", "status.storedVersions[0]")]
    api.merge(f"{path}/status", {"status": {"storedVersions": ["v2"]}})
    api.merge(path, without)
    assert api.send("GET", V1).status == 404


@pytest.mark.rule("api-126")
def test_a_version_that_is_not_served_and_a_wrong_scope_are_not_found(api: Api) -> None:
    api.ok("POST", DEFINITIONS, things(STORED, {**NEWER, "served": False}))
    assert api.send("GET", V2).status == 404
    assert api.send("POST", f"{GROUP}/v1/things", thing("v1", "a")).status in (404, 405)
    assert api.send("GET", f"{GROUP}/v1/things/a").status == 404
    served = api.ok("GET", GROUP)["versions"]
    assert [entry["version"] for entry in served] == ["v1"]


@pytest.mark.rule("api-126")
def test_a_deprecated_version_warns_with_its_own_text_or_a_default(api: Api) -> None:
    old = version("v1beta1", "size", deprecated=True)
    oldest = version("v1alpha1", "size", deprecated=True, deprecationWarning="use v1")
    api.ok("POST", DEFINITIONS, things(STORED, old, oldest))
    warned = {
        name: api.send("GET", collection(name)).headers.get("warning", "")
        for name in ("v1", "v1beta1", "v1alpha1")
    }
    assert warned == {
        "v1": "",
        "v1beta1": '299 - "shop.example.com/v1beta1 Thing is deprecated"',
        "v1alpha1": '299 - "use v1"',
    }


@pytest.mark.rule("api-5")
def test_short_names_and_categories_are_discovered(api: Api) -> None:
    named = things(STORED, shortNames=["th"], categories=["all", "shop"], singular="thing")
    api.ok("POST", DEFINITIONS, named)
    (entry, _) = api.ok("GET", f"{GROUP}/v1")["resources"]
    named_so = entry["shortNames"], entry["categories"], entry["singularName"]
    assert named_so == (["th"], ["all", "shop"], "thing")


@pytest.mark.rule("api-117")
def test_a_taken_short_name_is_not_accepted_and_the_rest_is_served(api: Api) -> None:
    api.ok("POST", DEFINITIONS, things(STORED, shortNames=["th"]))
    other = things(STORED, kind="Thong", plural="thongs", singular="thong", shortNames=["th", "tg"])
    api.ok("POST", DEFINITIONS, other)
    made = api.ok("GET", f"{DEFINITIONS}/thongs.shop.example.com")
    conditions = {item["type"]: (item["status"], item["reason"]) for item in made["status"]["conditions"]}
    assert conditions["NamesAccepted"] == ("False", "ShortNamesConflict")


@pytest.mark.rule("api-124")
def test_columns_show_counts_dates_and_missing_values(api: Api) -> None:
    columns = [
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
        {"name": "Ready", "type": "integer", "jsonPath": ".status.ready", "priority": 1},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        {"name": "Up", "type": "string", "jsonPath": '.status.conditions[?(@.type=="Up")].status'},
    ]
    api.ok("POST", DEFINITIONS, things({**STORED, "additionalPrinterColumns": columns}))
    api.ok("POST", V1, thing("v1", "a", size=3))
    api.clock.advance(120)
    table = api.ok("GET", V1, **AS_TABLE)
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Size", "Ready", "Age", "Up"]
    assert [column["priority"] for column in table["columnDefinitions"]] == [0, 0, 1, 0, 0]
    assert table["rows"][0]["cells"] == ["a", 3, None, "2m", None]


@pytest.mark.rule("api-97")
def test_selectable_fields_select_lists_and_watches(api: Api) -> None:
    api.ok("POST", DEFINITIONS, things({**STORED, "selectableFields": [{"jsonPath": ".spec.size"}]}))
    for name, size in (("a", 1), ("b", 2)):
        api.ok("POST", V1, thing("v1", name, size=size))
    listed = api.ok("GET", V1, query={"fieldSelector": "spec.size=2"})["items"]
    assert [item["metadata"]["name"] for item in listed] == ["b"]
    watch = api.watch(V1, fieldSelector="spec.size=2")
    watch.take()
    api.merge(f"{V1}/a", {"spec": {"size": 2}})
    assert [(kind, obj["metadata"]["name"]) for kind, obj in events(watch)] == [("ADDED", "a")]
    refused = api.send("GET", V1, query={"fieldSelector": "spec.color=red"})
    assert (refused.status, refused.body["message"]) == (400, "field label not supported: spec.color")


@pytest.mark.rule("api-129")
def test_a_new_schema_applies_to_the_next_write_and_reads_old_objects(api: Api) -> None:
    api.ok("POST", DEFINITIONS, things(version("v1", members={"size": {"type": "string"}})))
    api.ok("POST", V1, thing("v1", "a", size="three"))
    api.merge(DEFINED, {"spec": {"versions": [STORED]}})
    assert api.ok("GET", f"{V1}/a")["spec"] == {"size": "three"}
    refused = api.send("POST", V1, thing("v1", "b", size="three"))
    assert refused.causes == [("FieldValueTypeInvalid", "spec.size")]
    api.merge(f"{V1}/a", {"metadata": {"labels": {"still": "there"}}})
    assert api.merge(f"{V1}/a", {"spec": {"size": 3}})["spec"] == {"size": 3}
