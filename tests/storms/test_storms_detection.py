"""What a loop is, and what is none, by the writes of one key."""

from collections import deque
from collections.abc import Mapping

import pytest

from informers import Key, Resource
from reconcile import kind_of
from reconcile.kinds import ConfigMap, Secret
from reconcile.storms.changes import ABSENT, PRESENT, WHOLE, Spot
from reconcile.storms.detection import UNMADE, WINDOW, Hit, Loop, Origin, find_loop
from tests.helpers.managers import Toy

CONFIG = kind_of(ConfigMap).resource
CHILD = Key("default", "child")
SPOT = Spot(CONFIG, CHILD, ".data.x")
TOY = (kind_of(Toy).resource, Key("default", "a"))

pytestmark = pytest.mark.rule("storm-found")


def hits(origin: Origin, values: str, every: float = 1.0, made: bool = False) -> deque[Hit]:
    return deque(Hit(number * every, origin, ord(value), made) for number, value in enumerate(values))


def mixed(values: str, *parts: tuple[Origin, int]) -> deque[Hit]:
    origins = [origin for origin, count in parts for _ in range(count)]
    return deque(
        Hit(float(at), origin, ord(values[at % len(values)]), False) for at, origin in enumerate(origins)
    )


def kind_at(spot: Spot, trail: deque[Hit], primary: tuple[Resource, Key] | None = None) -> str | None:
    loop = find_loop({spot: trail}, trail[-1].at, primary)
    return None if loop is None else loop.kind


@pytest.mark.parametrize(
    ("trail", "kind"),
    [
        (hits("echo", "abcdefgh"), "rewritten"),
        (hits("own", "abcdefghijkl"), "rewritten"),
        (mixed("abcdefghijkl", ("echo", 6), ("own", 6)), "rewritten"),
        (hits("reverted", "aaaaaa"), "fought"),
        (hits("reverted", "abcabc"), "fought"),
        (hits("timed", "abababab"), "flipping"),
        (hits("other", "abababab"), "flipping"),
        (hits("echo", "abcdefg"), None),
        (hits("own", "abcdefghijk"), None),
        (mixed("abcdefghijkl", ("echo", 6), ("own", 5)), None),
        (hits("timed", "abababa"), None),
        (hits("reverted", "ababa"), None),
        (hits("echo", "abcdefgh", made=True), None),
        (hits("own", "abcdefghijkl", made=True), None),
        (hits("reverted", "abcdefgh"), None),
        (hits("timed", "abcdefghijklmnop"), None),
        (hits("other", "abcdefghijklmnop"), None),
        (hits("retried", "abababababab"), None),
        (hits("timed", "abababab", every=200.0), None),
    ],
)
def test_a_loop_is_writes_that_wake_themselves_are_undone_or_go_round(
    trail: deque[Hit], kind: str | None
) -> None:
    assert kind_at(SPOT, trail) == kind


@pytest.mark.parametrize(("seconds", "kind"), [(WINDOW, None), (WINDOW - 1, "flipping")])
def test_what_is_as_old_as_the_window_is_over(seconds: float, kind: str | None) -> None:
    trail = deque([*hits("timed", "a"), *(Hit(seconds, "timed", ord(value), False) for value in "bababab")])
    assert kind_at(SPOT, trail) == kind


def unmade(
    origins: tuple[Origin, Origin], count: int, resource: Resource = CONFIG
) -> Mapping[Spot, deque[Hit]]:
    turn = deque([Hit(1.0, origins[0], PRESENT, True), Hit(2.0, origins[1], ABSENT, True)])
    return {Spot(resource, Key("default", f"v{number}"), WHOLE): turn for number in range(count)}


@pytest.mark.parametrize("origins", [("own", "own"), ("echo", "own"), ("own", "echo"), ("echo", "echo")])
def test_making_objects_and_deleting_them_again_is_a_loop_if_its_own_writes_wake_it(
    origins: tuple[Origin, Origin],
) -> None:
    last = Key("default", f"v{UNMADE - 1}")
    trails = {**unmade(origins, UNMADE - 1, kind_of(Secret).resource), **unmade(origins, UNMADE)}
    assert find_loop(trails, 3.0) == Loop("churning", CONFIG, last, (), UNMADE, 2 * UNMADE)


