"""Events that are written in the words of one group are selected in those of the other."""

import pytest

from tests.embedded.api_client import Api

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
