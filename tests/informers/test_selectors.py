"""Whether an object is among those that an informer asks its server for."""

import json
from typing import Any

import pytest

from informers import Informer, InformerOptions, Key, Resource, Snapshot
from informers.selectors import selects

PODS = Resource("", "v1", "Pod", "pods")


def pod(labels: dict[str, str] | None = None, **more: Any) -> Snapshot:
    metadata = {
        "name": "web",
        "namespace": "ns",
        "uid": "u-1",
        "resourceVersion": "3",
        "labels": labels or {},
    }
    return Snapshot.from_json(json.dumps({"metadata": metadata, **more}).encode())


@pytest.mark.parametrize(
    ("selector", "labels", "chosen"),
    [
        ("", {}, True),
        ("app=web", {"app": "web"}, True),
        ("app==web", {"app": "db"}, False),
        ("app!=web", {}, True),
        ("app!=web", {"app": "web"}, False),
        ("app in (web, db), tier", {"app": "db", "tier": "x"}, True),
        ("app in (web,db)", {}, False),
        ("app notin (web)", {}, True),
        ("app notin (web)", {"app": "web"}, False),
        ("app", {"app": ""}, True),
        ("!app", {"app": ""}, False),
        ("! app,tier=a", {"tier": "a"}, True),
    ],
)
def test_a_label_selector_chooses_as_the_server_does(
    selector: str, labels: dict[str, str], chosen: bool
) -> None:
    assert selects(selector)(pod(labels)) is chosen


@pytest.mark.parametrize(
    ("selector", "chosen"),
    [
        ("metadata.name=web", True),
        ("metadata.name!=web", False),
        ("metadata.namespace=other", False),
        ("spec.nodeName=a,status.phase!=Running", True),
        ("spec.nodeName=", False),
        ("spec.nothing=", True),
        ("spec.hostNetwork=true", True),
    ],
)
def test_a_field_selector_looks_into_the_object(selector: str, chosen: bool) -> None:
    found = pod(spec={"nodeName": "a", "hostNetwork": True}, status={"phase": "Pending"})
    assert selects(fields=selector)(found) is chosen


def test_shards_divide_objects_among_them() -> None:
    halves = [
        selects(shard=f"shardRange(object.metadata.uid,'{start}','{end}')")
        for start, end in (("0x0", "0x8000000000000000"), ("0x8000000000000000", "0x10000000000000000"))
    ]
    assert sorted(half(pod()) for half in halves) == [False, True]
    named = [pod(metadata={"name": "web", "namespace": "ns", "uid": f"u-{number}"}) for number in range(32)]
    assert {half(one) for half in halves for one in named} == {False, True}
    assert [sum(half(one) for half in halves) for one in named] == [1] * 32
    assert len({halves[0](one) for one in named}) == 2


@pytest.mark.parametrize(
    "wrong", [{"labels": "a=(b"}, {"labels": "a>1"}, {"fields": "spec.x in (a)"}, {"shard": "half of them"}]
)
def test_a_selector_that_is_none_is_refused_with_an_example(wrong: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"is no (label|field|shard) selector: "):
        selects(**wrong)


def test_an_informer_knows_what_lies_outside_of_it() -> None:
    options = InformerOptions(namespaces=["ns"], labels="app=web")
    informer = Informer(None, PODS, options=options)  # type: ignore[arg-type]
    assert informer.selects(pod({"app": "web"}))
    assert not informer.selects(pod({"app": "db"}))
    assert not informer.covers("other")
    assert informer.store.get(Key("other", "web")) is None
