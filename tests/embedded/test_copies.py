"""A server that begins where another one is."""

import pytest

from tests.embedded.api_client import (
    CONFIG_MAPS,
    DEFINITIONS,
    WIDGETS,
    Api,
    StillClock,
    config_map,
    events,
    owned_by,
    widget,
)


@pytest.fixture
def first() -> Api:
    api = Api()
    api.settled("POST", WIDGETS, widget("one"))
    return api


def copy_of(api: Api) -> Api:
    other = Api()
    other.server = api.server.copy(StillClock())
    return other


def test_a_copy_has_the_content_of_its_original_and_continues_its_versions(first: Api) -> None:
    second = copy_of(first)
    assert second.ok("GET", WIDGETS)["items"] == first.ok("GET", WIDGETS)["items"]
    made = second.ok("POST", WIDGETS, widget("two"))
    assert int(made["metadata"]["resourceVersion"]) == first.server.version + 1
    second.server.settle()
    assert second.server.version == first.server.version + 1


def test_changes_to_a_copy_do_not_affect_its_original(first: Api) -> None:
    before, second = first.server.version, copy_of(first)
    second.settled("DELETE", f"{DEFINITIONS}/widgets.example.com")
    assert second.send("GET", WIDGETS).status == 404
    assert len(first.ok("GET", WIDGETS)["items"]) == 1
    assert first.server.version == before


def test_a_copy_collects_dependents_of_owners_from_its_original(first: Api) -> None:
    owner = first.ok("POST", CONFIG_MAPS, config_map("owner"))
    first.settled("POST", CONFIG_MAPS, config_map("child", ownerReferences=owned_by(owner)))
    second = copy_of(first)
    second.settled("DELETE", f"{CONFIG_MAPS}/owner")
    assert second.ok("GET", CONFIG_MAPS)["items"] == []
    assert len(first.ok("GET", CONFIG_MAPS)["items"]) == 2


def test_a_watch_cannot_resume_in_a_copy_from_before_its_creation(first: Api) -> None:
    watch = copy_of(first).watch(WIDGETS, resourceVersion=str(first.server.version - 1))
    assert [(kind, obj["code"]) for kind, obj in events(watch)] == [("ERROR", 410)]
