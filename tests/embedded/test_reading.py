"""Lists, watches, selectors and the forms of an answer."""

import anyio
import pytest

from informers import HttpRequest
from reconcile.embedded import InProcessTransport
from reconcile.embedded.log import StoredChange
from reconcile.embedded.verbs.watching import WatchStream
from tests.embedded.api_client import (
    CONFIG_MAPS,
    DEFINITIONS,
    WIDGETS,
    Api,
    config_map,
    definition,
    events,
    names,
    widget,
)
from tests.helpers.tasks import beside

PARTIAL = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"


@pytest.fixture
def api() -> Api:
    made = Api()
    for index, color in enumerate(("red", "green", "blue", "red")):
        labels = {"i": str(index), "parity": "odd" if index % 2 else "even"}
        made.ok("POST", WIDGETS, widget(f"w{index}", spec={"color": color}, labels=labels))
    return made


def listed(api: Api, **query: str) -> list[str]:
    return [item["metadata"]["name"] for item in api.ok("GET", WIDGETS, query=query)["items"]]


@pytest.mark.rule("api-96")
@pytest.mark.parametrize(
    ("selector", "wanted"),
    [
        ("parity=even", ["w0", "w2"]),
        ("i notin (0,1)", ["w2", "w3"]),
        ("missing", []),
        ("missing!=x,i>2", ["w3"]),
    ],
)
def test_label_selectors_select(api: Api, selector: str, wanted: list[str]) -> None:
    assert listed(api, labelSelector=selector) == wanted


def test_a_label_selector_that_cannot_be_read_is_a_bad_request(api: Api) -> None:
    answer = api.send("GET", WIDGETS, query={"labelSelector": "a,,b"})
    assert (answer.status, answer.body["message"]) == (400, "found ',', expected: identifier after ','")


@pytest.mark.rule("api-97")
def test_field_selectors_support_names_and_the_selectable_fields_of_the_definition(api: Api) -> None:
    assert listed(api, fieldSelector="metadata.name!=w1,spec.color=red") == ["w0", "w3"]
    for refused in ("spec.size=1", "metadata.name"):
        assert api.send("GET", WIDGETS, query={"fieldSelector": refused}).status == 400


def test_shards_split_all_objects_without_overlap(api: Api) -> None:
    low = "shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')"
    high = "shardRange(object.metadata.uid, '0x8000000000000000', '0x10000000000000000')"
    halves = [listed(api, shardSelector=half) for half in (low, high)]
    assert sorted(halves[0] + halves[1]) == ["w0", "w1", "w2", "w3"]
    wrong = {"shardSelector": "shardRange(object.metadata.uid, '0x0', '0x1')"}
    assert api.send("GET", WIDGETS, query=wrong).status == 500


@pytest.mark.rule("api-92")
def test_all_pages_of_a_list_have_one_version(api: Api) -> None:
    first = api.ok("GET", WIDGETS, query={"limit": "2"})
    assert first["metadata"]["remainingItemCount"] == 2
    api.merge(f"{WIDGETS}/w3", {"spec": {"color": "green"}})
    api.ok("DELETE", f"{WIDGETS}/w2")
    second = api.ok("GET", WIDGETS, query={"limit": "2", "continue": first["metadata"]["continue"]})
    assert [item["metadata"]["name"] for item in second["items"]] == ["w2", "w3"]
    assert second["items"][1]["spec"]["color"] == "red"
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    assert second["metadata"]["continue"] == ""


@pytest.mark.rule("api-94")
def test_an_expired_page_offers_an_inconsistent_continuation() -> None:
    api = Api(history=3)
    for index in range(4):
        api.ok("POST", WIDGETS, widget(f"w{index}"))
    token = api.ok("GET", WIDGETS, query={"limit": "2"})["metadata"]["continue"]
    for color in ("green", "blue", "grey", "pink"):
        api.merge(f"{WIDGETS}/w0", {"spec": {"color": color}})
    late = api.send("GET", WIDGETS, query={"continue": token})
    assert (late.status, late.body["reason"]) == (410, "Expired")
    assert listed(api, **{"continue": late.body["metadata"]["continue"]}) == ["w2", "w3"]


@pytest.mark.rule("api-90")
def test_a_future_version_times_out_for_a_list_and_is_silent_for_a_watch(api: Api) -> None:
    future = str(api.server.version + 2)
    answer = api.send("GET", WIDGETS, query={"resourceVersion": future})
    assert (answer.status, answer.causes[0][0]) == (504, "ResourceVersionTooLarge")
    assert answer.headers["retry-after"] == "1"
    watch = api.watch(WIDGETS, resourceVersion=future)
    for name in "xyz":
        api.ok("POST", WIDGETS, widget(name))
    assert names(watch) == [("ADDED", "z")]


