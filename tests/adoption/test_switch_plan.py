"""Laws of the steps of a switch, and what stands against one."""

import datetime
from collections.abc import Sequence
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from reconcile.adoption.adopted_kinds import AdoptedKind
from reconcile.adoption.audit import Audit, SeenDeployment
from reconcile.adoption.switch_leftovers import leftovers
from reconcile.adoption.switch_plan import (
    IDENTITY,
    Finished,
    Freeze,
    Refuse,
    Seen,
    Step,
    Stop,
    Terms,
    Thaw,
    Wait,
    is_frozen,
    next_step,
    outline,
)
from reconcile.adoption.tally import Tally
from reconcile.client.kopf_peerings import Peering
from reconcile.doctor.findings import Unread
from reconcile.predecessors import FREEZE_PRIORITY, PEERINGS, Peer
from tests.adoption.kopf_model import PARTS
from tests.adoption.kopf_objects import managed, record

NOW = datetime.datetime(2027, 1, 1, tzinfo=datetime.UTC)
KIND = AdoptedKind(PARTS)
TERMS = Terms()


def ago(seconds: float) -> datetime.datetime:
    return NOW - datetime.timedelta(seconds=seconds)


def tally(*objects: dict[str, Any]) -> Tally:
    found = Tally(KIND)
    for obj in objects:
        found.add(obj)
    return found


HALF = managed("half", handled=False, make=record())
BEGUN = managed("begun", handled=False)
CHANGING = managed("changing", resize=record("update"))
GOING = managed("going", deleted=True)
DONE = managed("done")

peers = st.builds(
    Peer,
    st.sampled_from(["me@host", "you@host", IDENTITY, "reconcile/sites"]),
    st.sampled_from([-1, 0, 5, FREEZE_PRIORITY]),
    st.just(60),
    st.sampled_from([None, NOW, ago(59), ago(61)]),
)
peerings = st.builds(
    Peering, st.sampled_from(PEERINGS[:2]), st.just(""), st.just("default"), st.lists(peers).map(tuple)
)
deployments = st.builds(SeenDeployment, st.sampled_from(["a/x", "b/x"]), st.integers(0, 2), st.integers(0, 2))
worlds = st.builds(
    Seen,
    st.builds(
        Audit,
        st.lists(st.sampled_from([HALF, BEGUN, CHANGING, GOING, DONE])).map(lambda found: [tally(*found)]),
        deployments=st.lists(deployments, max_size=2),
    ),
    st.just(NOW),
    st.lists(peerings, max_size=2),
    waited=st.sampled_from([0.0, 100.0]),
    frozen_for=st.sampled_from([0.0, 5.0, 100.0]),
)
terms = st.builds(Terms, st.sampled_from(["hold", "run"]))


@given(worlds, terms)
def test_an_operator_is_stopped_only_while_no_creation_is_under_way_and_no_handler_can_begin(
    seen: Seen, terms: Terms
) -> None:
    step = next_step(seen, terms)
    if not isinstance(step, Stop):
        return
    assert all(one.replicas for one in step.deployments)
    if not seen.stopping and terms.unfinished == "hold":
        assert not seen.creating.count
    if seen.live:
        assert all(is_frozen(peering, peer, NOW, IDENTITY) for peering, peer in seen.live)
        assert seen.frozen_for >= terms.drain


@given(worlds, terms)
def test_a_switch_is_finished_only_when_no_operator_is_seen_and_no_entry_of_ours_is_left(
    seen: Seen, terms: Terms
) -> None:
    if isinstance(next_step(seen, terms), Finished):
        assert not seen.alive
        assert not seen.signed
        assert terms.unfinished == "run" or not seen.creating.count
        assert outline(seen, terms) == []


@given(worlds, terms)
def test_the_freeze_is_lifted_only_for_a_creation_or_at_the_end(seen: Seen, terms: Terms) -> None:
    step = next_step(seen, terms)
    if isinstance(step, Thaw):
        assert step.peerings == seen.signed
        assert seen.creating.count or not seen.alive


@given(worlds, terms)
def test_a_freeze_is_for_live_operators_that_would_pause_and_do_not(seen: Seen, terms: Terms) -> None:
    step = next_step(seen, terms)
    if isinstance(step, Freeze):
        for peering in step.peerings:
            operators = peering.operators(NOW)
            assert any(not is_frozen(peering, peer, NOW, IDENTITY) for peer in operators)
            assert all(peer.priority < FREEZE_PRIORITY for peer in operators)


# --- what stands against it ---------------------------------------------------------------------------


def alive(*objects: dict[str, Any], **more: Any) -> Seen:
    audit = Audit([tally(*objects)], deployments=[SeenDeployment("a/x", 1, 1)])
    return Seen(audit, NOW, [Peering(PEERINGS[0], "", "default", (Peer("me@host", 0, 60, NOW),))], **more)


