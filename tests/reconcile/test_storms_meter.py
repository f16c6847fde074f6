"""What is remembered of the writes of each key: from when, when it begins anew, and how much at most."""

from typing import Any

import msgspec
import pytest

from informers import Key, Resource, Snapshot
from reconcile.requests import Cause, Request
from reconcile.run_record import Sent
from reconcile.storms import meter
from reconcile.storms.changes import PATHS_OF_A_WRITE
from reconcile.storms.detection import WINDOW
from reconcile.storms.meter import SPOTS, WARM_SECONDS, Meter

TOYS = Resource("example.com", "v1", "Toy", "toys")
UPDATED = Cause("updated", TOYS, Key("default", "a"), 1)


def toy(version: int = 1, generation: int = 1, uid: str = "u", **spec: Any) -> Snapshot:
    metadata = {"name": "a", "namespace": "default", "uid": uid, "generation": generation}
    metadata["resourceVersion"] = str(version)
    return Snapshot.from_json(msgspec.json.encode({"kind": "Toy", "metadata": metadata, "spec": spec}))


def wrote(here: Meter, now: float, name: str = "a", primary: Snapshot | None = None, **spec: Any) -> bool:
    """One run that wrote its own object; whether the key is warm then."""
    request = Request("default", name)
    base, written = primary or toy(), toy(2, **(spec or {"size": now}))
    here.wrote(request, base, [Sent("PATCH", TOYS, request.key, "", {}, base, written)], [UPDATED], now)
    return here.warm(request) is not None


def test_a_key_is_warm_from_its_second_run_that_writes() -> None:
    here = Meter(TOYS)
    assert (wrote(here, 0), here.any_warm) == (False, False)
    assert (wrote(here, 1), here.any_warm) == (True, True)
    assert here.warm(Request("default", "a")).writes == 1  # type: ignore[union-attr]


@pytest.mark.parametrize(("seconds", "warm"), [(WARM_SECONDS, True), (WARM_SECONDS + 1, False)])
def test_writes_that_are_far_apart_warm_no_key(seconds: float, warm: bool) -> None:
    here = Meter(TOYS)
    wrote(here, 0)
    assert wrote(here, seconds) is warm


@pytest.mark.parametrize(
    ("runs", "seconds", "known"),
    [(1, WARM_SECONDS, True), (1, WARM_SECONDS + 1, False), (2, WINDOW, True), (2, WINDOW + 2, False)],
)
def test_a_key_is_forgotten_when_it_has_not_written_for_a_while(
    runs: int, seconds: float, known: bool
) -> None:
    here = Meter(TOYS)
    for _ in range(runs):
        wrote(here, 0)
    here.quiet(Request("default", "a"), seconds)
    assert bool(here.keys) is known
    assert here.any_warm is (known and runs == 2)


def test_a_run_of_an_unknown_key_that_writes_nothing_leaves_nothing() -> None:
    here = Meter(TOYS)
    here.quiet(Request("default", "a"), 0)
    assert here.keys == {}


@pytest.mark.parametrize(
    ("then", "warm"),
    [
        (toy(generation=1, other=2), True),  # not a change of what is wanted
        (toy(generation=2, size=9), True),  # the field that the key itself writes
        (toy(generation=2, other=2), False),
        (toy(generation=2, uid="another"), False),
    ],
)
def test_a_key_begins_anew_when_somebody_wants_something_else(then: Snapshot, warm: bool) -> None:
    here = Meter(TOYS)
    for second in range(2):
        wrote(here, second)
    assert wrote(here, 2, primary=then) is warm


def test_of_too_many_warm_keys_those_go_that_are_silent_and_then_the_oldest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(meter, "WARM_KEYS", 2)
    here = Meter(TOYS)

    def warm(name: str, now: float) -> list[str]:
        wrote(here, now, name)
        wrote(here, now, name)
        return sorted(request.name for request in here.keys)

    warm("silent", 0)
    assert warm("b", WINDOW) == ["b", "silent"]
    assert warm("c", WINDOW + 1) == ["b", "c"]
    assert warm("d", WINDOW + 1) == ["c", "d"]
    assert here.warm(Request("default", "b")) is None


def test_a_key_that_writes_everywhere_is_remembered_at_so_many_places_and_no_more() -> None:
    here = Meter(TOYS)
    for second in range(5):
        wrote(here, second, **{f"field{second}x{number}": second for number in range(PATHS_OF_A_WRITE)})
    assert len(here.warm(Request("default", "a")).trails) == SPOTS  # type: ignore[union-attr]
