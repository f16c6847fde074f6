"""Which hosts of a group come and go: atoms whole, one deletion for each that is too many, failures paced."""

from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from reconcile import ObjectMeta
from reconcile.blocks.replica_group import (
    GroupPlan,
    Host,
    Marks,
    NewHost,
    NewReplica,
    ReplicaGroup,
    atoms_of,
    host_of,
    new_hosts,
    wait_after,
)
from reconcile.kinds import Pod, PodStatus

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
MARKS = Marks.of("example.com")


def host(name: str, replica: str = "", *, age: float = 3600, host: int = 0, **changes: object) -> Host:
    """A Ready host; `age` in seconds."""
    created = NOW - timedelta(seconds=age)
    return evolve(Host(name, created, Pod(), True, replica=replica, host_index=host), **changes)


def atom(name: str, hosts: int, **changes: object) -> list[Host]:
    """A replica that has been whole."""
    made = [host(f"{name}-{number}", name, host=number, **changes) for number in range(hosts)]  # type: ignore[arg-type]
    return [evolve(made[0], whole=True), *made[1:]]


def deleted(plan: GroupPlan[Host]) -> list[str]:
    return [removal.host.name for removal in plan.delete]


# Several hosts.


@pytest.mark.rule("kuberay-1d-07")
@pytest.mark.parametrize(("replicas", "hosts"), [(1, 4), (3, 12)])
def test_a_replica_has_the_configured_number_of_hosts(replicas: int, hosts: int) -> None:
    plan = ReplicaGroup(replicas, 4).plan(list[Host](), NOW)
    assert plan.creates == hosts
    assert [one.hosts for one in plan.create] == [(0, 1, 2, 3)] * replicas


@pytest.mark.rule("kuberay-1d-07")
def test_a_replica_that_lacks_two_hosts_is_recreated_as_a_whole() -> None:
    plan = ReplicaGroup(1, 4).plan(atom("a", 4)[:2], NOW)
    assert deleted(plan) == ["a-0", "a-1"]
    assert {removal.reason for removal in plan.delete} == {"incomplete"}
    assert plan.create == (NewReplica(0, (0, 1, 2, 3), failures=1),)


def test_an_unhealthy_host_takes_its_replica_with_it() -> None:
    hosts = [*atom("a", 2), *atom("b", 2)]
    hosts[2] = evolve(hosts[2], finished=True)
    plan = ReplicaGroup(2, 2).plan(hosts, NOW)
    assert [(one.host.name, one.reason) for one in plan.delete] == [
        ("b-0", "unhealthy"),
        ("b-1", "incomplete"),
    ]
    assert plan.creates == 2


def test_a_listed_host_takes_its_replica_with_it() -> None:
    plan = ReplicaGroup(2, 2, listed=["b-1"], chooses=False).plan([*atom("a", 2), *atom("b", 2)], NOW)
    assert deleted(plan) == ["b-0", "b-1"]
    assert plan.creates == 2


def test_surplus_replicas_are_deleted_as_a_whole() -> None:
    plan = ReplicaGroup(1, 2).plan([*atom("a", 2, age=10), *atom("b", 2, age=900)], NOW)
    assert deleted(plan) == ["a-0", "a-1"]
    assert plan.creates == 0


def test_a_replica_with_a_terminating_host_is_deleted_and_replaced() -> None:
    hosts = atom("a", 2)
    hosts[0] = evolve(hosts[0], terminating=True)
    plan = ReplicaGroup(1, 2).plan(hosts, NOW)
    assert (deleted(plan), plan.creates) == (["a-1"], 2)
    assert [one.name for one in plan.waiting] == ["a-0"]


def test_a_replica_that_was_never_complete_is_completed_without_deletions() -> None:
    """A quota stopped it half-way, or a crash: deleting it would only begin the same again (kuberay#4540)."""
    hosts = [evolve(one, whole=False, replica_index=3, failures=2) for one in atom("a", 4)[:2]]
    plan = ReplicaGroup(1, 4).plan(hosts, NOW)
    assert (deleted(plan), plan.create) == ([], (NewReplica(3, (2, 3), 2, "a"),))


def test_an_incomplete_replica_without_its_first_host_has_lost_it_and_is_recreated() -> None:
    hosts = [evolve(one, whole=False) for one in atom("a", 4)[1:]]
    plan = ReplicaGroup(1, 4).plan(hosts, NOW)
    assert (deleted(plan), plan.creates) == (["a-1", "a-2", "a-3"], 4)


def test_a_replica_that_has_become_complete_is_marked_once() -> None:
    hosts = [evolve(one, whole=False) for one in atom("a", 2)]
    assert [one.name for one in ReplicaGroup(1, 2).plan(hosts, NOW).mark] == ["a-0"]
    assert ReplicaGroup(1, 2).plan(atom("a", 2), NOW).is_idle
    assert ReplicaGroup(1).plan([host("b")], NOW).mark == ()


def test_a_group_whose_number_of_hosts_changed_is_recreated() -> None:
    plan = ReplicaGroup(2, 2).plan([host("alone"), *atom("a", 4)], NOW)
    assert deleted(plan) == ["a-0", "a-1", "a-2", "a-3", "alone"]
    assert plan.creates == 4


