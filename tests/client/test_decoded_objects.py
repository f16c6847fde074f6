"""Decoded objects are shared between reads of one state, and of nothing else."""

import msgspec
import pytest

from informers import Snapshot
from reconcile.client.decoded_objects import BUDGET, DecodedObjects
from reconcile.kinds import ConfigMap
from reconcile.models import unstructured_kind


def snapshot(version: int, name: str = "c", **data: str) -> Snapshot:
    metadata = {"name": name, "namespace": "default", "resourceVersion": str(version)}
    return Snapshot.from_json(msgspec.json.encode({"metadata": metadata, "data": data}))


def test_one_state_is_decoded_once() -> None:
    decoded, state = DecodedObjects(), snapshot(1, a="1")
    assert decoded.of(ConfigMap, state) is decoded.of(ConfigMap, state)


def test_the_answer_to_a_write_and_its_watch_event_are_decoded_once() -> None:
    decoded, answer, news = DecodedObjects(), snapshot(1, a="1"), snapshot(1, a="1")
    assert answer is not news
    assert decoded.of(ConfigMap, news) is decoded.of(ConfigMap, answer)


def test_a_state_that_came_again_is_compared_with_the_former_once(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded, answer, news = DecodedObjects(), snapshot(1, a="1"), snapshot(1, a="1")
    first = decoded.of(ConfigMap, answer)
    assert decoded.of(ConfigMap, news) is first
    monkeypatch.setattr(type(news), "__ne__", lambda *_: pytest.fail("they were compared again"))
    assert decoded.of(ConfigMap, news) is first


def test_an_object_that_is_already_decoded_is_reused_even_if_it_is_not_to_be_kept() -> None:
    decoded, state = DecodedObjects(), snapshot(1, a="1")
    first = decoded.of(ConfigMap, state, keep=False)
    kept = decoded.of(ConfigMap, state)
    assert first is not kept
    assert decoded.of(ConfigMap, state, keep=False) is kept


def test_another_state_of_an_object_is_decoded_again_even_at_the_same_version() -> None:
    decoded = DecodedObjects()
    assert [decoded.of(ConfigMap, snapshot(1, a=value)).data["a"] for value in ("1", "2")] == ["1", "2"]


def test_two_models_of_one_kind_are_kept_separately() -> None:
    decoded, state = DecodedObjects(), snapshot(1, a="1")
    plain = unstructured_kind("v1", "ConfigMap")
    assert isinstance(decoded.of(ConfigMap, state), ConfigMap)
    assert isinstance(decoded.of(plain, state), plain)
    assert decoded.of(plain, state) is not decoded.of(plain, state)


def test_decoded_objects_stay_within_their_budget() -> None:
    decoded, first = DecodedObjects(), snapshot(1, a="x" * 1000)
    known = decoded.of(ConfigMap, first)
    for number in range(BUDGET // 1000 + 1):
        decoded.of(ConfigMap, snapshot(1, f"c-{number}", a="x" * 1000))
    assert sum(len(state.raw) for state, _ in decoded._kept.values()) <= BUDGET
    assert decoded.of(ConfigMap, first) is not known
