"""An operator on kopf is replaced at each of its writes and effects: the world ends as if it had not been.

Each moment of each recorded life under the real kopf is loaded into a server in virtual time. There our
operator takes over; then the spec loses a field, and the object is deleted.
"""

import json
import os
from collections.abc import Iterator, Sequence
from typing import Any

import anyio
import pytest

from reconcile.kinds import ConfigMap
from reconcile.testing import (
    CrashAfter,
    CrashBefore,
    Fault,
    FaultPlan,
    LoseReply,
    RefuseAsStale,
    When,
    simulate,
)
from tests.adoption.kopf_life import LIVES, NAME, PLACE, Life, Moment, live_anew, title
from tests.adoption.migration_play import (
    SERVED,
    SETTLED,
    Play,
    assert_nothing_is_twice,
    assert_nothing_of_kopf_is_left,
    has_lost_a_result,
    is_held,
    is_terminating,
    own_writes,
    predecessor_of,
    see_to_it_and_release,
    without_kopf,
    world_of,
)
from tests.adoption.tenants import Tenant, TenantSpec

IN_FULL = "LABORATORY" in os.environ
FAULTS = (CrashBefore(), CrashAfter(), LoseReply(), RefuseAsStale())
PLAIN = LIVES["plain"]

pytestmark = [pytest.mark.rule("takeover-kopf"), pytest.mark.timeout(600)]

MOMENTS = [(life, number) for life in LIVES.values() for number in range(1, len(life.recorded()) + 1)]


def moment_title(moment: Any) -> str:
    if isinstance(moment, Life):
        return moment.name
    return str(moment)


async def take_over(play: Play, life: Life, kill_after: int = 0) -> None:
    before = {plural: play.stored(plural) for plural in SERVED}
    effects = list(play.accounts.effects)
    async with play.served():
        if kill_after:
            await play.killed_after(kill_after)
        async with play.operated():
            await anyio.sleep(SETTLED)
            if is_held(play.left, life.names):
                assert {plural: play.stored(plural) for plural in SERVED} == before
                assert play.accounts.effects == effects
                await see_to_it_and_release(play)
                await anyio.sleep(SETTLED)
            await end_as_without_kopf(play, life, before["configmaps"])
        assert [play.stored(plural) for plural in SERVED] == [None, None]
        assert play.accounts.opened(NAME) == 0
        assert_nothing_is_twice(play)


async def end_as_without_kopf(play: Play, life: Life, child: dict[str, Any] | None) -> None:
    """Compare with a world without kopf; then have the spec lose a field, and delete the object."""
    assert_nothing_is_twice(play)
    if is_terminating(play.left):
        return
    assert world_of(play) == without_kopf(play.tenant["spec"]["size"])
    assert_nothing_of_kopf_is_left(play, life.names)
    kept = play.stored("configmaps")
    assert kept is not None
    assert child is None or kept["metadata"]["uid"] == child["metadata"]["uid"]
    await play.client.modify(Tenant, NAME, PLACE, lambda found: found.replace(spec=TenantSpec(3, None)))
    await anyio.sleep(SETTLED)
    assert (await play.client.get(ConfigMap, NAME, PLACE)).data == {"size": "3"}
    await play.client.delete(await play.client.get(Tenant, NAME, PLACE))
    await anyio.sleep(SETTLED)


def play_at(life: Life, left: Sequence[Moment], *, finds: bool = False) -> Play:
    for size in (1, 2):
        without_kopf(size)  # a simulation of its own
    return Play(left, predecessor_of(life), finds=finds)


def switched(life: Life, left: Sequence[Moment], kill_after: int = 0) -> None:
    play = play_at(life, left, finds=has_lost_a_result(left, life.names))
    simulate(take_over, play, life, kill_after)


@pytest.mark.parametrize(("life", "number"), MOMENTS, ids=moment_title)
def test_the_switch_ends_as_if_kopf_had_never_been_there(life: Life, number: int) -> None:
    switched(life, life.recorded()[:number])