@pytest.mark.rule("api-88")
def test_items_of_built_in_lists_omit_the_kind_and_an_empty_list_is_a_list(api: Api) -> None:
    assert api.ok("GET", CONFIG_MAPS)["items"] == []
    api.ok("POST", CONFIG_MAPS, config_map())
    [item] = api.ok("GET", CONFIG_MAPS)["items"]
    assert "kind" not in item
    assert api.ok("GET", WIDGETS)["items"][0]["kind"] == "Widget"


@pytest.mark.rule("api-104")
def test_a_watch_without_a_version_starts_with_the_existing_objects(api: Api) -> None:
    watch = api.watch(WIDGETS)
    api.ok("DELETE", f"{WIDGETS}/w1")
    assert names(watch) == [("ADDED", f"w{i}") for i in range(4)] + [("DELETED", "w1")]


@pytest.mark.rule("api-107")
def test_initial_events_end_with_a_bookmark(api: Api) -> None:
    query = {"sendInitialEvents": "true", "allowWatchBookmarks": "true"}
    assert api.send("GET", WIDGETS, query={"watch": "true", **query}).status == 422
    *added, (kind, mark) = events(api.watch(WIDGETS, resourceVersionMatch="NotOlderThan", **query))
    assert [kind for kind, _ in added] == ["ADDED"] * 4
    assert kind == "BOOKMARK"
    assert mark["metadata"] == {
        "resourceVersion": str(api.server.version),
        "annotations": {"k8s.io/initial-events-end": "true"},
    }


@pytest.mark.rule("api-108")
def test_an_object_that_stops_matching_appears_as_deleted_with_its_old_state_at_the_new_version(
    api: Api,
) -> None:
    watch = api.watch(WIDGETS, resourceVersion=str(api.server.version), labelSelector="parity=odd")
    changed = api.merge(f"{WIDGETS}/w1", {"metadata": {"labels": {"parity": "none"}}})
    [(kind, obj)] = events(watch)
    assert (kind, obj["metadata"]["labels"]["parity"]) == ("DELETED", "odd")
    assert obj["metadata"]["resourceVersion"] == changed["metadata"]["resourceVersion"]


@pytest.mark.rule("api-100")
def test_lists_objects_and_watches_can_be_requested_as_metadata_only(api: Api) -> None:
    one = api.ok("GET", f"{WIDGETS}/w0", accept=PARTIAL)
    assert (one["kind"], one["metadata"]["name"]) == ("PartialObjectMetadata", "w0")
    assert "spec" not in one
    as_list = PARTIAL.replace("Metadata;", "MetadataList;")
    many = api.ok("GET", WIDGETS, accept=as_list)
    assert {item["kind"] for item in many["items"]} == {"PartialObjectMetadata"}
    for path, other in ((WIDGETS, PARTIAL), (f"{WIDGETS}/w0", as_list)):
        assert api.send("GET", path, accept=f"{other},application/json").status == 406
    unknown = "application/json;as=Nothing;v=v1;g=meta.k8s.io,application/json"
    assert api.ok("GET", WIDGETS, accept=unknown)["kind"] == "WidgetList"
    watch = api.raw("GET", WIDGETS, None, {"watch": "1"}, accept=PARTIAL)
    assert isinstance(watch, WatchStream)
    assert all(obj["kind"] == "PartialObjectMetadata" for _, obj in events(watch))


@pytest.mark.rule("api-22")
def test_an_unknown_answer_form_or_content_type_is_refused(api: Api) -> None:
    for path in (WIDGETS, "/apis"):
        assert api.send("GET", path, accept="text/csv").status == 406
    assert api.send("POST", WIDGETS, b"x", content_type="text/plain").status == 415
    strategic = "application/strategic-merge-patch+json"
    assert api.send("PATCH", f"{WIDGETS}/w0", {}, content_type=strategic).status == 415


