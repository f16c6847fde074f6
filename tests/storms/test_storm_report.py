"""What people are told of a storm, word for word."""

from typing import Any

import msgspec
import pytest

from informers import Key, Snapshot
from reconcile import Cause, Request
from reconcile.runs.run_record import describe_read
from reconcile.runs.write_events import EndedWrite
from reconcile.storms.detection import LoopKind, WakeLoop
from reconcile.storms.loop_throttle import LoopThrottle
from reconcile.storms.meter import ActiveKey
from reconcile.storms.storm_report import Storm, describe_write, storm_of
from tests.helpers.writes import ended_write
from tests.storms.test_echoes import CONFIG, C, state

REQUEST = Request("default", "a")
END = "; trigger: its own timer; field manager: m; 9 writes in 7 runs without a change of the spec"


def storm(kind: LoopKind, *paths: str, other: str = "", trigger: Cause | None = None) -> Storm:
    loop = WakeLoop(kind, CONFIG, C, paths, 3, 20)
    return Storm(REQUEST, loop, 100.0, "m", other, trigger, LoopThrottle(300.0, 20.0, 130.5), 7, 9)


@pytest.mark.parametrize(
    ("told", "message"),
    [
        (
            storm("rewritten", ".data.x", ".data.y"),
            "woken by its own writes to .data.x, .data.y of ConfigMap default/c",
        ),
        (storm("rewritten"), "woken by its own writes to the object itself of ConfigMap default/c"),
        (
            storm("rewritten", *(f".{n}" for n in "abcde")),
            "woken by its own writes to .a, .b, .c, .d, .e of ConfigMap default/c",
        ),
        (
            storm("rewritten", *(f".{n}" for n in "abcdef")),
            "woken by its own writes to .a, .b, .c, .d, .e and 1 more of ConfigMap default/c",
        ),
        (storm("fought", ".x", other="kubectl"), "in a fight over .x of ConfigMap default/c with kubectl"),
        (storm("fought", ".x"), "in a fight over .x of ConfigMap default/c with another writer"),
        (storm("churning"), "makes objects of kind ConfigMap and deletes them again, of late default/c"),
        (storm("flipping", ".x"), "writes .x of ConfigMap default/c round in a circle of 3"),
    ],
)
def test_each_kind_of_storm_has_its_message(told: Storm, message: str) -> None:
    assert told.message() == message + END


def test_the_state_shows_everything_known_about_a_storm() -> None:
    cause = Cause("updated", CONFIG, Key("default", "b"))
    told = storm("fought", ".x", other="kubectl", trigger=cause)
    shown = {
        "kind": "fought",
        "object": "ConfigMap default/c",
        "paths": [".x"],
        "trigger": "ConfigMap default/b",
        "manager": "m",
        "other_writer": "kubectl",
        "since": 20.123,
        "interval": 20.0,
        "next_run_in": 10.377,
        "message": told.message(),
    }
    assert told.shown(120.1234) == shown
    assert "; trigger: ConfigMap default/b; " in told.message()
    assert told.shown(131.2)["next_run_in"] == 0.0
    assert storm("fought", trigger=Cause("scheduled")).trigger_name() == "its own timer"


ECHO, FOREIGN = Cause("updated", CONFIG, C, 1, echo=True), Cause("updated", CONFIG, C, 2)


@pytest.mark.parametrize(
    ("kind", "echo", "foreign", "other", "trigger"),
    [
        ("fought", ECHO, FOREIGN, "kubectl", FOREIGN),
        ("fought", ECHO, None, "kubectl", None),
        ("flipping", ECHO, FOREIGN, "kubectl", FOREIGN),
        ("flipping", ECHO, None, "kubectl", ECHO),
        ("rewritten", ECHO, FOREIGN, "", ECHO),
        ("rewritten", None, FOREIGN, "", FOREIGN),
        ("churning", None, None, "", None),
    ],
)
def test_the_trigger_and_the_other_writer_depend_on_the_kind_of_storm(
    kind: LoopKind, echo: Cause | None, foreign: Cause | None, other: str, trigger: Cause | None
) -> None:
    active = ActiveKey((CONFIG, C), runs=7, writes=9, echo=echo, foreign=foreign, manager="kubectl")
    loop, throttle = WakeLoop(kind, CONFIG, C, (".x",), 3, 20), LoopThrottle(300.0)
    told = storm_of(REQUEST, loop, active, "m", throttle, 5.0)
    assert (told.request, told.loop, told.since, told.throttle) == (REQUEST, loop, 5.0, throttle)
    assert (told.manager, told.other, told.trigger, told.runs, told.writes) == ("m", other, trigger, 7, 9)


def a_write(
    method: str, base: Snapshot | None, came: Snapshot | None, body: Any = None, **more: Any
) -> EndedWrite:
    return ended_write(method, CONFIG, C, base=base, body=body, written=came, **more)


def ending(version: int, *finalizers: str) -> Snapshot:
    metadata = {
        "name": "c",
        "namespace": "default",
        "uid": "u",
        "resourceVersion": str(version),
        "deletionTimestamp": "2026-01-01T00:00:00Z",
        "finalizers": finalizers,
    }
    return Snapshot.from_json(msgspec.json.encode({"metadata": metadata}))


@pytest.mark.parametrize(
    ("write", "line"),
    [
        (a_write("POST", None, state(5), fresh=True), "create configmaps default/c -> version 5"),
        (
            a_write("PUT", state(4, x="1"), state(5, x="2", y="1")),
            "update configmaps default/c: .data.x, .data.y -> version 5",
        ),
        (a_write("PATCH", state(4), state(5, x="1"), {}), "patch configmaps default/c: .data.x -> version 5"),
        (
            a_write("PATCH", state(4), state(5, x="1"), [{"op": "test"}]),
            "patch configmaps default/c: .data.x -> version 5",
        ),
        (
            a_write("PUT", state(4), state(5, x="1"), {"apiVersion": "v1"}),
            "update configmaps default/c: .data.x -> version 5",
        ),
        (
            a_write("PATCH", state(4), state(5, x="1"), {"apiVersion": "v1"}, subresource="status"),
            "apply configmaps/status default/c: .data.x -> version 5",
        ),
        (a_write("PATCH", state(4), state(4), {}), "patch configmaps default/c: changed nothing"),
        (
            a_write("PATCH", ending(4, "a"), ending(4), {}),
            "patch configmaps default/c: .metadata.finalizers, removed the last one",
        ),
        (
            a_write("PATCH", ending(4, "a"), ending(5), {}),
            "patch configmaps default/c: .metadata.finalizers, removed the last one",
        ),
        (
            a_write("PATCH", ending(4, "a", "b"), ending(5, "b"), {}),
            "patch configmaps default/c: .metadata.finalizers -> version 5",
        ),
        (a_write("PATCH", ending(4, "a"), ending(4, "a"), {}), "patch configmaps default/c: changed nothing"),
        (a_write("DELETE", state(4), None), "delete configmaps default/c"),
        (
            a_write("POST", None, None),
            "create configmaps default/c: refused or without an object for an answer",
        ),
        (a_write("HEAD", None, state(5)), "HEAD configmaps default/c -> version 5"),
    ],
)
def test_a_write_is_described_in_one_line(write: EndedWrite, line: str) -> None:
    assert describe_write(write) == line


def test_a_read_is_described_in_one_line() -> None:
    assert describe_read(CONFIG, C) == "configmaps default/c"
    assert describe_read(CONFIG, None) == "configmaps (list)"