def stopped(*objects: dict[str, Any]) -> Seen:
    return Seen(Audit([tally(*objects)], deployments=[SeenDeployment("a/x", 0, 0)]), NOW)


def refusal(step: Step) -> str:
    assert isinstance(step, Refuse), step
    return f"{step.problem}: {step.hint}"


def waiting(step: Step) -> str:
    assert isinstance(step, Wait), step
    return step.what


def test_what_the_audit_could_not_read_or_finds_under_another_prefix_refuses_it() -> None:
    unread = evolve(alive(), audit=Audit(unread=[Unread("sites", "forbidden", "grant that right")]))
    assert refusal(next_step(unread, TERMS)) == "sites cannot be read: forbidden: grant that right"
    other = alive(managed("a", prefix="other.example.com"), managed("b", prefix="else.example.com"))
    said = refusal(next_step(other, TERMS))
    assert "with annotations of kopf under else.example.com" in said
    assert "and 1 finding more of the audit: audit with --prefix else.example.com" in said


def test_a_peer_that_would_not_pause_refuses_it() -> None:
    peering = Peering(PEERINGS[0], "", "default", (Peer("dev@host", 666, 60, NOW),))
    said = refusal(next_step(Seen(Audit(), NOW, [peering]), TERMS))
    assert said.startswith("'dev@host' in ClusterKopfPeering default has the priority 666")


def test_a_deployment_that_may_be_the_new_operator_is_not_stopped() -> None:
    running = [SeenDeployment("a/x", 1, 1)]
    bare = managed("a", handled=False, finalizer=False)
    said = refusal(next_step(Seen(Audit([tally(bare)], deployments=running), NOW), TERMS))
    assert said.startswith("no object that was read has traces of kopf, so Deployment a/x may be the new")
    kept = Seen(Audit([tally(bare, DONE)], deployments=running), NOW)
    assert isinstance(next_step(kept, TERMS), Stop)


def test_what_is_half_created_and_has_no_operator_any_more_needs_a_person() -> None:
    for obj in (HALF, BEGUN):
        assert "run this with --finished NAMESPACE/NAME" in refusal(next_step(stopped(obj), TERMS))
    assert isinstance(next_step(stopped(HALF), Terms(unfinished="run")), Finished)


def test_what_a_manager_froze_half_way_needs_a_person_too() -> None:
    own = Peer("reconcile/sites", FREEZE_PRIORITY, 600, NOW)
    seen = alive(HALF)
    seen = evolve(seen, peerings=[evolve(seen.peerings[0], peers=(*seen.peerings[0].peers, own))])
    assert "a manager has frozen the operator on kopf" in refusal(next_step(seen, TERMS))
    # Its entry only expires: what is to hold until the end is signed besides.
    assert isinstance(next_step(evolve(seen, audit=alive(DONE).audit), TERMS), Freeze)


def test_changes_and_deletions_are_waited_for_as_long_as_patience_lasts() -> None:
    for obj in (CHANGING, GOING):
        assert waiting(next_step(alive(obj), TERMS)).startswith("kopf is through with default/")
        assert isinstance(next_step(alive(obj, waited=TERMS.patience), TERMS), Freeze)


def test_hostile_names_are_cut_and_counted() -> None:
    many = [managed(f"a{number}", handled=False, make=record()) for number in range(50)]
    assert waiting(next_step(alive(*many), TERMS)).endswith("default/a3, default/a4 and 45 more")
    loud = Peering(PEERINGS[0], "", "default", (Peer("\x1b" + "x" * 5000, 0, 60, NOW),))
    (line, _) = outline(Seen(Audit(), NOW, [loud]), TERMS)
    assert line.isprintable()
    assert len(line) < 300


# --- what is left afterwards --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seen", "checks"),
    [
        (stopped(), []),
        (stopped(DONE), ["objects"]),
        (stopped(HALF), ["creations"]),
        (stopped(BEGUN, DONE), ["creations", "objects"]),
        (alive(), ["peers", "deployments"]),
        (Seen(Audit(webhooks=["ValidatingWebhookConfiguration auto.kopf.dev"]), NOW), ["webhooks"]),
        (Seen(Audit(unread=[Unread("sites", "forbidden", "grant that right")]), NOW), ["objects"]),
    ],
)
def test_what_is_left_of_kopf_is_found(seen: Seen, checks: Sequence[str]) -> None:
    found = leftovers(seen).findings
    assert [one.check for one in found] == checks
    assert all(one.severity in ("error", "unknown") for one in found)


def test_a_freeze_that_still_holds_is_a_warning() -> None:
    peering = Peering(PEERINGS[0], "", "default", (Peer("reconcile/sites", 100, 600, ago(60)),))
    (finding,) = leftovers(Seen(Audit(), NOW, [peering])).findings
    assert finding.severity == "warning"
    assert "freezes operators on kopf for 540 s more" in finding.what