@pytest.mark.parametrize(
    ("trails", "now"),
    [
        (unmade(("own", "own"), UNMADE - 1), 3.0),
        (unmade(("other", "own"), 16), 3.0),
        (unmade(("own", "other"), 16), 3.0),
        (unmade(("own", "own"), 16), WINDOW + 1.0),  # what was made is as old as the window
        ({spot._replace(path=".data"): trail for spot, trail in unmade(("own", "own"), 16).items()}, 3.0),
    ],
)
def test_making_and_deleting_is_no_loop_where_it_is_seldom_or_somebody_else_wakes_it(
    trails: Mapping[Spot, deque[Hit]], now: float
) -> None:
    assert find_loop(trails, now) is None


@pytest.mark.rule("storm-healthy")
@pytest.mark.parametrize(
    ("spot", "trail", "kind"),
    [
        (Spot(*TOY, ".status.size"), hits("other", "ababababab"), None),
        (Spot(*TOY, ".status.size"), mixed("ab", ("reverted", 5), ("other", 11)), None),
        (Spot(*TOY, ".status.size"), mixed("ab", ("reverted", 5), ("timed", 7)), None),
        (Spot(*TOY, ".status.size"), mixed("ab", ("reverted", 5), ("timed", 8)), "flipping"),
        (Spot(*TOY, ".status.size"), mixed("ab", ("reverted", 6), ("other", 10)), "fought"),
        (Spot(*TOY, ".status.size"), hits("timed", "ababababab"), "flipping"),
        (Spot(*TOY, ".spec.size"), hits("other", "ababababab"), "flipping"),
        (Spot(TOY[0], CHILD, ".status.size"), hits("other", "ababababab"), "flipping"),
        (SPOT, hits("other", "ababababab"), "flipping"),
    ],
)
def test_the_status_of_the_keys_own_object_that_flips_with_other_objects_is_a_report(
    spot: Spot, trail: deque[Hit], kind: str | None
) -> None:
    assert kind_at(spot, trail, TOY) == kind


def test_of_several_loops_the_one_of_most_writes_is_told_and_the_first_of_equals() -> None:
    def at(name: str) -> Spot:
        return SPOT._replace(key=Key("default", name))

    trails = {
        at("progress"): hits("echo", "a"),
        at("less"): hits("timed", "abababab"),
        at("most"): deque([*hits("timed", "abcabcabca"), *hits("retried", "de")]),
        at("equal"): hits("timed", "bababababa"),
    }
    assert find_loop(trails, 10.0) == Loop("flipping", CONFIG, Key("default", "most"), (".data.x",), 3, 10)


def test_fields_of_the_object_that_are_written_half_as_often_as_the_worst_are_named_too() -> None:
    trails = {
        SPOT: hits("echo", "abcdefghij"),
        SPOT._replace(path=".data.b"): hits("echo", "abcde"),
        SPOT._replace(path=".data.a"): hits("echo", "abcdefgh"),
        SPOT._replace(path=".data.seldom"): hits("echo", "abcd"),
        SPOT._replace(path=".data.long-ago"): deque(
            hit._replace(at=9.0 - WINDOW) for hit in hits("echo", "abcde")
        ),
        SPOT._replace(path=WHOLE): hits("echo", "abcdefgh"),
        SPOT._replace(key=Key("default", "another"), path=".data.c"): hits("own", "abcdefgh"),
    }
    assert find_loop(trails, 9.0) == Loop(
        "rewritten", CONFIG, CHILD, (".data.a", ".data.b", ".data.x"), 10, 10
    )


@pytest.mark.parametrize(
    ("loop", "spot", "has"),
    [
        (Loop("rewritten", CONFIG, CHILD, (".data.x",), 1, 8), SPOT, True),
        (Loop("rewritten", CONFIG, CHILD, (), 1, 8), SPOT, True),
        (Loop("rewritten", CONFIG, CHILD, (".data.x",), 1, 8), SPOT._replace(path=".data.y"), False),
        (Loop("rewritten", CONFIG, CHILD, (".data.x",), 1, 8), SPOT._replace(key=Key("default", "c")), False),
        (Loop("rewritten", CONFIG, CHILD, (), 1, 8), SPOT._replace(resource=TOY[0]), False),
        (Loop("churning", CONFIG, CHILD, (), 6, 12), Spot(CONFIG, Key("default", "v99"), WHOLE), True),
        (Loop("churning", CONFIG, CHILD, (), 6, 12), Spot(CONFIG, Key("default", "v99"), ".data"), False),
        (Loop("churning", CONFIG, CHILD, (), 6, 12), Spot(TOY[0], Key("default", "v99"), WHOLE), False),
    ],
)
def test_a_loop_has_the_writes_to_its_fields_and_one_that_churns_those_to_whole_objects_of_its_kind(
    loop: Loop, spot: Spot, has: bool
) -> None:
    assert loop.has(spot) is has
