"""The laws that webhooks of any kind should keep, and what is said of a function that breaks one."""

import itertools
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import pytest
from attrs import evolve, frozen
from hypothesis import strategies as st

from reconcile import Object, resource
from reconcile.kinds import ConfigMap
from reconcile.models import Schema
from reconcile.testing import kind_laws, laws
from reconcile.testing.kind_laws import Law, LawBroken
from reconcile.webhooks import Admission, Refusal, converts
from tests.testing.shop_operator import ADMISSION, shops
from tests.testing.site_operator import Site, sites
from tests.webhooks.shops import Shop

pytestmark = pytest.mark.rule("kit-laws")


@pytest.mark.parametrize("law", laws(shops(), examples=15), ids=str)
def test_an_operator_with_three_versions_keeps_all_laws(law: Law) -> None:
    report = law()
    assert report.objects >= 10
    assert str(report).startswith(f"{law}: held for ")


def test_a_class_stands_for_its_conversions_and_an_admission_for_its_functions() -> None:
    assert {str(law).partition(":")[0] for law in laws(Shop)} == {
        "Shop v1",
        "ShopBeta v1beta1",
        "ShopAlpha v1alpha1",
    }
    titles = [str(law) for law in laws(ADMISSION) if str(law).startswith("Admission")]
    assert "Admission(Shop): defaults are idempotent" in titles
    assert set(map(str, laws(shops()))) == set(map(str, laws(ADMISSION)))


@pytest.mark.parametrize("subject", [Site, sites(), ConfigMap])
def test_a_kind_without_functions_is_refused_with_the_next_step(subject: Any) -> None:
    with pytest.raises(ValueError, match=r"no function to try: give a class whose versions have @converts"):
        laws(subject)


# --- functions that break a law -------------------------------------------------------------------


@frozen
class LampSpec:
    watts: Annotated[int, Schema(minimum=0, maximum=100)] = 5
    shade: str | None = None
    bulbs: tuple[str, ...] = ()


@frozen
class LampStatus:
    lit: bool = False


@resource("kit.example.com/v1", rules=("!has(self.spec) || !has(self.spec.watts) || self.spec.watts != 13",))
class Lamp(Object):
    spec: LampSpec = LampSpec()
    status: LampStatus = LampStatus()


def with_spec(obj: Lamp, **changes: Any) -> Lamp:
    return evolve(obj, spec=evolve(obj.spec, **changes))


def raise_for_shade(obj: Lamp, request: Any) -> Lamp:
    if obj.spec.shade:
        raise RuntimeError("no shades here")
    return obj


BROKEN_DEFAULTS: dict[str, Callable[[Lamp, Any], Lamp]] = {
    "no function raises": raise_for_shade,
    "defaults are idempotent": lambda obj, request: with_spec(obj, bulbs=(*obj.spec.bulbs, "one")),
    "defaults are valid": lambda obj, request: with_spec(
        obj, watts=13 if obj.spec.watts == 5 else obj.spec.watts
    ),
    "defaults never touch what is set": lambda obj, request: with_spec(obj, watts=max(obj.spec.watts, 2)),
    "defaults keep name, namespace, uid and status": lambda obj, request: Lamp(spec=obj.spec),
}


@pytest.mark.parametrize("promise", BROKEN_DEFAULTS)
def test_defaults_that_break_a_law_are_told_which_with_the_smallest_object(promise: str) -> None:
    with pytest.raises(LawBroken) as broken:
        law_of(Admission(Lamp, defaults=BROKEN_DEFAULTS[promise]), promise)()
    text = str(broken.value)
    assert text.startswith(f"Admission(Lamp): {promise}: does not hold: ")
    assert "found:\n  {\n" in text
    assert "\nnext step: " in text
    assert '"name": "' in text


def test_only_the_field_that_breaks_a_law_is_in_the_smallest_object() -> None:
    touching = Admission(Lamp, defaults=BROKEN_DEFAULTS["defaults never touch what is set"])
    with pytest.raises(LawBroken, match=r"spec.watts is set to 0 and becomes 2") as broken:
        law_of(touching, "defaults never touch what is set")()
    assert "shade" not in str(broken.value)


def test_a_field_that_is_as_its_class_has_it_counts_as_unset() -> None:
    def brighten(obj: Lamp, request: Any) -> Lamp:
        return with_spec(obj, watts=40) if obj.spec.watts == 5 else obj

    law_of(Admission(Lamp, defaults=brighten), "defaults never touch what is set")()


def refuse_any_update(obj: Lamp, old: Lamp | None, request: Any) -> Iterator[Refusal]:
    if old is not None and obj.spec.watts > 7:
        yield Refusal("cannot be changed", "spec.watts")


