"""Conversion that waits: nothing is locked meanwhile, and failures are those of a real server.

The messages are what kube-apiserver 1.36.2 answered (`conversion` of the recordings).
"""

from typing import Any

import anyio
import anyio.lowlevel
import pytest

from reconcile.embedded import ConversionFailed, WatchStream
from tests.embedded.api_client import CONFIG_MAPS, StillClock, config_map, events
from tests.embedded.conversion_world import DEFINED, NEW, OLD, Change, Converting, move_storage
from tests.embedded.versioned_things import collection, thing

UNMANAGED = {"managedFields": [{}]}
"""Without managers in the other version, a write in the stored one needs no conversion."""


@pytest.fixture
def waiting() -> Converting:
    return Converting()


@pytest.fixture
def ready(waiting: Converting) -> Converting:
    waiting.converter.opened.set()
    return waiting


async def test_other_requests_are_answered_while_a_read_or_a_write_waits(waiting: Converting) -> None:
    waiting.make(replicas=3)
    reading = await waiting.begin("GET", f"{OLD}/a")
    writing = await waiting.begin("PATCH", f"{OLD}/a", {"spec": {"note": 1}})
    waiting.api.ok("POST", CONFIG_MAPS, config_map())
    assert waiting.api.ok("GET", f"{NEW}/a")["spec"] == {"replicas": 3}
    assert (await waiting.end(reading))[1]["spec"] == {"size": 3}
    assert (await waiting.end(writing))[1]["spec"] == {"size": 3, "note": 1}
    assert waiting.api.ok("GET", f"{NEW}/a")["spec"] == {"replicas": 3, "note": 1}


async def test_a_create_is_converted_to_the_stored_version_and_back(ready: Converting) -> None:
    status, made = await ready.send("POST", OLD, thing("v1alpha1", size=3))
    assert (status, made["apiVersion"], made["spec"]) == (201, "shop.example.com/v1alpha1", {"size": 3})
    assert ready.api.ok("GET", f"{NEW}/a")["spec"] == {"replicas": 3}
    (there, sent), (back, kept) = ready.converter.asked
    assert (there, back) == ("shop.example.com/v1", "shop.example.com/v1alpha1")
    assert (sent["spec"], kept["spec"]) == ({"size": 3}, {"replicas": 3})
    assert "resourceVersion" not in sent["metadata"] | kept["metadata"]
    assert sent["metadata"]["uid"] == made["metadata"]["uid"]


async def test_every_verb_works_in_the_other_version(ready: Converting) -> None:
    ready.make(replicas=3)
    scaled = await ready.send("PATCH", f"{OLD}/a/scale", {"spec": {"replicas": 4}})
    assert scaled[1]["spec"] == {"replicas": 4}
    assert (await ready.send("GET", f"{OLD}/a/scale"))[1]["spec"] == {"replicas": 4}
    status = await ready.send("PATCH", f"{OLD}/a/status", {"status": {"ready": 1}})
    assert (status[1]["spec"], status[1]["status"]) == ({"size": 4}, {"ready": 1})
    applied = await ready.send(
        "PATCH", f"{OLD}/a", thing("v1alpha1", note=5), kind="application/apply-patch+yaml", fieldManager="m"
    )
    assert applied[1]["spec"] == {"size": 4, "note": 5}
    tried = await ready.send("PUT", f"{OLD}/a", {**applied[1], "spec": {"size": 9}}, dryRun="All")
    assert (tried[1]["spec"], ready.api.ok("GET", f"{NEW}/a")["spec"]["replicas"]) == ({"size": 9}, 4)
    listed = await ready.send("GET", OLD, fieldSelector="spec.size=4")
    assert [item["spec"]["size"] for item in listed[1]["items"]] == [4]
    assert (await ready.send("GET", OLD, fieldSelector="spec.size=3"))[1]["items"] == []
    held = await ready.send("PATCH", f"{OLD}/a", {"metadata": {"finalizers": ["example.com/f"]}})
    deleted = await ready.send("DELETE", f"{OLD}/a")
    assert (deleted[0], deleted[1]["spec"]) == (200, held[1]["spec"])
    assert "deletionTimestamp" in deleted[1]["metadata"]
    await ready.send("PATCH", f"{OLD}/a", {"metadata": {"finalizers": None}})
    assert (await ready.send("DELETE", OLD))[1]["items"] == []
    assert ready.api.send("GET", f"{NEW}/a").status == 404


# --- managers in other versions ----------------------------------------------------------------


