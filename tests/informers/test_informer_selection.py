"""Whether an object is among those that an informer asks its server for."""

import json
from typing import Any

import pytest

from informers import APIResource, Informer, InformerOptions, Key, Snapshot
from informers.apimachinery.shard_selectors import SHARD_EXAMPLE
from informers.informer_selection import selects

PODS = APIResource("", "v1", "Pod", "pods")


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
    ("selectors", "chosen"),
    [
        ({}, True),
        ({"labels": "tier>3"}, True),
        ({"labels": "tier>4"}, False),
        ({"labels": "app in (web, db), tier"}, True),
        ({"fields": "metadata.name=web"}, True),
        ({"fields": "metadata.name!=web"}, False),
        ({"fields": "metadata.namespace=other"}, False),
        ({"fields": "spec.nodeName=a,status.phase!=Running"}, True),
        ({"fields": "spec.nodeName="}, False),
        ({"fields": "spec.nothing.at.all="}, True),
        ({"shard": "shardRange(object.metadata.uid,'0x0000000000000000','0x10000000000000000')"}, True),
        ({"labels": "app=web", "fields": "metadata.name=db"}, False),
    ],
)
def test_an_object_is_selected_if_every_selector_matches(selectors: dict[str, str], chosen: bool) -> None:
    found = pod({"app": "web", "tier": "4"}, spec={"nodeName": "a"}, status={"phase": "Pending"})
    assert selects(**selectors)(found) is chosen


def test_every_object_is_in_exactly_one_of_two_shards() -> None:
    low = selects(shard=SHARD_EXAMPLE)
    high = selects(shard="shardRange(object.metadata.uid,'0x8000000000000000','0x10000000000000000')")
    named = [pod(metadata={"name": "web", "namespace": "ns", "uid": f"u-{number}"}) for number in range(32)]
    assert [low(one) for one in named] == [not high(one) for one in named]
    assert len({low(one) for one in named}) == 2


def test_a_field_selector_by_name_decodes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked at every event."""
    monkeypatch.delattr(Snapshot, "to_dict")
    assert selects(fields="metadata.name=web,metadata.namespace!=other")(pod())


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"labels": "a=(b"}, "'a=(b' is not a label selector: unable to parse requirement: found '('"),
        ({"labels": "a,,b"}, "'a,,b' is not a label selector: found ',', expected: identifier after ','"),
        ({"fields": "spec.x in (a)"}, "'spec.x in (a)' is not a field selector: invalid selector: "),
        ({"shard": "half of them"}, "invalid shard selector 'half of them': expected bounds of 16"),
    ],
)
def test_text_that_is_not_a_selector_is_refused_with_the_reason(wrong: dict[str, str], problem: str) -> None:
    with pytest.raises(ValueError, match=r".") as refused:
        selects(**wrong)
    assert str(refused.value).startswith(problem)


def test_an_informer_knows_which_objects_it_does_not_cover() -> None:
    options = InformerOptions(namespaces=["ns"], labels="app=web")
    informer = Informer(None, PODS, options=options)  # type: ignore[arg-type]
    assert informer.selects(pod({"app": "web"}))
    assert not informer.selects(pod({"app": "db"}))
    assert not informer.covers("other")
    assert informer.store.get(Key("other", "web")) is None
