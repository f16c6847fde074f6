"""What a watch says when nothing happens, and what is only true of some paths; on a virtual clock."""

import anyio
import msgspec
import pytest

from reconcile.embedded import WatchStream
from reconcile.testing import simulate
from tests.embedded.api_client import CONFIG_MAPS, PODS, WIDGETS, Api, config_map, names, pod, widget

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
PARTIAL = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"


async def told(watch: WatchStream) -> list[tuple[float, str]]:
    """All that a watch says until it ends: when, and what."""
    begun, heard = anyio.current_time(), []
    while not watch.closed:
        await watch.wait()
        for line in watch.take():
            heard.append((round(anyio.current_time() - begun, 3), msgspec.json.decode(line)["type"]))
    return heard


def opened(api: Api, accept: str = "application/json", **query: str) -> WatchStream:
    asked = {"watch": "true", "resourceVersion": str(api.server.version), **query}
    watch = api.raw("GET", WIDGETS, None, asked, accept=accept)
    assert isinstance(watch, WatchStream)
    return watch


@pytest.mark.rule("api-106")
def test_bookmarks_come_each_minute_and_two_seconds_before_the_end(api: Api) -> None:
    api.ok("POST", WIDGETS, widget())
    watch = opened(api, allowWatchBookmarks="true", timeoutSeconds="150")
    assert simulate(told, watch) == [(60, "BOOKMARK"), (120, "BOOKMARK"), (148, "BOOKMARK")]
    assert simulate(told, opened(api, timeoutSeconds="150")) == []


def test_the_time_of_a_watch_starts_with_its_first_wait_even_if_that_returns_at_once(api: Api) -> None:
    api.ok("POST", WIDGETS, widget())
    watch = opened(api, resourceVersion="0", timeoutSeconds="5")

    async def slow_reader() -> float:
        await watch.wait()
        assert len(watch.take()) == 1
        await anyio.sleep(4)
        await watch.wait()
        assert watch.closed
        return anyio.current_time()

    assert simulate(slow_reader) == 5


@pytest.mark.rule("api-106")
def test_a_kind_without_writes_gets_no_bookmarks(api: Api) -> None:
    assert simulate(told, opened(api, allowWatchBookmarks="true", timeoutSeconds="150")) == []


@pytest.mark.rule("api-106", "api-100")
@pytest.mark.parametrize(
    ("accept", "kind", "members"),
    [
        ("application/json", "Widget", {"kind", "apiVersion", "metadata"}),
        (PARTIAL, "PartialObjectMetadata", {"kind", "apiVersion", "metadata"}),
        (TABLE, "Table", {"kind", "apiVersion", "metadata", "columnDefinitions", "rows"}),
    ],
)
def test_a_bookmark_has_the_requested_form_and_only_a_version(
    api: Api, accept: str, kind: str, members: set[str]
) -> None:
    api.ok("POST", WIDGETS, widget())
    watch = opened(api, accept, allowWatchBookmarks="true", timeoutSeconds="3")

    async def first_line() -> bytes:
        await watch.wait()
        return watch.take()[0]

    bookmark = msgspec.json.decode(simulate(first_line))["object"]
    assert (bookmark["kind"], set(bookmark)) == (kind, members)
    assert bookmark["metadata"] == {"resourceVersion": str(api.server.version)}


@pytest.mark.rule("api-111")
def test_a_negative_timeout_ends_at_once_and_a_missing_one_is_at_least_half_an_hour(api: Api) -> None:
    async def lasts(seconds: str) -> float:
        begun = anyio.current_time()
        await told(opened(api, **({"timeoutSeconds": seconds} if seconds else {})))
        return anyio.current_time() - begun

    assert simulate(lasts, "-5") == 0
    assert simulate(lasts, "7") == 7
    assert 1800 <= simulate(lasts, "", limit_seconds=5000) <= 3600


@pytest.mark.rule("api-101")
def test_without_a_namespace_all_namespaces_are_listed_and_watched(api: Api) -> None:
    watch = api.watch("/api/v1/configmaps", fieldSelector="metadata.namespace!=kube-system")
    for namespace in ("default", "kube-system", "kube-public"):
        api.ok("POST", CONFIG_MAPS.replace("default", namespace), config_map())
    found = api.ok("GET", "/api/v1/configmaps")["items"]
    assert [item["metadata"]["namespace"] for item in found] == ["default", "kube-public", "kube-system"]
    assert names(watch) == [("ADDED", "a")] * 2


@pytest.mark.rule("api-98")
def test_events_are_selected_by_their_involved_object(api: Api) -> None:
    path = "/api/v1/namespaces/default/events"
    for name, kind in (("a", "Pod"), ("b", "Job")):
        about = {"kind": kind, "name": name, "namespace": "default", "uid": f"uid-{name}"}
        api.ok("POST", path, {"metadata": {"name": f"{name}.1"}, "involvedObject": about, "type": "Normal"})
    for selector in (
        "involvedObject.kind=Pod",
        "involvedObject.name=a,involvedObject.namespace=default",
        "involvedObject.uid=uid-a,type=Normal",
    ):
        found = api.ok("GET", path, query={"fieldSelector": selector})["items"]
        assert [item["metadata"]["name"] for item in found] == ["a.1"]


@pytest.mark.rule("api-60")
@pytest.mark.parametrize("subresource", ["log", "exec", "attach", "portforward", "proxy", "proxy/healthz"])
def test_subresources_that_need_a_kubelet_are_refused_by_name(api: Api, subresource: str) -> None:
    api.ok("POST", PODS, pod())
    answer = api.send("GET", f"{PODS}/a/{subresource}")
    assert (answer.status, answer.body["reason"]) == (405, "MethodNotAllowed")
    assert "not supported" in answer.body["message"]