@pytest.mark.parametrize("kill_after", range(1, 7))
@pytest.mark.parametrize("life", LIVES.values(), ids=moment_title)
def test_a_new_operator_that_dies_in_the_switch_is_followed_by_one_that_goes_on(
    life: Life, kill_after: int
) -> None:
    moments = life.recorded()
    for number in range(1, len(moments) + 1):
        if "last-handled" in title(moments[number - 1]):
            switched(life, moments[:number], kill_after)


def test_only_a_port_that_looks_outside_finds_what_kopf_lost_between_its_last_two_writes() -> None:
    life = LIVES["named"]
    moments = life.recorded()
    (number,) = [
        number
        for number in range(1, len(moments) + 1)
        if "plural" in moments[number - 1] and has_lost_a_result(moments[:number], life.names)
    ]
    for finds in (False, True):
        play = play_at(life, moments[:number], finds=finds)
        simulate(settled, play)
        assert play.accounts.opened(NAME) == (1 if finds else 2)


async def settled(play: Play, plan: FaultPlan | None = None) -> int:
    """Our operator at work, with those faults; the writes that it made."""
    async with play.served(), play.operated(plan) as transport:
        await anyio.sleep(SETTLED)
    return len(own_writes(transport))


# --- faults in the taking over itself ------------------------------------------------------------


def disturbed(life: Life, left: Sequence[Moment]) -> int:
    """Play each fault of each write of the taking over; another operator follows. Returns how many."""
    plays = 0
    for write in range(1, simulate(settled, play_at(life, left, finds=True)) + 1):
        for fault in FAULTS:
            plan = FaultPlan([Fault(When("write", "*/default/*s/a*", nth=write), fault)])
            play = play_at(life, left, finds=True)
            simulate(take_over_despite, play, life, plan)
            plays += 1
    return plays


async def take_over_despite(play: Play, life: Life, plan: FaultPlan) -> None:
    child = play.stored("configmaps")
    async with play.served():
        async with play.operated(plan) as transport:
            await anyio.sleep(SETTLED)
        assert transport.injected
        async with play.operated():
            await anyio.sleep(SETTLED)
            await end_as_without_kopf(play, life, child)
        assert play.accounts.opened(NAME) == 0


def faulted() -> Iterator[tuple[Life, int]]:
    """The moments for which faults are played: the first of each sort, or in full all with writes of ours."""
    for life in LIVES.values():
        moments, sorts = life.recorded(), set()
        for number in range(1, len(moments) + 1):
            left = moments[:number]
            sort = title(moments[number - 1])
            if is_held(left, life.names) or (sort in sorts and not IN_FULL):
                continue
            if "plural" in moments[number - 1] and (IN_FULL or life is PLAIN):
                sorts.add(sort)
                yield life, number


@pytest.mark.parametrize(("life", "number"), list(faulted()), ids=moment_title)
def test_a_fault_at_any_write_of_the_switch_leads_to_the_same_end(life: Life, number: int) -> None:
    left = life.recorded()[:number]
    assert disturbed(life, left) or life.recorded()[number - 1]["object"] is None


# --- the lives themselves ------------------------------------------------------------------------


@pytest.mark.parametrize("life", LIVES.values(), ids=moment_title)
def test_a_recorded_life_has_each_sort_of_moment(life: Life) -> None:
    moments = life.recorded()
    effects = [tuple(moment["effect"]) for moment in moments if "effect" in moment]
    assert effects == [("open", NAME), ("resize", NAME, 1), ("resize", NAME, 2), ("close", NAME)]
    held = [number for number in range(1, len(moments) + 1) if is_held(moments[:number], life.names)]
    assert title(moments[held[0] - 1]) == "tenants: finalizer"
    assert "last-handled" in title(moments[held[-1]])
    assert any("deletionTimestamp" in json.dumps(moment) for moment in moments)


@pytest.mark.parametrize("life", LIVES.values() if IN_FULL else [PLAIN], ids=moment_title)
def test_kopf_still_lives_as_recorded_and_each_moment_of_that_life_can_be_the_switch(life: Life) -> None:
    moments = live_anew(life)
    assert moments[-1]["object"] is None
    effects = [moment["effect"] for moment in moments if "effect" in moment]
    assert effects == [moment["effect"] for moment in life.recorded() if "effect" in moment]
    for number in range(1, len(moments) + 1):
        switched(life, moments[:number])
