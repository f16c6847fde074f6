"""Of several pools one is chosen, whatever the expanders leave; and what a decision is in full."""

import datetime
import re
from fractions import Fraction

import pytest
from attrs import evolve

from reconcile.blocks import (
    BadPriorities,
    CapacityDecision,
    CapacityPools,
    ExpanderOption,
    Growth,
    NodeTemplate,
    Pool,
    PoolBackoff,
    Priorities,
)
from reconcile.blocks.capacity.capacity_pools import out_of_question
from reconcile.blocks.capacity.expanders import ExpanderChoice, at_random, choose, least_waste
from reconcile.blocks.capacity.packing import Packing
from tests.blocks.capacity import node, options, pod, pool

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


def test_the_first_option_by_name_is_chosen_among_those_the_expanders_leave() -> None:
    said = Priorities.parse("1:\n- b\n- c\n")
    assert choose(options("a", "b", "c"), [said, at_random(lambda: 0.0)]).options == tuple(options("b"))
    assert choose(options("b", "a"), [least_waste]) == ExpanderChoice(tuple(options("a")))
    assert choose(options("b", "a"), []) == ExpanderChoice(tuple(options("a")))
    assert choose([], [least_waste]) == ExpanderChoice(())


@pytest.mark.rule("capacity-expanders")
def test_the_notices_of_expanders_are_joined_in_order_without_duplicates() -> None:
    def says(*unmatched: str, notice: str = "", leaves: int = 9) -> object:
        return lambda given: ExpanderChoice(tuple(given)[:leaves], unmatched, notice)

    first, quiet = says("x", "y", notice="one"), says("y")
    second, last, never = says("z", notice="two"), says("w", notice="three", leaves=0), says("n", notice="n")
    found = choose(options("b", "a"), [first, quiet, second])  # type: ignore[list-item]
    assert found == ExpanderChoice(tuple(options("a")), ("x", "y", "z"), "one; two")
    found = choose(options("b", "a"), [last, never])  # type: ignore[list-item]
    assert found == ExpanderChoice((), ("w",), "three")


@pytest.mark.rule("capi-2d-priority")
def test_missing_priorities_leave_all_options_and_give_a_notice() -> None:
    chosen = choose(options("b", "a"), [Priorities()])
    assert chosen == ExpanderChoice(tuple(options("a")), (), "there are no priorities")
    assert Priorities(fault="not valid YAML")(options("b", "a")) == ExpanderChoice(
        tuple(options("b", "a")), (), "not valid YAML"
    )


@pytest.mark.rule("capi-2d-priority")
def test_a_pool_has_the_highest_priority_whose_pattern_matches_anywhere_in_its_name() -> None:
    said = Priorities.parse("1:\n- gpu\n7:\n- ^a\n- z$\n-3:\n- cpu\n")
    assert [said.of(name) for name in ("a-gpu", "my-gpu", "b-cpu-z", "cpu", "other")] == [7, 1, 7, -3, None]
    offered = options("my-gpu", "other", "cpu")
    assert said(offered) == ExpanderChoice(tuple(options("my-gpu")), ("other",))
    none = "no priority matches any of the pools that are possible"
    assert said(options("x", "y")) == ExpanderChoice(tuple(options("x", "y")), ("x", "y"), none)


@pytest.mark.rule("capi-2d-priority")
@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "expected a mapping of numbers to lists of expressions"),
        ("{}", "expected a mapping of numbers to lists of expressions"),
        ("[1]", "expected a mapping of numbers to lists of expressions"),
        ("\x00", "not valid YAML"),
        ("1: [", "not valid YAML, line 1"),
        ("1:\n- a\n2: [", "not valid YAML, line 3"),
        ("x: [a]", "expected an integer as priority, got 'x'"),
        ("true: [a]", "expected an integer as priority, got True"),
        ("5: a", "priority 5: expected a list of expressions"),
        ("5: [1]", "priority 5: expected a list of expressions"),
        ("2024-13-45: [a]", "not valid YAML"),
        ("0b_: [a]", "not valid YAML"),
        ("[" * 5000, "not valid YAML"),
        ("5: ['a{4294967295}']", "priority 5 has an invalid expression: the repetition number is too large"),
        ("5: ['[']", "priority 5 has an invalid expression: unterminated character set at position 0"),
    ],
)
def test_a_text_without_priorities_is_refused_with_its_fault(text: str, told: str) -> None:
    with pytest.raises(BadPriorities, match=f"^{re.escape(told)}$"):
        Priorities.parse(text)


def option(name: str, free: dict[str, int], nodes: int, **used: int) -> ExpanderOption:
    return ExpanderOption(name, NodeTemplate(free), Packing(nodes, ("p",), {}, used))


@pytest.mark.rule("capacity-expanders")
def test_waste_is_the_unused_share_of_all_new_nodes_together() -> None:
    half = option("half", {"cpu": 4, "memory": 10}, 2, cpu=6, memory=15)
    assert half.waste == Fraction(1, 4) + Fraction(1, 4)
    assert option("idle", {"cpu": 4, "memory": 10}, 2).waste == 2
    bare = option("bare", {"cpu": 4}, 2, cpu=4)
    assert bare.waste == Fraction(1, 2)
    worse = option("worse", {"cpu": 4, "memory": 10}, 2, cpu=6, memory=14)
    assert least_waste([half, worse, bare]) == ExpanderChoice((half, bare))
    assert least_waste([]) == ExpanderChoice(())


