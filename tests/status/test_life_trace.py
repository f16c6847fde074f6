"""An object's life as a trace: what a collector and a viewer get."""

import json
from typing import Any

import anyio
import pytest

from reconcile import Context, Controller, Intent, ObjectMeta
from reconcile.kinds import ConfigMap
from reconcile.status.life_form import read_life
from reconcile.status.life_trace import trace_of
from tests.helpers.lives import a_life, lived
from tests.helpers.managers import Toy, World, played
from tests.helpers.otlp import attributes_of, read_spans


def spans_of(life: dict[str, Any]) -> list[dict[str, Any]]:
    return read_spans(json.dumps(trace_of(read_life(life))))


def test_a_life_is_one_trace_with_a_span_for_each_run_and_each_write() -> None:
    life, first, write, second, secret = spans_of(a_life())
    assert len({span["traceId"] for span in (life, first, write, second, secret)}) == 1
    assert "parentSpanId" not in life
    assert first["parentSpanId"] == second["parentSpanId"] == life["spanId"]
    assert (write["parentSpanId"], secret["parentSpanId"]) == (first["spanId"], second["spanId"])
    assert (life["name"], first["name"], write["name"]) == (
        "Site default/shop",
        "reconcile site",
        "apply Deployment",
    )
    assert first["startTimeUnixNano"] == "1764000000000000000"
    assert write["endTimeUnixNano"] == "1764000000020000000"
    assert attributes_of(write)["reconcile.fields"] == [
        ".spec.replicas: 3 -> 4",
        ".spec.paused: true -> absent",
    ]
    assert attributes_of(life)["reconcile.state"] == "back-off"
    assert life["endTimeUnixNano"] == "1764000120500000000"


def test_a_run_is_linked_to_the_write_that_woke_it_and_to_a_run_of_another_life() -> None:
    _, first, write, second, _ = spans_of(a_life())
    own, other = second["links"]
    assert (own["traceId"], own["spanId"]) == (write["traceId"], write["spanId"])
    assert first["links"] == []
    elsewhere = {**a_life(), "controller": "palette", "kind": "Palette", "key": "default/blue"}
    elsewhere["runs"] = [{**a_life()["runs"][1], "id": "000000ff"}]
    _, theirs, _ = spans_of(elsewhere)
    assert (other["traceId"], other["spanId"]) == (theirs["traceId"], theirs["spanId"])


def test_a_failed_run_has_the_status_of_its_error() -> None:
    _, first, _, second, _ = spans_of(a_life())
    assert first["status"] == {"code": 1}
    assert second["status"] == {"code": 2, "message": "ValueError: no bulb"}
    said = attributes_of(second)
    assert (said["reconcile.at"], said["reconcile.attempt"], said["reconcile.id"]) == (
        "sites.py:12",
        1,
        "0000000b",
    )


def test_a_run_under_way_ends_with_the_export_and_cancelled_runs_are_told_apart() -> None:
    life, run = a_life(), a_life()["runs"][1]
    nameless = {**run, "id": "", "writes": []}
    cancelled = {**nameless, "result": "cancelled", "started": run["started"] - 9}
    life["runs"] = [{**nameless, "result": "running", "ended": None}, cancelled]
    _, older, newer = spans_of(life)
    assert newer["endTimeUnixNano"] == "1764000120500000000"
    assert attributes_of(newer)["reconcile.result"] == "running"
    assert older["spanId"] != newer["spanId"]


def test_writes_of_which_only_words_are_left_are_on_the_span_of_their_run() -> None:
    life = a_life()
    for write in life["runs"][0]["writes"]:
        write |= {"at": None, "seconds": None, "fields": None}
    spans = spans_of(life)
    assert len(spans) == 4
    assert attributes_of(spans[-1])["reconcile.writes"] == [
        "patch secrets default/login: .data.password -> version 15"
    ]


def test_the_life_of_a_real_object_makes_a_trace() -> None:
    async def keep(ctx: Context[Toy]) -> None:
        await ctx.apply(Intent(ConfigMap, metadata=ObjectMeta("child"), data={"size": "1"}))

    async def scenario(world: World) -> None:
        async with lived(world, Controller(Toy, keep, owns=[ConfigMap])) as (_, lives):
            await world.make()
            await anyio.sleep(5)
            life = lives.life_of("toy", "default/a")
        root, first, write, second = spans_of(life)
        assert second["links"][0]["spanId"] == write["spanId"]
        assert int(root["startTimeUnixNano"]) == int(first["startTimeUnixNano"])
        assert int(first["startTimeUnixNano"]) <= int(write["startTimeUnixNano"])

    played(scenario)


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"now": "soon"},
        {"now": 1e300},
        {"now": -1},
        {"runs": [{}]},
        {"why": None},
        {"tree": {"kind": "Site"}},
    ],
)
def test_what_is_no_life_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"form|Expected|required"):
        read_life(json.dumps({**a_life(), **change}))


def test_json_nested_beyond_reading_is_refused() -> None:
    with pytest.raises(ValueError, match="deep"):
        read_life('{"tree":' + '{"kind":"a","key":"b","children":[' * 100_000)


@pytest.mark.parametrize("text", [b"", b"null", b"[]", b"<html>", b'{"now":NaN}'])
def test_what_is_no_json_of_a_life_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        read_life(text)
