"""What a loop is, and what is none, by the writes of one key."""

from collections import deque
from collections.abc import Mapping

import pytest

from informers import APIResource, Key
from reconcile import kind_of
from reconcile.kinds import ConfigMap, Secret
from reconcile.storms.changes import ABSENT, PRESENT, WHOLE, FieldRef
from reconcile.storms.detection import UNMADE, WINDOW, FieldWrite, WakeLoop, WokenBy, find_loop
from tests.helpers.managers import Toy

CONFIG = kind_of(ConfigMap).resource
CHILD = Key("default", "child")
FIELD = FieldRef(CONFIG, CHILD, ".data.x")
TOY = (kind_of(Toy).resource, Key("default", "a"))

pytestmark = pytest.mark.rule("storm-found")


def field_writes(woken_by: WokenBy, values: str, every: float = 1.0, made: bool = False) -> deque[FieldWrite]:
    return deque(
        FieldWrite(number * every, woken_by, ord(value), made) for number, value in enumerate(values)
    )


def mixed(values: str, *parts: tuple[WokenBy, int]) -> deque[FieldWrite]:
    wakers = [woken_by for woken_by, count in parts for _ in range(count)]
    return deque(
        FieldWrite(float(at), woken_by, ord(values[at % len(values)]), False)
        for at, woken_by in enumerate(wakers)
    )


def kind_at(
    ref: FieldRef, history: deque[FieldWrite], primary: tuple[APIResource, Key] | None = None
) -> str | None:
    loop = find_loop({ref: history}, history[-1].at, primary)
    return None if loop is None else loop.kind


@pytest.mark.parametrize(
    ("history", "kind"),
    [
        (field_writes("echo", "abcdefgh"), "rewritten"),
        (field_writes("own", "abcdefghijkl"), "rewritten"),
        (mixed("abcdefghijkl", ("echo", 6), ("own", 6)), "rewritten"),
        (field_writes("reverted", "aaaaaa"), "fought"),
        (field_writes("reverted", "abcabc"), "fought"),
        (field_writes("timed", "abababab"), "flipping"),
        (field_writes("other", "abababab"), "flipping"),
        (field_writes("echo", "abcdefg"), None),
        (field_writes("own", "abcdefghijk"), None),
        (mixed("abcdefghijkl", ("echo", 6), ("own", 5)), None),
        (field_writes("timed", "abababa"), None),
        (field_writes("reverted", "ababa"), None),
        (field_writes("echo", "abcdefgh", made=True), None),
        (field_writes("own", "abcdefghijkl", made=True), None),
        (field_writes("reverted", "abcdefgh"), None),
        (field_writes("timed", "abcdefghijklmnop"), None),
        (field_writes("other", "abcdefghijklmnop"), None),
        (field_writes("retried", "abababababab"), None),
        (field_writes("timed", "abababab", every=200.0), None),
    ],
)
def test_writes_that_wake_themselves_are_undone_or_repeat_in_a_cycle_are_a_loop(
    history: deque[FieldWrite], kind: str | None
) -> None:
    assert kind_at(FIELD, history) == kind


@pytest.mark.parametrize(("seconds", "kind"), [(WINDOW, None), (WINDOW - 1, "flipping")])
def test_writes_as_old_as_the_window_no_longer_count(seconds: float, kind: str | None) -> None:
    history = deque(
        [
            *field_writes("timed", "a"),
            *(FieldWrite(seconds, "timed", ord(value), False) for value in "bababab"),
        ]
    )
    assert kind_at(FIELD, history) == kind


def unmade(
    wakers: tuple[WokenBy, WokenBy], count: int, resource: APIResource = CONFIG
) -> Mapping[FieldRef, deque[FieldWrite]]:
    turn = deque([FieldWrite(1.0, wakers[0], PRESENT, True), FieldWrite(2.0, wakers[1], ABSENT, True)])
    return {FieldRef(resource, Key("default", f"v{number}"), WHOLE): turn for number in range(count)}


@pytest.mark.parametrize("wakers", [("own", "own"), ("echo", "own"), ("own", "echo"), ("echo", "echo")])
def test_creating_and_deleting_objects_repeatedly_is_a_loop_if_the_keys_own_writes_wake_it(
    wakers: tuple[WokenBy, WokenBy],
) -> None:
    last = Key("default", f"v{UNMADE - 1}")
    histories = {**unmade(wakers, UNMADE - 1, kind_of(Secret).resource), **unmade(wakers, UNMADE)}
    assert find_loop(histories, 3.0) == WakeLoop("churning", CONFIG, last, (), UNMADE, 2 * UNMADE)