@pytest.mark.rule("capacity-expanders")
def test_the_random_expander_chooses_one_option_and_none_if_there_are_none() -> None:
    given = options("a", "b", "c")
    assert [at_random(lambda n=n: n / 6)(given).options[0].pool for n in range(6)] == list("aabbcc")  # type: ignore[misc]
    assert at_random(lambda: 0.5)([]) == ExpanderChoice(())


# What a decision is in full.


@pytest.mark.rule("capacity-decide")
@pytest.mark.parametrize(
    ("given", "why"),
    [
        (pool("a", 9, 10), ""),
        (pool("a", 10, 10), "as large as it may be (10)"),
        (pool("a", 11, 10), "as large as it may be (10)"),
        (pool("a", template=None), "what its nodes offer is not known"),
        (pool("a", held="paused", backoff=PoolBackoff(NOW, 1, NOW)), "paused"),
        (pool("a", backoff=PoolBackoff(NOW, 1, NOW, "quota")), ""),
        (pool("a", backoff=PoolBackoff(NOW.replace(hour=1), 1, NOW, "quota")), "in back-off: quota"),
        (pool("a", 10, 10, backoff=PoolBackoff(NOW.replace(hour=1), 1, NOW)), "in back-off"),
    ],
)
def test_a_pool_reports_why_it_cannot_grow(given: Pool, why: str) -> None:
    assert out_of_question(given, NOW) == why


@pytest.mark.rule("capacity-decide")
def test_a_decision_covers_every_pod_and_every_pool() -> None:
    pods = [
        pod("there", "4"),
        pod("comes", "3500m"),
        pod("odd", schedulerName="volcano", resourceClaims=[{"name": "gpu"}]),
        *(pod(name, "3") for name in ("p3", "p1", "p2", "p4")),
        pod("huge", "9"),
    ]
    said = Priorities.parse("9:\n- best\n1:\n- second\n")
    pools = [
        pool("third", 0, 1),
        pool("second", 0, 5),
        pool("best", 2, 4, upcoming=1),
        pool("full", 1, 1),
        pool("held", held="paused", template=None, upcoming=2),
    ]
    decision = CapacityPools([said]).decide(pods, [node()], pools, NOW)
    assert decision == CapacityDecision(
        growths=(Growth("best", 2, 4, ("d/p1", "d/p2")), Growth("second", 0, 2, ("d/p3", "d/p4"))),
        housed=("d/comes", "d/there"),
        left={"d/odd": "not modelled: resourceClaims, a scheduler of its own", "d/huge": "third: cpu"},
        skipped={"full": "as large as it may be (1)", "held": "paused"},
        unmatched=("third",),
        notices=(),
    )
    short = CapacityPools([said], most=1).decide(pods, [node()], pools, NOW)
    assert [(one.pool, one.to, one.pods) for one in short.growths] == [
        ("best", 3, ("d/p1",)),
        ("second", 1, ("d/p2",)),
        ("third", 1, ("d/p3",)),
    ]
    assert short.left["d/p4"] == "no pool is left that could grow"


@pytest.mark.rule("capacity-decide")
def test_a_pod_that_fits_nowhere_gets_a_reason_per_pool_and_notices_are_not_repeated() -> None:
    small, narrow = pool("b", 0, 5, template=node("1")), pool("a", 0, 5, template=node(memory="1Mi"))
    bad = Priorities(fault="not valid YAML")
    decision = CapacityPools([bad]).decide([pod("p", "3")], [], [small, narrow], NOW)
    assert decision == CapacityDecision(left={"d/p": "a: memory; b: cpu"})
    pods = [pod("q", "3"), pod("r", "1", "10Gi")]
    roomy = [evolve(small, template=node()), evolve(narrow, template=node("1", "20Gi"))]
    both = CapacityPools([bad]).decide(pods, [], roomy, NOW)
    assert both == CapacityDecision(
        (Growth("a", 0, 1, ("d/r",)), Growth("b", 0, 1, ("d/q",))), notices=("not valid YAML",)
    )


@pytest.mark.rule("capacity-decide")
def test_without_pools_or_without_pods_nothing_grows() -> None:
    assert CapacityPools().decide([pod()], [], [], NOW) == CapacityDecision(
        left={"d/p": "there are no pools"}
    )
    assert CapacityPools().decide([], [node()], [pool("a")], NOW) == CapacityDecision()
    full = CapacityPools().decide([pod()], [], [pool("a", 1, 1)], NOW)
    said = {"a": "as large as it may be (1)"}
    assert full == CapacityDecision(left={"d/p": "no pool is left that could grow"}, skipped=said)
    assert CapacityPools().expanders == (least_waste,)
    assert CapacityPools(iter([least_waste])).expanders == (least_waste,)  # type: ignore[arg-type]