async def managed(ready: Converting, path: str) -> list[tuple[str, str, list[str]]]:
    """Manager, version and fields of spec of each entry."""
    _, obj = await ready.send("GET", path)
    return [
        (entry["manager"], entry["apiVersion"].rpartition("/")[2], sorted(entry["fieldsV1"]["f:spec"]))
        for entry in obj["metadata"].get("managedFields", ())
    ]


async def apply(ready: Converting, version: str, manager: str, **spec: int) -> tuple[int, dict[str, Any]]:
    path = f"{collection(version)}/a"
    kind = "application/apply-patch+yaml"
    answer: tuple[int, dict[str, Any]] = await ready.send(
        "PATCH", path, thing(version, **spec), kind=kind, fieldManager=manager
    )
    return answer


async def test_a_write_takes_a_field_from_its_manager_in_another_version(ready: Converting) -> None:
    await apply(ready, "v1alpha1", "old", size=1, note=1)
    await ready.send("PATCH", f"{NEW}/a", {"spec": {"replicas": 2}}, fieldManager="new")
    assert await managed(ready, f"{NEW}/a") == [
        ("old", "v1alpha1", ["f:note"]),
        ("new", "v1", ["f:replicas"]),
    ]


async def test_a_field_given_up_in_another_version_is_removed_under_its_new_name(ready: Converting) -> None:
    await apply(ready, "v1alpha1", "m", size=1, note=1)
    assert (await apply(ready, "v1", "m", note=1))[1]["spec"] == {"note": 1}
    assert await managed(ready, f"{NEW}/a") == [("m", "v1", ["f:note"])]


async def test_a_field_that_another_version_owns_stays_when_it_is_given_up(ready: Converting) -> None:
    await apply(ready, "v1alpha1", "m", size=1, note=1)
    await apply(ready, "v1", "other", replicas=1)
    assert (await apply(ready, "v1", "m", note=1))[1]["spec"] == {"note": 1, "replicas": 1}


async def test_a_write_in_the_stored_version_goes_on_without_managers_if_conversion_fails(
    ready: Converting,
) -> None:
    await apply(ready, "v1alpha1", "old", size=1)
    ready.converter.change = fail
    status, answer = await ready.send("PATCH", f"{NEW}/a", {"spec": {"replicas": 2}})
    assert (status, answer["spec"], "managedFields" in answer["metadata"]) == (200, {"replicas": 2}, False)


@pytest.mark.parametrize("strategy", ["Webhook", "None"])
async def test_a_manager_in_a_version_that_is_gone_fails_an_apply_and_is_lost_by_an_update(
    ready: Converting, strategy: str
) -> None:
    await apply(ready, "v1alpha1", "old", note=1)
    versions = ready.api.ok("GET", DEFINED)["spec"]["versions"]
    spec: dict[str, Any] = {"versions": versions[1:]}
    if strategy == "None":
        spec["conversion"] = {"strategy": "None", "webhook": None}
    ready.api.merge(DEFINED, {"spec": spec})
    status, answer = await apply(ready, "v1", "new", replicas=1)
    wanted = "request to convert CR to an invalid group/version: shop.example.com/v1alpha1"
    assert (status, answer.get("reason"), answer["message"]) == (500, None, wanted)
    status, answer = await ready.send("PATCH", f"{NEW}/a", {"spec": {"replicas": 2}})
    assert (status, "managedFields" in answer["metadata"]) == (200, False)


# --- changed meanwhile -------------------------------------------------------------------------


async def test_a_patch_applies_to_the_state_left_by_another_write(waiting: Converting) -> None:
    waiting.make(replicas=3)
    writing = await waiting.begin("PATCH", f"{OLD}/a", {"spec": {"note": 1}})
    waiting.api.merge(f"{NEW}/a", {"spec": {"replicas": 4}})
    assert (await waiting.end(writing))[1]["spec"] == {"size": 4, "note": 1}


async def test_a_change_during_the_conversion_before_storage_is_not_overwritten(waiting: Converting) -> None:
    made = waiting.make(replicas=3)

    def change_once(obj: dict[str, Any]) -> None:
        if obj["apiVersion"].endswith("/v1") and obj["spec"].get("note") == 1:
            waiting.converter.change = lambda obj: None
            waiting.api.merge(f"{NEW}/a", {"spec": {"replicas": 4}})

    waiting.converter.opened.set()
    waiting.converter.change = change_once
    assert (await waiting.send("PATCH", f"{OLD}/a", {"spec": {"note": 1}}))[1]["spec"]["size"] == 4
    waiting.converter.change = change_once
    body = {"metadata": {"resourceVersion": waiting.api.ok("GET", f"{NEW}/a")["metadata"]["resourceVersion"]}}
    waiting.api.merge(f"{NEW}/a", {"metadata": UNMANAGED, "spec": {"note": None}})
    status, answer = await waiting.send("PATCH", f"{OLD}/a", {**body, "spec": {"note": 1}})
    assert (status, answer["reason"]) == (409, "Conflict")
    assert made["metadata"]["resourceVersion"] != body["metadata"]["resourceVersion"]


