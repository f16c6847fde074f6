"""A server with something to harm, and what other clients of it know of its state."""

from typing import Any

from reconcile.embedded import ApiServer, WatchStream
from reconcile.embedded.api import ApiRequest
from tests.embedded.api_client import DEFINITIONS, Api, events
from tests.embedded.bad_requests import KINDS, whole_object

Key = tuple[str, str]
State = dict[Key, dict[str, Any]]


def key_of(obj: dict[str, Any]) -> Key:
    return obj["metadata"].get("namespace", ""), obj["metadata"]["name"]


def bare(obj: dict[str, Any]) -> dict[str, Any]:
    """Items of lists of built-in kinds do not say what they are."""
    return {name: value for name, value in obj.items() if name not in ("kind", "apiVersion")}


def state_of(answer: dict[str, Any]) -> State:
    """What a list says."""
    return {key_of(item): bare(item) for item in answer["items"]}


def apply_event(state: State, kind: str, obj: dict[str, Any]) -> None:
    """Take one event of a watch in; what it says must fit what is known."""
    assert kind in ("ADDED", "MODIFIED", "DELETED"), obj
    assert (key_of(obj) in state) is (kind != "ADDED")
    if kind == "DELETED":
        del state[key_of(obj)]
    else:
        state[key_of(obj)] = bare(obj)


def listable() -> list[str]:
    return [path for path in KINDS if "review" not in path]


def furnished() -> Api:
    """A server with an object `a` of most kinds."""
    api = Api()
    for path in listable():
        if path not in ("/api/v1/namespaces", DEFINITIONS):
            api.ok("POST", path, whole_object(path, "a"))
    return api


def replayed(server: ApiServer, path: str, version: int, state: State) -> State:
    """What `state`, the one at `version`, becomes by the log's changes since then."""
    query = {"watch": "true", "resourceVersion": str(version)}
    watch = server.handle(ApiRequest("GET", path, query))
    assert isinstance(watch, WatchStream)
    result = dict(state)
    for kind, obj in events(watch):
        apply_event(result, kind, obj)
    watch.close()
    return result
