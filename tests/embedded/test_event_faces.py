"""Events in both groups: each selects what the other wrote, and has rules of its own."""

from typing import Any

import pytest

from tests.embedded.api_client import MERGE, Api

CORE = "/api/v1/namespaces/default/events"
NEW = "/apis/events.k8s.io/v1/namespaces/default/events"


@pytest.mark.rule("api-98")
@pytest.mark.parametrize("selector", ["name=a", "name=a,{}.kind=Pod,{}.uid=uid-a", "uid!=uid-b"])
@pytest.mark.parametrize("written", [CORE, NEW])
@pytest.mark.parametrize("asked", [CORE, NEW])
def test_events_are_selected_by_the_field_names_of_either_group(
    written: str, asked: str, selector: str
) -> None:
    api = Api()
    for name in ("a", "b"):
        about = {"kind": "Pod", "name": name, "namespace": "default", "uid": f"uid-{name}"}
        event = {
            "metadata": {"name": f"{name}.1"},
            "regarding" if written == NEW else "involvedObject": about,
            "reason": "Done",
            "action": "Do",
            "type": "Normal",
            "eventTime": "2026-01-01T00:00:00.000000Z",
            "reportingController" if written == NEW else "reportingComponent": "example.com/test",
            "reportingInstance": "one",
        }
        api.ok("POST", written, event)
    word = "regarding" if asked == NEW else "involvedObject"
    found = api.ok("GET", asked, query={"fieldSelector": f"{word}.{selector}".replace("{}", word)})["items"]
    assert [event["metadata"]["name"] for event in found] == ["a.1"]


def new_event(**more: Any) -> dict[str, Any]:
    event = {
        "metadata": {"name": "e"},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "regarding": {"kind": "Pod", "name": "p", "namespace": "default"},
        "reportingController": "example.com/c",
        "reportingInstance": "i",
        "action": "Do",
        "reason": "Done",
        "type": "Normal",
        "note": "n",
    }
    return event | more


def old_event(**more: Any) -> dict[str, Any]:
    about = {"kind": "Pod", "name": "p", "namespace": "default"}
    return {"metadata": {"name": "e"}, "involvedObject": about, **more}


@pytest.mark.parametrize(
    ("path", "event", "causes"),
    [
        (NEW, new_event(), []),
        (NEW, new_event(eventTime=None), ["Required eventTime"]),
        (NEW, new_event(reportingController="a b"), ["Invalid reportingController"]),
        (NEW, new_event(reportingInstance="i" * 129), ["Invalid reportingInstance"]),
        (NEW, new_event(action="a" * 129), ["Invalid action"]),
        (NEW, new_event(reason=""), ["Required reason"]),
        (NEW, new_event(note="n" * 1025), ["Invalid message"]),
        (NEW, new_event(type="Odd"), ["Invalid type"]),
        (NEW, new_event(series={"count": 1}), ["Invalid series.count", "Required series.lastObservedTime"]),
        (NEW, new_event(deprecatedCount=2), ["Invalid count"]),
        (NEW, new_event(deprecatedFirstTimestamp="2026-01-01T00:00:00Z"), ["Invalid firstTimestamp"]),
        (NEW, new_event(deprecatedSource={"host": "h"}), ["Invalid source"]),
        (NEW, new_event(deprecatedSource={}), []),
        (CORE, old_event(type="Odd", message="m" * 2000, count=3), []),
        (CORE, old_event(involvedObject={"kind": "Node"}), []),
        (CORE, old_event(involvedObject={"namespace": "x"}), ["Invalid involvedObject.namespace"]),
        (CORE, old_event(eventTime="2026-01-01T00:00:00.000000Z"), [
            "Invalid reportingComponent", "Invalid reportingComponent", "Required action",
            "Required reason", "Required reportingComponent", "Required reportingInstance",
        ]),
    ],
)  # fmt: skip
def test_the_new_group_is_stricter_than_the_old_one(
    api: Api, path: str, event: dict[str, Any], causes: list[str]
) -> None:
    answer = api.send("POST", path, {name: value for name, value in event.items() if value is not None})
    found = answer.causes if answer.status == 422 else []
    assert sorted(f"{reason.removeprefix('FieldValue')} {field}" for reason, field in found) == causes


@pytest.mark.parametrize(
    ("change", "causes"),
    [
        ({"series": {"count": 2, "lastObservedTime": "2026-01-01T00:00:00.000000Z"}}, []),
        ({"metadata": {"labels": {"a": "b"}}}, []),
        ({"note": "x"}, ["message"]),
        ({"reason": "x"}, ["reason", "reason"]),
        ({"regarding": {"name": "x"}}, ["involvedObject"]),
        ({"reportingController": "x"}, ["reportingController"]),
    ],
)
def test_an_event_of_the_new_group_is_fixed_but_for_its_series(
    api: Api, change: dict[str, Any], causes: list[str]
) -> None:
    api.ok("POST", NEW, new_event())
    answer = api.send("PATCH", f"{NEW}/e", change, content_type=MERGE)
    found = answer.causes if answer.status == 422 else []
    assert found == [("FieldValueInvalid", field) for field in causes]


def test_an_event_may_change_through_the_old_group(api: Api) -> None:
    api.ok("POST", NEW, new_event())
    api.merge(f"{CORE}/e", {"message": "x"})
    assert api.ok("GET", f"{NEW}/e")["note"] == "x"