async def test_a_name_taken_or_an_object_deleted_meanwhile_is_noticed(waiting: Converting) -> None:
    creating = await waiting.begin("POST", OLD, thing("v1alpha1", size=1))
    waiting.make(replicas=3)
    assert (await waiting.end(creating))[1]["reason"] == "AlreadyExists"
    waiting.converter.opened = anyio.Event()
    writing = await waiting.begin("PATCH", f"{OLD}/a", {"spec": {"note": 1}})
    waiting.api.ok("DELETE", f"{NEW}/a")
    assert (await waiting.end(writing))[0] == 404


async def test_a_quota_is_checked_again_after_the_wait(waiting: Converting) -> None:
    quota = {"metadata": {"name": "q"}, "spec": {"hard": {"count/things.shop.example.com": "1"}}}
    waiting.api.ok("POST", "/api/v1/namespaces/default/resourcequotas", quota)
    creating = await waiting.begin("POST", OLD, {**thing("v1alpha1", size=1), "metadata": {"name": "b"}})
    waiting.make(replicas=3)
    status, answer = await waiting.end(creating)
    assert (status, "exceeded quota: q" in answer["message"]) == (403, True)


async def test_admission_is_not_repeated_after_the_conversion(ready: Converting) -> None:
    seen: list[str] = []
    ready.api.server.admission.append(lambda request: seen.append(request.operation))
    await ready.send("POST", OLD, thing("v1alpha1", size=1))
    await ready.send("DELETE", f"{OLD}/a")
    assert seen == ["CREATE", "DELETE"]


# --- watches -----------------------------------------------------------------------------------


async def lines(watch: WatchStream, count: int) -> list[tuple[str, dict[str, Any]]]:
    seen: list[tuple[str, dict[str, Any]]] = []
    with anyio.fail_after(5):
        while len(seen) < count:
            await watch.wait()
            seen += events(watch)
    return seen


async def test_a_watch_shows_every_change_in_its_version_and_order(ready: Converting) -> None:
    ready.make(replicas=1)
    watch = await ready.send("GET", OLD, watch="true")
    ready.api.merge(f"{NEW}/a", {"spec": {"replicas": 2}})
    await ready.send("PATCH", f"{OLD}/a", {"metadata": {"labels": {"l": "1"}}})
    ready.api.ok("DELETE", f"{NEW}/a")
    seen = [(kind, obj["apiVersion"][-8:], obj["spec"]["size"]) for kind, obj in await lines(watch, 4)]
    assert [kind for kind, _, _ in seen] == ["ADDED", "MODIFIED", "MODIFIED", "DELETED"]
    assert [rest for _, *rest in seen] == [["v1alpha1", 1], *[["v1alpha1", 2]] * 3]
    watch.close()


async def test_a_watch_is_silent_after_an_object_that_cannot_be_converted(ready: Converting) -> None:
    watch = await ready.send("GET", OLD, watch="true")
    ready.converter.change = fail
    ready.make(replicas=1)
    with anyio.move_on_after(0.02) as silence:
        await watch.wait()
    assert (silence.cancelled_caught, watch.ending) == (True, False)
    ready.converter.change = lambda obj: None
    ready.api.merge(f"{NEW}/a", {"spec": {"replicas": 2}})
    assert [obj["spec"]["size"] for _, obj in await lines(watch, 2)] == [1, 2]
    ready.api.merge(f"{NEW}/a", {"spec": {"replicas": 3}})
    assert watch.take() == []
    watch.close()


# --- failures ----------------------------------------------------------------------------------


def fail(obj: dict[str, Any]) -> None:
    raise ConversionFailed("cannot do that")


def replaced(**values: Any) -> Change:
    return lambda obj: [{**obj, **values}]


def renamed(**values: Any) -> Change:
    return lambda obj: [{**obj, "metadata": {**obj["metadata"], **values}}]