def test_new_replicas_get_the_lowest_free_indexes() -> None:
    hosts = [
        host("a", replica_index=0),
        host("b", replica_index=2),
        host("c", replica_index=1, terminating=True),
    ]
    assert [one.index for one in ReplicaGroup(5).plan(hosts, NOW).create] == [1, 3, 4]


def test_hosts_of_one_replica_share_a_name_and_single_hosts_have_none() -> None:
    names = iter(["x", "y"])
    made = list(new_hosts(NewReplica(4, (0, 1), 2), 2, lambda: next(names)))
    assert made == [NewHost("x", 4, 0, 2), NewHost("x", 4, 1, 2)]
    assert list(new_hosts(NewReplica(0, (0,)), 1, lambda: next(names))) == [NewHost("", 0, 0)]
    assert list(new_hosts(NewReplica(0, (1,), name="old"), 2, lambda: next(names))) == [NewHost("old", 0, 1)]


def test_marks_written_to_a_host_are_read_back() -> None:
    manifest = NewHost("render-1", 4, 1, 2).marked({"metadata": {"labels": {"app": "render"}}}, MARKS)
    created = NOW.isoformat().replace("+00:00", "Z")
    metadata = ObjectMeta(
        "p", "d", uid="u", creation_timestamp=datetime.fromisoformat(created), **manifest["metadata"]
    )
    read = host_of(Pod(metadata=metadata, status=PodStatus(phase="Running")), MARKS)
    assert (read.replica, read.replica_index, read.host_index, read.failures) == ("render-1", 4, 1, 2)
    assert (read.whole, read.finished, read.ready) == (False, False, False)
    assert manifest["metadata"]["labels"]["app"] == "render"


@pytest.mark.parametrize(("replicas", "hosts"), [(-1, 1), (1, 0)])
def test_an_invalid_group_is_an_error(replicas: int, hosts: int) -> None:
    with pytest.raises(ValueError, match="0 replicas or more of 1 host or more"):
        ReplicaGroup(replicas, hosts)


# Failures.


def test_the_first_failure_is_replaced_at_once_and_later_ones_with_growing_delays() -> None:
    assert [wait_after(failures) for failures in range(8)] == [0, 10, 20, 40, 80, 160, 300, 300]


def test_a_replacement_that_fails_is_replaced_only_after_its_delay() -> None:
    broken = host("b", finished=True, age=4, failures=1)
    plan = ReplicaGroup(1).plan([broken], NOW)
    assert (plan.is_idle, plan.after) == (True, 6.0)
    later = ReplicaGroup(1).plan([broken], NOW + timedelta(seconds=6))
    assert (deleted(later), later.create) == (["b"], (NewReplica(0, (0,), failures=2),))


def test_a_long_lived_replica_starts_a_new_failure_count() -> None:
    plan = ReplicaGroup(1).plan([host("b", finished=True, age=3600, failures=5)], NOW)
    assert plan.create == (NewReplica(0, (0,), failures=1),)


def test_a_broken_surplus_replica_is_deleted_at_once() -> None:
    plan = ReplicaGroup(1).plan([host("a"), host("b", finished=True, age=0, failures=3)], NOW)
    assert (deleted(plan), plan.create, plan.after) == (["b"], (), None)


@pytest.mark.parametrize("observed", [atom("a", 4, age=1, failures=3), [host("a", age=1, failures=3)]])
def test_a_replica_of_another_number_of_hosts_is_replaced_at_once_and_has_not_failed(
    observed: list[Host],
) -> None:
    plan = ReplicaGroup(1, 2).plan(observed, NOW)
    assert deleted(plan) == [one.name for one in observed]
    assert {removal.reason for removal in plan.delete} == {"resized"}
    assert (plan.create, plan.after) == ((NewReplica(0, (0, 1)),), None)


def test_a_broken_replica_of_another_number_of_hosts_has_failed() -> None:
    hosts = [evolve(one, finished=one.host_index == 2) for one in atom("a", 4, age=1, failures=3)]
    plan = ReplicaGroup(1, 2).plan(hosts, NOW)
    assert (plan.is_idle, plan.after) == (True, 39.0)


# Laws.


@st.composite
def groups(draw: st.DrawFn) -> tuple[ReplicaGroup, list[Host]]:
    hosts = draw(st.sampled_from([1, 1, 2, 3]))
    observed: list[Host] = []
    for number in range(draw(st.integers(0, 5))):
        name = f"r{number}"
        size = draw(st.sampled_from([hosts, hosts, hosts, 1, hosts + 1]))
        for index in range(size):
            one = host(
                f"{name}-{index}",
                "" if size == 1 and draw(st.booleans()) else name,
                age=draw(st.integers(0, 400)),
                host=index,
                ready=draw(st.booleans()),
                whole=index == 0 and draw(st.booleans()),
                terminating=draw(st.integers(0, 5)) == 0,
                finished=draw(st.integers(0, 5)) == 0,
                deletion_cost=draw(st.integers(-1, 1)),
                replica_index=number,
                failures=draw(st.integers(0, 3)),
            )
            observed.append(one)
    names = [one.name for one in observed] or ["absent"]
    listed = draw(st.lists(st.sampled_from([*names, "absent"]), max_size=2))
    return ReplicaGroup(draw(st.integers(0, 5)), hosts, listed, draw(st.booleans())), observed


