"""Whether an object is among those that an informer asks its server for."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from informers import APIResource, Informer, InformerOptions, Key, Snapshot
from informers.selectors import SHARD_EXAMPLE, selects
from reconcile.embedded.refusals import Failure
from reconcile.embedded.verbs.object_selection import parse_shards

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
    ("selector", "labels", "chosen"),
    [
        ("", {}, True),
        ("app=web", {"app": "web"}, True),
        ("app==web", {"app": "db"}, False),
        ("app!=web", {}, True),
        ("app!=web", {"app": "web"}, False),
        ("app in (web, db), tier", {"app": "db", "tier": "x"}, True),
        ("app in (web, db)", {"app": "web"}, True),
        ("app in (web,db)", {"app": "db"}, True),
        ("app in (web,db)", {"app": "web,db"}, False),
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
        ("spec.nothing.at.all=", True),
        ("spec.nodeName.x=", True),
        ("status.phase=Pending", True),
        ("status.phase=pending", False),
        ("spec.hostNetwork=true", True),
    ],
)
def test_a_field_selector_looks_into_the_object(selector: str, chosen: bool) -> None:
    found = pod(spec={"nodeName": "a", "hostNetwork": True}, status={"phase": "Pending"})
    assert selects(fields=selector)(found) is chosen


def test_shards_divide_objects_among_them() -> None:
    halves = [
        selects(shard=f"shardRange(object.metadata.uid,'{start}','{end}')")
        for start, end in (
            ("0x0000000000000000", "0x8000000000000000"),
            ("0x8000000000000000", "0x10000000000000000"),
        )
    ]
    assert sorted(half(pod()) for half in halves) == [False, True]
    named = [pod(metadata={"name": "web", "namespace": "ns", "uid": f"u-{number}"}) for number in range(32)]
    assert {half(one) for half in halves for one in named} == {False, True}
    assert [sum(half(one) for half in halves) for one in named] == [1] * 32
    assert len({halves[0](one) for one in named}) == 2


def test_a_field_selector_of_names_decodes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked at every event."""
    monkeypatch.delattr(Snapshot, "to_dict")
    assert selects(fields="metadata.name=web,metadata.namespace!=other")(pod())


FOOBAR, A = 0x85944171F73967E8, 0xAF63DC4C8601EC8C
"""The hashes of these texts, from the test vectors of FNV-1a (draft-eastlake-fnv)."""


@pytest.mark.parametrize(
    ("ranges", "chosen"),
    [
        ([("uid", FOOBAR, FOOBAR + 1)], True),
        ([("uid", FOOBAR + 1, 1 << 64)], False),
        ([("uid", 0, FOOBAR)], False),
        ([("namespace", A, A + 1)], True),
        ([("namespace", FOOBAR, FOOBAR + 1)], False),
        ([("uid", 0, 1), ("uid", FOOBAR, FOOBAR + 1)], True),
        ([("uid", 0, 1), ("uid", FOOBAR + 1, FOOBAR + 2)], False),
    ],
)
def test_a_shard_is_a_range_of_hashes_with_its_start_and_without_its_end(
    ranges: list[tuple[str, int, int]], chosen: bool
) -> None:
    found = pod(metadata={"name": "web", "namespace": "a", "uid": "foobar"})
    shard = " || ".join(f"shardRange(object.metadata.{of},'{s:#018x}','{e:#018x}')" for of, s, e in ranges)
    assert selects(shard=shard)(found) is chosen
    assert selects(shard=shard.replace(" ", ""))(found) is chosen


@pytest.mark.parametrize(
    "wrong", [{"labels": "a=(b"}, {"labels": "a>1"}, {"fields": "spec.x in (a)"}, {"shard": "half of them"}]
)
def test_a_selector_that_is_none_is_refused_with_an_example(wrong: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"is no (label|field|shard) selector: "):
        selects(**wrong)


ODD = [
    "0x0",
    "0x8000",
    "0xFFFFFFFFFFFFFFFF",
    "0x00000000000000000",
    f"{1 << 64:#x}",
    f"{1 + (1 << 64):#x}",
    "8",
]
BOUNDS = st.integers(0, 1 << 64).map(lambda bound: f"{bound:#018x}") | st.sampled_from(ODD)
FIELDS = st.sampled_from(["uid", "namespace", "name"])
RANGES = st.builds("shardRange(object.metadata.{},'{}','{}')".format, FIELDS, BOUNDS, BOUNDS)


def is_taken(parse: Callable[[], object], *refusals: type[Exception]) -> bool:
    try:
        parse()
    except refusals:
        return False
    return True


@given(st.lists(RANGES, min_size=1, max_size=3).map(" || ".join))
@example(SHARD_EXAMPLE)
def test_a_shard_is_taken_if_and_only_if_an_api_server_takes_it(shard: str) -> None:
    assert is_taken(lambda: selects(shard=shard), ValueError) is is_taken(
        lambda: parse_shards(shard), Failure
    )


def test_the_shard_that_a_message_recommends_is_one() -> None:
    with pytest.raises(ValueError, match="expected bounds of 16 lower-case hex digits") as refused:
        selects(shard="shardRange(object.metadata.uid,'0x0','0x8000000000000000')")
    recommended = str(refused.value).partition("such as ")[2]
    assert recommended == SHARD_EXAMPLE
    selects(shard=recommended)


def test_an_informer_knows_what_lies_outside_of_it() -> None:
    options = InformerOptions(namespaces=["ns"], labels="app=web")
    informer = Informer(None, PODS, options=options)  # type: ignore[arg-type]
    assert informer.selects(pod({"app": "web"}))
    assert not informer.selects(pod({"app": "db"}))
    assert not informer.covers("other")
    assert informer.store.get(Key("other", "web")) is None