FAILURES: list[tuple[Change, str]] = [
    (fail, "failed: cannot do that"),
    (lambda obj: [], "returned 0 objects, expected 1"),
    (lambda obj: [obj, obj], "returned 2 objects, expected 1"),
    (
        replaced(apiVersion="other.dev/v1"),
        "returned invalid object at index 0: invalid groupVersion (expected shop.example.com/v1alpha1, rece",
    ),
    (
        replaced(kind="Other"),
        "returned invalid object at index 0: invalid kind (expected Thing, received Other)",
    ),
    (renamed(name="other"), "returned invalid object: must have the same name: a != other"),
    (renamed(namespace="o"), "returned invalid object: must have the same namespace: default != o"),
    (replaced(metadata="text"), "returned invalid object: must have the same name: a != "),
    (
        renamed(annotations={"a b": "c"}),
        'returned invalid metadata: metadata.annotation: Invalid value: "a b": name part must consist of',
    ),
    (renamed(labels={"a b": "c d"}), "returned invalid metadata: [metadata.labels: Invalid value: "),
    (renamed(labels={"a": 1}), "returned invalid metadata: "),
]


@pytest.mark.parametrize(("change", "message"), FAILURES)
async def test_a_failure_is_a_500_without_reason_with_the_message_of_a_real_server(
    ready: Converting, change: Change, message: str
) -> None:
    ready.make(replicas=3)
    ready.converter.change = change
    for method, path, body in (
        ("GET", f"{OLD}/a", None),
        ("GET", OLD, None),
        ("PATCH", f"{OLD}/a", {"spec": {"note": 1}}),
        ("DELETE", f"{OLD}/a", None),
    ):
        status, answer = await ready.send(method, path, body)
        assert (status, answer.get("reason")) == (500, None)
        assert answer["message"].startswith(
            f"conversion webhook for shop.example.com/v1, Kind=Thing {message}"
        )
    assert ready.api.ok("GET", f"{NEW}/a")["spec"] == {"replicas": 3}


async def test_a_write_that_cannot_be_converted_is_not_executed(ready: Converting) -> None:
    ready.converter.change = fail
    status, answer = await ready.send("POST", OLD, thing("v1alpha1", size=1))
    wanted = "conversion webhook for shop.example.com/v1alpha1, Kind=Thing failed: cannot do that"
    assert (status, answer["message"]) == (500, wanted)
    assert ready.api.ok("GET", NEW)["items"] == []


async def test_only_labels_and_annotations_are_taken_from_converted_metadata(ready: Converting) -> None:
    ready.make(replicas=3)
    ready.converter.change = renamed(labels={"l": "1"}, finalizers=["x"], generation=77, unknown=1)
    _, read = await ready.send("GET", f"{OLD}/a")
    metadata = read["metadata"]
    assert (metadata["labels"], metadata["generation"]) == ({"l": "1"}, 1)
    assert not {"finalizers", "unknown"} & metadata.keys()


@pytest.mark.parametrize("strategy", ["Webhook", "None"])
async def test_an_object_kept_in_a_version_that_is_no_longer_defined_cannot_be_read(
    ready: Converting, strategy: str
) -> None:
    ready.make(replicas=3)
    old = move_storage(ready.api)
    ready.api.merge(f"{DEFINED}/status", {"status": {"storedVersions": ["v1alpha1"]}})
    ready.api.merge(DEFINED, {"spec": {"versions": [old]}})
    if strategy == "None":
        ready.api.merge(DEFINED, {"spec": {"conversion": {"strategy": "None", "webhook": None}}})
    status, answer = await ready.send("GET", f"{OLD}/a")
    wanted = "request to convert CR from an invalid group/version: shop.example.com/v1"
    assert (status, answer["message"]) == (500, wanted)


async def test_after_a_change_of_the_storage_version_objects_are_converted_from_the_old_one(
    ready: Converting,
) -> None:
    ready.make(replicas=3)
    move_storage(ready.api)
    assert (await ready.send("GET", f"{OLD}/a"))[1]["spec"] == {"size": 3}
    assert (await ready.send("PATCH", f"{OLD}/a", {"spec": {"note": 1}}))[1]["spec"] == {"size": 3, "note": 1}
    assert (await ready.send("GET", f"{NEW}/a"))[1]["spec"] == {"replicas": 3, "note": 1}


async def test_handle_refuses_a_request_that_would_have_to_wait(waiting: Converting) -> None:
    waiting.make(replicas=3)
    answer = waiting.api.send("GET", f"{OLD}/a")
    assert answer.status == 500
    assert "await ApiServer.respond() in place of handle()" in answer.body["message"]


async def test_a_copy_of_a_server_converts_like_its_original(ready: Converting) -> None:
    ready.make(replicas=3)
    ready.api.server = ready.api.server.copy(StillClock())
    assert (await ready.send("GET", f"{OLD}/a"))[1]["spec"] == {"size": 3}