def test_a_rule_for_changes_that_refuses_an_update_without_one_breaks_a_law() -> None:
    promise = "what may be created may be updated without a change"
    with pytest.raises(LawBroken, match=r"refused: spec.watts: cannot be changed(.|\n)*compare `obj` with"):
        law_of(Admission(Lamp, refuses=refuse_any_update), promise)()


def refuse_much(obj: Lamp, old: Lamp | None, request: Any) -> Iterator[Refusal]:
    if obj.spec.watts > 7:
        yield Refusal("too much", "spec.watts")


def test_what_cannot_be_created_may_be_refused_as_an_update_too() -> None:
    law_of(Admission(Lamp, refuses=refuse_much), "what may be created may be updated without a change")()


def test_objects_that_a_rule_of_the_schema_refuses_are_not_tried() -> None:
    def no_thirteen(obj: Lamp, request: Any) -> Lamp:
        assert obj.spec.watts != 13
        return obj

    law_of(Admission(Lamp, defaults=no_thirteen), "no function raises")()


def test_a_slow_function_is_measured_twice_before_it_breaks_a_law(monkeypatch: pytest.MonkeyPatch) -> None:
    admission = Admission(Lamp, defaults=lambda obj, request: obj)
    busy = itertools.chain([0.005] * 200, itertools.repeat(0.001))
    monkeypatch.setattr(kind_laws, "time", Stopwatch(busy))
    report = law_of(admission, "an answer takes at most 4 ms")()
    assert report.p99 == pytest.approx(0.001)
    monkeypatch.setattr(kind_laws, "time", Stopwatch(itertools.repeat(0.005)))
    with pytest.raises(LawBroken, match=r"5.0 ms of processor time at p99 of \d+ calls, twice \(defaults\)"):
        law_of(admission, "an answer takes at most 4 ms")()


class Stopwatch:
    """Every second reading is later by the next of these times."""

    def __init__(self, times: Iterator[float]) -> None:
        self._times = times
        self._now = 0.0
        self._running = False

    def thread_time(self) -> float:
        if self._running:
            self._now += next(self._times)
        self._running = not self._running
        return self._now


# --- conversions that break a law -----------------------------------------------------------------


@frozen
class TapSpec:
    flow: int = 1
    note: str | None = None


@frozen
class OlderTapSpec:
    speed: Annotated[int, Schema(maximum=9)] = 1


@resource("kit.example.com/v1")
class Tap(Object):
    spec: TapSpec = TapSpec()


@resource("kit.example.com/v1beta1", kind="Tap")
class OlderTap(Object):
    spec: OlderTapSpec = OlderTapSpec()


@resource("kit.example.com/v1alpha1", kind="Tap")
class OldestTap(Object):
    spec: OlderTapSpec = OlderTapSpec()


counter = itertools.count()


@converts(Tap, OlderTap)
def tap_down(tap: Tap) -> OlderTap:
    if tap.spec.note == "x":
        raise KeyError(tap.spec.note)
    return OlderTap(spec=OlderTapSpec(tap.spec.flow))


@converts(OlderTap, Tap)
def tap_up(tap: OlderTap) -> Tap:
    return Tap(spec=TapSpec(tap.spec.speed))


@converts(OlderTap, OldestTap)
def older_down(tap: OlderTap) -> OldestTap:
    return OldestTap(spec=tap.spec)


@converts(OldestTap, OlderTap)
def oldest_up(tap: OldestTap) -> OlderTap:
    return OlderTap(spec=OlderTapSpec(min(9, tap.spec.speed + next(counter))))


@converts(Tap, OldestTap)
def leap_down(tap: Tap) -> OldestTap:
    return OldestTap(spec=OlderTapSpec(tap.spec.flow + 1))


@pytest.mark.parametrize(
    ("title", "fault"),
    [
        ("Tap v1: conversion: no function raises", r"v1 to v1beta1 raised KeyError: 'x'"),
        (
            "Tap v1: conversion: the result is valid",
            r"refuses it: spec.speed: .*less than or equal to 9",
        ),
        (
            "Tap v1: conversion: the direct way",
            r"kit.example.com/v1alpha1 by way of kit.example.com/v1beta1: ",
        ),
        ("OldestTap v1alpha1: conversion: every round trip", r"after kit.example.com/v1.* and back, "),
    ],
)
def test_a_conversion_that_breaks_a_law_is_told_which(title: str, fault: str) -> None:
    found = [law for law in laws(Tap, strategies={Tap: taps}, examples=50) if str(law).startswith(title)]
    with pytest.raises(LawBroken, match=fault) as broken:
        found[0]()
    assert "smallest object found:" in str(broken.value)


taps = st.builds(Tap, spec=st.builds(TapSpec, st.integers(0, 30), st.none() | st.sampled_from("xyz")))


def law_of(admission: Admission[Any], promise: str) -> Law:
    (found,) = (law for law in laws(admission, examples=50) if str(law).endswith(promise))
    return found