def after(group: ReplicaGroup, plan: GroupPlan[Host], observed: Sequence[Host], gone: bool) -> list[Host]:
    """The hosts once the plan is carried out; a deleted one is gone, or stays Terminating."""
    doomed = {removal.host.name for removal in plan.delete}
    left = [evolve(one, terminating=one.terminating or one.name in doomed) for one in observed]
    marked = {one.name for one in plan.mark}
    left = [evolve(one, whole=one.whole or one.name in marked) for one in left]
    kept = [one for one in left if not (gone and one.name in doomed)]
    for number, replica in enumerate(plan.create):
        for one in new_hosts(replica, group.hosts, lambda number=number: f"new{number}"):  # type: ignore[misc]
            name = f"{one.replica or f'new{number}'}-made-{one.host_index}"
            made = host(name, one.replica, age=0, host=one.host_index, ready=False)
            kept.append(evolve(made, replica_index=one.replica_index, failures=one.failures))
    return kept


def counting(group: ReplicaGroup, observed: Sequence[Host]) -> int:
    atoms = atoms_of(observed)
    return sum(
        len(one.hosts) == group.hosts and not any(h.terminating or h.finished for h in one.hosts)
        for one in atoms
    )


def replicas_of(plan: GroupPlan[Host], reasons: Collection[str]) -> set[str]:
    return {one.host.replica or one.host.name for one in plan.delete if one.reason in reasons}


@given(groups(), st.booleans())
def test_a_plan_carried_out_leaves_nothing_to_do_but_to_wait(
    given: tuple[ReplicaGroup, list[Host]], gone: bool
) -> None:
    group, observed = given
    then = after(group, group.plan(observed, NOW), observed, gone)
    again = group.plan(then, NOW)
    assert (again.create, again.delete) == ((), ())
    assert group.plan(after(group, again, then, gone), NOW).is_idle


@given(groups(), st.booleans())
def test_a_group_reaches_its_size_except_for_replicas_that_must_wait_or_cannot_be_chosen(
    given: tuple[ReplicaGroup, list[Host]], gone: bool
) -> None:
    group, observed = given
    plan = group.plan(observed, NOW)
    count = counting(group, after(group, plan, observed, gone))
    if plan.after is None and group.chooses:
        assert count == group.replicas
    elif plan.after is None:
        assert count >= group.replicas
    else:
        assert count < group.replicas


@given(groups())
def test_each_surplus_replica_is_deleted_once_and_none_while_others_are_created(
    given: tuple[ReplicaGroup, list[Host]],
) -> None:
    group, observed = given
    plan = group.plan(observed, NOW)
    chosen = replicas_of(plan, ("not-ready", "cheapest", "newest"))
    sound = len(chosen | replicas_of(plan, ("listed",))) + len(
        {one.replica or one.name for one in plan.present}
    )
    assert len(chosen) <= max(0, sound - group.replicas)
    assert not (chosen and any(not one.name for one in plan.create))
    assert group.chooses or not chosen


@given(groups())
def test_a_replica_is_deleted_as_a_whole_or_not_at_all(given: tuple[ReplicaGroup, list[Host]]) -> None:
    group, observed = given
    plan = group.plan(observed, NOW)
    doomed = {removal.host.name for removal in plan.delete}
    for one in atoms_of(observed):
        live = {host.name for host in one.live}
        assert live <= doomed or not live & doomed
    assert not any(removal.host.terminating for removal in plan.delete)


@given(groups(), st.randoms(use_true_random=False))
def test_the_order_in_which_hosts_are_read_does_not_matter(
    given: tuple[ReplicaGroup, list[Host]], chance: object
) -> None:
    group, observed = given
    shuffled = chance.sample(observed, len(observed))  # type: ignore[attr-defined]
    assert group.plan(shuffled, NOW) == group.plan(observed, NOW)


def test_marks_in_the_template_are_not_taken_for_those_of_a_host() -> None:
    """As in a template that was copied from a running pod: such hosts would all be one replica."""
    copied = {
        "labels": {"app": "ray", MARKS.replica: "x", MARKS.replica_index: "7"},
        "annotations": {"kept": "yes", MARKS.whole: "true", MARKS.failures: "3"},
    }
    made = NewHost("", 2, 0).marked({"metadata": copied, "spec": {}}, MARKS)
    assert made["metadata"] == {
        "labels": {"app": "ray", MARKS.replica_index: "2", MARKS.host_index: "0"},
        "annotations": {"kept": "yes"},
    }
    assert (
        NewHost("a", 2, 0, failures=1).marked({"metadata": copied}, MARKS)["metadata"]["labels"][
            MARKS.replica
        ]
        == "a"
    )