@pytest.mark.parametrize(
    ("histories", "now"),
    [
        (unmade(("own", "own"), UNMADE - 1), 3.0),
        (unmade(("other", "own"), 16), 3.0),
        (unmade(("own", "other"), 16), 3.0),
        (unmade(("own", "own"), 16), WINDOW + 1.0),  # what was made is as old as the window
        ({ref._replace(path=".data"): history for ref, history in unmade(("own", "own"), 16).items()}, 3.0),
    ],
)
def test_creating_and_deleting_is_not_a_loop_if_it_is_rare_or_woken_by_others(
    histories: Mapping[FieldRef, deque[FieldWrite]], now: float
) -> None:
    assert find_loop(histories, now) is None


@pytest.mark.rule("storm-healthy")
@pytest.mark.parametrize(
    ("ref", "history", "kind"),
    [
        (FieldRef(*TOY, ".status.size"), field_writes("other", "ababababab"), None),
        (FieldRef(*TOY, ".status.size"), mixed("ab", ("reverted", 5), ("other", 11)), None),
        (FieldRef(*TOY, ".status.size"), mixed("ab", ("reverted", 5), ("timed", 7)), None),
        (FieldRef(*TOY, ".status.size"), mixed("ab", ("reverted", 5), ("timed", 8)), "flipping"),
        (FieldRef(*TOY, ".status.size"), mixed("ab", ("reverted", 6), ("other", 10)), "fought"),
        (FieldRef(*TOY, ".status.size"), field_writes("timed", "ababababab"), "flipping"),
        (FieldRef(*TOY, ".spec.size"), field_writes("other", "ababababab"), "flipping"),
        (FieldRef(TOY[0], CHILD, ".status.size"), field_writes("other", "ababababab"), "flipping"),
        (FIELD, field_writes("other", "ababababab"), "flipping"),
    ],
)
def test_an_own_status_that_flips_with_other_objects_is_a_report_and_not_a_loop(
    ref: FieldRef, history: deque[FieldWrite], kind: str | None
) -> None:
    assert kind_at(ref, history, TOY) == kind


def test_of_several_loops_the_one_with_the_most_writes_or_else_the_first_is_reported() -> None:
    def at(name: str) -> FieldRef:
        return FIELD._replace(key=Key("default", name))

    histories = {
        at("progress"): field_writes("echo", "a"),
        at("less"): field_writes("timed", "abababab"),
        at("most"): deque([*field_writes("timed", "abcabcabca"), *field_writes("retried", "de")]),
        at("equal"): field_writes("timed", "bababababa"),
    }
    assert find_loop(histories, 10.0) == WakeLoop(
        "flipping", CONFIG, Key("default", "most"), (".data.x",), 3, 10
    )


def test_fields_written_at_least_half_as_often_as_the_worst_are_reported_too() -> None:
    histories = {
        FIELD: field_writes("echo", "abcdefghij"),
        FIELD._replace(path=".data.b"): field_writes("echo", "abcde"),
        FIELD._replace(path=".data.a"): field_writes("echo", "abcdefgh"),
        FIELD._replace(path=".data.seldom"): field_writes("echo", "abcd"),
        FIELD._replace(path=".data.long-ago"): deque(
            write._replace(at=9.0 - WINDOW) for write in field_writes("echo", "abcde")
        ),
        FIELD._replace(path=WHOLE): field_writes("echo", "abcdefgh"),
        FIELD._replace(key=Key("default", "another"), path=".data.c"): field_writes("own", "abcdefgh"),
    }
    assert find_loop(histories, 9.0) == WakeLoop(
        "rewritten", CONFIG, CHILD, (".data.a", ".data.b", ".data.x"), 10, 10
    )


@pytest.mark.parametrize(
    ("loop", "ref", "included"),
    [
        (WakeLoop("rewritten", CONFIG, CHILD, (".data.x",), 1, 8), FIELD, True),
        (WakeLoop("rewritten", CONFIG, CHILD, (), 1, 8), FIELD, True),
        (WakeLoop("rewritten", CONFIG, CHILD, (".data.x",), 1, 8), FIELD._replace(path=".data.y"), False),
        (
            WakeLoop("rewritten", CONFIG, CHILD, (".data.x",), 1, 8),
            FIELD._replace(key=Key("default", "c")),
            False,
        ),
        (WakeLoop("rewritten", CONFIG, CHILD, (), 1, 8), FIELD._replace(resource=TOY[0]), False),
        (
            WakeLoop("churning", CONFIG, CHILD, (), 6, 12),
            FieldRef(CONFIG, Key("default", "v99"), WHOLE),
            True,
        ),
        (
            WakeLoop("churning", CONFIG, CHILD, (), 6, 12),
            FieldRef(CONFIG, Key("default", "v99"), ".data"),
            False,
        ),
        (
            WakeLoop("churning", CONFIG, CHILD, (), 6, 12),
            FieldRef(TOY[0], Key("default", "v99"), WHOLE),
            False,
        ),
    ],
)
def test_a_loop_includes_writes_to_its_fields_and_a_churning_one_those_to_whole_objects_of_its_kind(
    loop: WakeLoop, ref: FieldRef, included: bool
) -> None:
    assert loop.includes(ref) is included
