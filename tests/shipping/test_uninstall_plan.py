"""Laws of the plan of an uninstall, for any objects."""

from collections.abc import Sequence

from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from reconcile.shipping import uninstall_plan as plan
from reconcile.shipping.uninstall_plan import Item, Mode, Seen

OURS, OTHERS = "example.com/site", "example.org/other"
DEPLOYMENT = {"metadata": {"name": "shop", "namespace": "shop-system"}, "spec": {"replicas": 2}}
STOPPED = {**DEPLOYMENT, "spec": {"replicas": 0}}
DEFINITION = {
    "metadata": {"name": "sites.example.com"},
    "spec": {"versions": [{"name": "v1", "served": True, "storage": True}]},
}
SEEN = Seen("shop", "shop-system", deployment=DEPLOYMENT, finalizers={"sites.example.com": frozenset({OURS})})


def items(finalizers: Sequence[str] = (OURS, OTHERS)) -> st.SearchStrategy[list[Item]]:
    """Objects that own each other in any way, also in circles."""
    uids = st.sampled_from("abcdef")

    def item(uid: str) -> st.SearchStrategy[Item]:
        return st.builds(
            Item,
            resource=st.just("sites.example.com"),
            path=st.just(f"/{uid}"),
            name=st.just(uid),
            namespace=st.just("default"),
            uid=st.just(uid),
            finalizers=st.lists(st.sampled_from(finalizers), unique=True).map(tuple),
            owners=st.lists(uids, unique=True).map(tuple),
            terminating=st.booleans(),
        )

    return st.lists(uids, unique=True).flatmap(lambda names: st.tuples(*map(item, names)).map(list))


@given(items())
def test_an_uninstall_ends_whatever_owns_what(objects: list[Item]) -> None:
    """The server and the operator do their part after each step: what terminates is gone in the end."""
    seen = evolve(SEEN, objects=objects, definitions=[DEFINITION])
    for _ in range(50):
        step = plan.next_step(seen, Mode.DELETE)
        match step:
            case plan.Finished():
                break
            case plan.Remove(removed):
                paths = {item.path for item in removed}
                definitions = [] if "sites" in removed[0].name else seen.definitions
                assert removed[0].resource == "sites.example.com" or not seen.objects
                gone = evolve(seen, objects=[_marked(item, paths) for item in seen.objects])
                deployment = None if removed[0].resource == "deployments.apps" else seen.deployment
                seen = evolve(gone, definitions=definitions, deployment=deployment)
            case plan.Await():
                seen = evolve(seen, objects=[item for item in seen.objects if not item.terminating])
            case plan.Stop():
                assert not seen.objects
                seen = evolve(seen, deployment=STOPPED)
            case _:
                raise AssertionError(step)
    else:
        raise AssertionError("it does not end")
    assert (seen.objects, seen.definitions, seen.deployment) == ([], [], None)


def _marked(item: Item, paths: set[str]) -> Item:
    return evolve(item, terminating=item.terminating or item.path in paths)


@given(items())
def test_an_owner_is_deleted_before_what_it_owns(objects: list[Item]) -> None:
    step = plan.next_step(evolve(SEEN, objects=objects), Mode.DELETE)
    if isinstance(step, plan.Remove) and len(step.items) < len(objects):
        there = {item.uid for item in objects}
        assert all(there.isdisjoint(item.owners) for item in step.items if item.resource.startswith("sites"))


@given(items(), st.sampled_from([*Mode]), st.booleans(), st.booleans())
def test_finalizers_come_off_only_when_the_operator_cannot_work_them_off(
    objects: list[Item], mode: Mode, stopped: bool, going: bool
) -> None:
    deployment = STOPPED if stopped else DEPLOYMENT
    seen = evolve(SEEN, objects=objects, deployment=deployment, going=going)
    step = plan.next_step(seen, mode)
    if isinstance(step, plan.Release):
        assert stopped or going
        assert all(seen.holds(item) for item in step.items)
        assert all(OURS not in seen.without(item) for item in step.items)
        assert all(set(item.finalizers) - {OURS} == set(seen.without(item)) for item in step.items)


@given(items(), st.sampled_from([*Mode]))
def test_without_a_known_scope_nothing_is_deleted_and_only_orphans_are_let_go(
    objects: list[Item], mode: Mode
) -> None:
    seen = evolve(SEEN, known_scope=False, deployment=None, definitions=[DEFINITION], objects=objects)
    held = any(seen.holds(item) for item in objects)
    step = plan.next_step(seen, mode)
    assert isinstance(step, plan.Release if held and mode is Mode.ORPHAN else plan.Finished)


@given(items(), st.booleans())
def test_kept_data_is_never_deleted(objects: list[Item], stopped: bool) -> None:
    seen = evolve(
        SEEN, objects=objects, deployment=STOPPED if stopped else DEPLOYMENT, definitions=[DEFINITION]
    )
    step = plan.next_step(seen, Mode.KEEP)
    if isinstance(step, plan.Remove):
        assert {item.resource for item in step.items} == {"deployments.apps"}
