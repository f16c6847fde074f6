"""Reading: selectors, pages, indexes, subresources, watches, views."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from informers import Key
from reconcile import Client, ObjectMeta, kind_of
from reconcile.client.object_selectors import label_text, parse_labels
from reconcile.errors import Expired, NotCached, NotFound
from reconcile.kinds import ConfigMap, Deployment, LabelRequirement, LabelSelector, Pod
from reconcile.testing import Expire, FakeClient, Fault, FaultPlan, Refuse, When
from tests.client import cached_client
from tests.helpers.deployments import deployment
from tests.helpers.scenarios import simulated

CONFIG = kind_of(ConfigMap).resource
LABELS: dict[str, dict[str, str]] = {
    "a": {"tier": "web", "rank": "1"},
    "b": {"tier": "db", "rank": "20"},
    "c": {"tier": ""},
    "d": {},
}


def config(name: str, namespace: str = "default", **labels: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name, namespace, labels=labels))


def several() -> FakeClient:
    return FakeClient(*(config(name, **labels) for name, labels in LABELS.items()))


def cached(client: FakeClient) -> Client:
    """A client whose cache holds what the server has."""
    reader = cached_client.cached(client, CONFIG)
    assert reader.cache is not None
    reader.cache.informer(CONFIG).store.add_index("tier", lambda snapshot: [snapshot.labels.get("tier")])
    return reader


SELECTORS = [
    ("tier=web", "a"),
    ("tier==web,rank=1", "a"),
    ("tier!=web", "bcd"),
    ("tier in (web, db)", "ab"),
    ("tier notin (web,db)", "cd"),
    ("tier", "abc"),
    ("!tier", "d"),
    ("tier=", "c"),
    ("rank>1", "b"),
    ("rank<5,tier in (web)", "a"),
    ("", "abcd"),
]


@pytest.mark.parametrize(("selector", "found"), SELECTORS)
@pytest.mark.parametrize("where", ["cache", "server"])
async def test_a_label_selector_finds_the_same_objects_in_the_cache_as_on_the_server(
    where: str, selector: str, found: str
) -> None:
    client = several()
    reader = cached(client) if where == "cache" else client
    before = len(client.transport.requests)
    names = sorted(o.name for o in await reader.list(ConfigMap, "default", labels=selector))
    assert "".join(names) == found
    assert len(client.transport.requests) - before == (0 if where == "cache" else 1)


@pytest.mark.parametrize("where", ["cache", "server"])
async def test_a_selector_object_finds_the_same_as_its_text(where: str) -> None:
    client = several()
    reader = cached(client) if where == "cache" else client
    selector = LabelSelector({"rank": "1"}, (LabelRequirement("tier", "In", ("web", "db")),))
    assert [o.name for o in await reader.list(ConfigMap, "default", labels=selector)] == ["a"]
    assert len(await reader.list(ConfigMap, "default", labels=LabelSelector())) == 4


@pytest.mark.parametrize("wrong", ["a in b", "a=b=c", "a (b)", "rank>x", "=b", "a b"])
async def test_an_invalid_label_selector_is_refused_before_it_is_sent(wrong: str) -> None:
    client = several()
    with pytest.raises(ValueError, match=r"label selector"):
        await client.list(ConfigMap, labels=wrong)
    assert client.transport.requests == []


@given(st.dictionaries(st.sampled_from("abc"), st.sampled_from(["", "x", "y"]), max_size=3))
def test_labels_as_a_mapping_and_as_text_mean_the_same(labels: dict[str, str]) -> None:
    assert parse_labels(label_text(labels)) == parse_labels(labels)


async def test_a_field_selector_is_answered_by_the_server_even_if_the_kind_is_cached() -> None:
    client = several()
    found = await cached(client).list(ConfigMap, "default", fields={"metadata.name": "b"})
    assert [o.name for o in found] == ["b"]
    assert client.transport.requests[-1].query["fieldSelector"] == "metadata.name=b"


async def test_an_index_is_read_only_from_the_cache() -> None:
    client = several()
    reader = cached(client)
    assert [o.name for o in await reader.list(ConfigMap, index=("tier", "db"))] == ["b"]
    with pytest.raises(KeyError):
        await reader.list(ConfigMap, index=("nothing", "db"))
    with pytest.raises(NotCached, match="has no index 'tier'"):
        await client.list(ConfigMap, index=("tier", "db"))


async def test_pages_arrive_one_at_a_time_and_show_a_single_state() -> None:
    client = several()
    pages: list[list[str]] = []
    async for page in client.pages(ConfigMap, "default", size=2):
        pages.append([o.name for o in page])
        client.add(config("e")) if len(pages) == 1 else None
    assert pages == [["a", "b"], ["c", "d"]]


async def test_a_list_whose_pages_expire_is_read_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reconcile.client.object_reads.PAGE", 2)
    gone = FaultPlan((Fault(When("list", "*/configmaps", nth=2), Refuse(410, "Expired")),))
    client = FakeClient(*(config(name) for name in "abcd"), plan=gone)
    assert sorted(o.name for o in await client.list(ConfigMap, "default")) == ["a", "b", "c", "d"]
    assert "limit" not in client.transport.requests[-1].query


async def test_a_view_of_a_namespace_reaches_nothing_else() -> None:
    client = FakeClient(config("here", "one"), config("there", "two"))
    view = client.with_options(namespace="one")
    assert [o.name for o in await view.list(ConfigMap)] == ["here"]
    assert (await view.get(ConfigMap, "here")).namespace == "one"
    assert (await view.create(ConfigMap(metadata=ObjectMeta("made")))).namespace == "one"
    for attempt in (
        lambda: view.get(ConfigMap, "there", "two"),
        lambda: view.create(config("x", "two")),
        lambda: view.apply(config("x", "two")),
        lambda: view.list(ConfigMap, "two"),
        lambda: view.modify(ConfigMap, "there", "two", lambda c: c),
    ):
        with pytest.raises(ValueError, match="view of namespace 'one'"):
            await attempt()
    with pytest.raises(ValueError, match="view of namespace 'one'"):
        await view.delete(await client.get(ConfigMap, "there", "two"))


async def test_delete_all_deletes_only_matching_objects_that_exist_now() -> None:
    client = several()
    assert await client.raw.delete_all(ConfigMap, "default", labels={"tier": "web"}) == 1
    assert sorted(o.name for o in await client.list(ConfigMap, "default")) == ["b", "c", "d"]
    assert all(r.body["preconditions"]["uid"] for r in client.transport.writes if r.verb == "delete")
    assert await client.raw.delete_all(ConfigMap, "default") == 3
    assert await client.raw.delete_all(ConfigMap, "default") == 0


async def test_delete_all_skips_objects_that_are_already_being_deleted() -> None:
    client = FakeClient(config("held").with_metadata(finalizers=("example.com/x",)))
    assert await client.raw.delete_all(ConfigMap, "default") == 1
    assert await client.raw.delete_all(ConfigMap, "default") == 0


@simulated
async def test_a_watch_yields_events_bookmarks_and_errors_unchanged() -> None:
    client = FakeClient(config("a"), plan=FaultPlan((Fault(When("watch", nth=2), Expire(1)),)))
    async with client.watch(ConfigMap, "default") as events:
        first = await anext(events)
        client.add(config("b"))
        while (second := await anext(events)).type == "BOOKMARK":
            assert second.object is None
    assert [(e.type, e.object and e.object.name) for e in (first, second)] == [("ADDED", "a"), ("ADDED", "b")]
    with pytest.raises(Expired):
        async with client.watch(ConfigMap, "default", labels={"x": "y"}, since=first.version) as events:
            client.add(config("c", x="y"))
            assert [event.object async for event in events] == []


async def test_a_watch_that_is_refused_is_a_typed_error() -> None:
    client = FakeClient(plan=FaultPlan((Fault(When("watch"), Refuse(404, "NotFound")),)))
    with pytest.raises(NotFound):
        async with client.watch(ConfigMap):
            raise AssertionError("was not refused")


async def test_any_subresource_can_be_read() -> None:
    client = FakeClient(deployment(replicas=3))
    scale = await client.raw.read_subresource(await client.get(Deployment, "d", "default"), "scale")
    assert (scale["kind"], scale["spec"]) == ("Scale", {"replicas": 3})


@pytest.mark.rule("write-5")
@simulated
async def test_two_concurrent_scale_changes_both_count() -> None:
    client = FakeClient(deployment(replicas=3))
    made = await client.get(Deployment, "d", "default")
    path = "/apis/apps/v1/namespaces/default/deployments/d/scale"
    seen: list[int] = []

    def one_more(replicas: int) -> int:
        seen.append(replicas)
        if len(seen) == 1:
            client.request("PATCH", path, {"spec": {"replicas": replicas + 1}})
        return replicas + 1

    assert await client.scale(made, one_more) == 5
    assert seen == [3, 4]
    assert (await client.get(Deployment, "d", "default")).spec.replicas == 5


@simulated
async def test_a_scale_can_be_set_to_zero_and_back_and_left_unchanged() -> None:
    client = FakeClient(deployment(replicas=3))
    made = await client.get(Deployment, "d", "default")
    assert await client.scale(made, lambda _: 0) == 0
    assert await client.scale(made, lambda replicas: replicas + 2) == 2
    before = len(client.transport.writes)
    assert await client.scale(made, lambda replicas: replicas) == 2
    assert len(client.transport.writes) == before


async def test_a_kind_that_is_not_cached_is_read_from_the_server() -> None:
    client = several()
    reader = cached(client)
    assert await reader.find(Pod, "absent", "default") is None
    assert client.transport.requests[-1].path.endswith("/pods/absent")
    assert await reader.raw.snapshot(CONFIG, Key("default", "a")) is not None