@pytest.mark.rule("api-129")
def test_a_new_schema_applies_at_once_to_old_objects_and_ends_their_watches(api: Api) -> None:
    watch = api.watch(WIDGETS, resourceVersion=str(api.server.version))
    path = f"{DEFINITIONS}/widgets.example.com"
    place = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/mode"
    patch = [{"op": "add", "path": place, "value": {"type": "string", "default": "auto"}}]
    before = api.send("GET", f"{WIDGETS}/w0").version
    changed = api.ok("PATCH", path, patch, content_type="application/json-patch+json")
    assert changed["metadata"]["generation"] == 2
    read = api.send("GET", f"{WIDGETS}/w0")
    assert (read.body["spec"]["mode"], read.version) == ("auto", before)
    assert watch.take() == []
    assert watch.closed


@pytest.mark.rule("api-117")
def test_a_definition_is_established_at_once_and_one_with_a_name_clash_is_not(api: Api) -> None:
    status = api.ok("GET", f"{DEFINITIONS}/widgets.example.com")["status"]
    assert status["storedVersions"] == ["v1"]
    conditions = {condition["type"]: condition["status"] for condition in status["conditions"]}
    assert conditions == {"NamesAccepted": "True", "Established": "True"}
    api.ok("POST", DEFINITIONS, definition(names={"kind": "Widget", "plural": "wodgets"}))
    clash = api.ok("GET", f"{DEFINITIONS}/wodgets.example.com")["status"]
    assert [condition["status"] for condition in clash["conditions"]] == ["False", "False"]
    assert api.send("GET", WIDGETS.replace("widgets", "wodgets")).status == 404


# --- time, and the way in ---


async def test_a_waiting_reader_wakes_for_its_own_resource_and_at_the_end(api: Api) -> None:
    watch = api.watch(WIDGETS, resourceVersion=str(api.server.version))
    seen: list[str] = []

    async def read() -> None:
        while not watch.closed:
            await watch.wait()
            seen.extend(name for _, name in names(watch))

    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(read)
            await anyio.wait_all_tasks_blocked()
            api.ok("POST", CONFIG_MAPS, config_map())
            await anyio.wait_all_tasks_blocked()
            assert seen == []
            api.ok("POST", WIDGETS, widget("x"))
            await anyio.wait_all_tasks_blocked()
            assert seen == ["x"]
            api.server.close()


def test_a_closed_server_can_still_be_read_and_has_no_listeners(api: Api) -> None:
    told: list[StoredChange] = []
    api.server.log.on_change(told.append)
    api.server.close()
    api.ok("POST", CONFIG_MAPS, config_map())
    assert told == []
    assert api.ok("GET", CONFIG_MAPS)["items"][0]["metadata"]["name"] == config_map()["metadata"]["name"]


async def test_the_transport_calls_the_server_directly_and_settles_if_requested(api: Api) -> None:
    transport = InProcessTransport(api.server, settle=True)
    answer = await transport.request(
        HttpRequest("GET", f"{WIDGETS}/w0", headers={"Accept": "application/json"})
    )
    assert answer.status == 200
    query = {"watch": "true", "resourceVersion": str(api.server.version)}
    async with transport.stream(HttpRequest("GET", WIDGETS, query)) as stream:
        await transport.request(HttpRequest("DELETE", f"{WIDGETS}/w0"))
        assert b'"DELETED"' in await anext(stream.chunks)  # type: ignore[call-overload]
    api.ok("POST", "/api/v1/namespaces", {"metadata": {"name": "going"}})
    await transport.request(HttpRequest("DELETE", "/api/v1/namespaces/going"))
    assert (await transport.request(HttpRequest("GET", "/api/v1/namespaces/going"))).status == 404


@pytest.mark.rule("api-84")
async def test_a_running_server_cleans_up_by_itself(api: Api) -> None:
    with anyio.fail_after(5):
        async with beside(api.server.run):
            await anyio.wait_all_tasks_blocked()
            api.ok("POST", "/api/v1/namespaces", {"metadata": {"name": "going"}})
            api.ok("DELETE", "/api/v1/namespaces/going")
            await anyio.wait_all_tasks_blocked()
            assert api.send("GET", "/api/v1/namespaces/going").status == 404


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ({"labelSelector": "a b"}, 400),
        ({"fieldSelector": "x"}, 400),
        ({"limit": "x"}, 400),
        ({"timeoutSeconds": "x"}, 400),
        ({"fieldSelector": "spec.none=1"}, 422),
        ({}, 422),
    ],
)
@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_list_options_are_read_before_they_are_checked(
    api: Api, method: str, query: dict[str, str], wanted: int
) -> None:
    odd = {"resourceVersion": "1", "resourceVersionMatch": "Odd"}
    assert api.send(method, WIDGETS, query={**odd, **query}).status == wanted
