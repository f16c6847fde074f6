"""The matrix of two versions of an operator: what passes, and what each law catches."""

import datetime
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest
from attrs import evolve, frozen
from hypothesis import strategies as st

from reconcile import (
    Condition,
    Context,
    Controller,
    Intent,
    LeaderElection,
    Object,
    ObjectMeta,
    Result,
    Write,
    field,
    resource,
)
from reconcile.kinds import ConfigMap
from reconcile.models import definition_of
from reconcile.sharding import Sharding
from reconcile.testing import Apply, Scenario, World, upgrade
from reconcile.testing.upgrade_matrix import UpgradeBroken
from tests.testing import shelf_v1, shelf_v2
from tests.testing.shelf_v1 import Shelf as OldShelf
from tests.testing.shelf_v2 import Shelf, ShelfSpec

pytestmark = pytest.mark.rule("kit-upgrade")

OLD = OldShelf(metadata=ObjectMeta("tall", "default"), spec=shelf_v1.ShelfSpec(3))
UPDATES = [Write(OldShelf, ("update",))]
PATCHES = [Write(OldShelf, ("patch",))]
NEW = Shelf(metadata=ObjectMeta("wide", "default"), spec=ShelfSpec(5, "elm"))


def of(model: type[Any], keep: Callable[[Context[Any]], Awaitable[Any]], **options: Any) -> Callable[[], Any]:
    def shelves() -> Controller[Any]:
        return Controller(model, keep, owns=[ConfigMap], name="shelves", **options)

    return shelves


def old(keep: Callable[[Context[Any]], Awaitable[Any]] = shelf_v1.keep_shelf, **options: Any) -> Scenario:
    return Scenario(
        controllers=of(OldShelf, keep, **options), objects=[OLD], leader_election=LeaderElection("shelves")
    )


def new(keep: Callable[[Context[Any]], Awaitable[Any]] = shelf_v2.keep_shelf, **options: Any) -> Scenario:
    return Scenario(
        controllers=of(Shelf, keep, **options), objects=[NEW], leader_election=LeaderElection("shelves")
    )


def broken(before: Any, after: Any, **options: Any) -> UpgradeBroken:
    with pytest.raises(UpgradeBroken) as caught:
        upgrade(before, after, **options)
    return caught.value


# --- what passes ------------------------------------------------------------------------------------


def test_two_versions_that_follow_each_other_pass_with_objects_drawn_from_their_models() -> None:
    report = upgrade(shelf_v1.shelves, shelf_v2.shelves)
    assert report.objects == 6
    assert len(report.combinations) == 11
    assert str(report).startswith("11 combinations held for 6 objects:\n  older code, older definition\n")


def test_two_versions_pass_with_the_samples_of_their_users() -> None:
    assert upgrade(old(), new()).objects == 2


def test_users_may_write_the_same_object_in_the_form_of_each_version() -> None:
    again = Shelf(metadata=ObjectMeta("tall", "default"), spec=ShelfSpec(4, "elm"))
    assert upgrade(old(), evolve(new(), objects=[again])).objects == 2


def test_two_versions_that_share_the_objects_pass() -> None:
    ring = Sharding("shelves", buckets=8)
    sharing = evolve(new(), leader_election=None, sharding=ring)
    assert upgrade(shelf_v1.shelves, sharing).objects == 4


def test_the_same_seed_gives_the_same_findings() -> None:
    first, second = (broken(old(), new(renames_its_page), seed=7) for _ in range(2))
    assert first.faults == second.faults


def test_objects_come_from_the_strategies_of_a_scenario() -> None:
    drawn = st.builds(Shelf, spec=st.builds(ShelfSpec, wood=st.just("yew")))
    seen: list[str | None] = []

    def woods(world: World) -> None:
        seen.extend(shelf.spec.wood for shelf in world.objects(Shelf))

    upgrade(
        shelf_v1.shelves, evolve(new(), objects=(), strategies={Shelf: drawn}, invariants=[woods]), examples=1
    )
    assert "yew" in seen


# --- what is caught ---------------------------------------------------------------------------------


async def replaces_the_spec(ctx: Context[Any]) -> None:
    """Writes the whole object as its class knows it."""
    shelf = ctx.object
    if shelf.metadata.labels.get("kept") != "yes":
        await ctx.client.raw.update(
            shelf.replace(metadata=evolve(shelf.metadata, labels={"kept": "yes"})), whole=True
        )


def test_older_code_that_replaces_the_spec_loses_a_new_field() -> None:
    found = broken(old(replaces_the_spec, writes=UPDATES), new())
    assert (
        'older code, newer definition: shelfs default/wide spec.wood: is lost, it was "elm"\n' in f"{found}\n"
    )
    assert "change the fields you know and leave the others" in str(found)
    assert "keeps" in found.laws


def labels_as(release: str) -> Callable[[Context[Any]], Awaitable[None]]:
    async def label(ctx: Context[Any]) -> None:
        shelf = ctx.object
        if shelf.metadata.labels.get("release") != release:
            await ctx.client.raw.merge(shelf, {"metadata": {"labels": {"release": release}}})

    return label


def test_two_versions_at_work_at_once_that_set_one_label_in_turns_are_named() -> None:
    both_work: Mapping[str, Any] = {"leader_election": None}
    found = broken(
        evolve(old(labels_as("one"), writes=PATCHES), **both_work),
        evolve(new(labels_as("two"), writes=PATCHES), **both_work),
    )
    assert found.laws == {"fights"}
    fight = (
        'both, in the upgrade: shelfs default/tall metadata.labels.release: the new version writes "two" '
        'and the old version writes "one", in turns'
    )
    assert fight in str(found)
    assert "give the replicas a Lease" in str(found)


async def insists_on_its_field(ctx: Context[Shelf]) -> Result:
    """Tries again until the wood is in the status, where an older definition does not keep it."""
    await shelf_v2.keep_shelf(ctx)
    return Result(requeue_after=None if ctx.object.status.wood else 1)


def test_newer_code_that_insists_on_a_field_of_its_definition_is_a_storm_under_the_older_one() -> None:
    found = broken(old(), new(insists_on_its_field))
    assert found.laws == {"storms"}
    assert "newer code, older definition: Shelf default/tall: a storm: " in str(found)
    assert "a field that the definition in force lacks is not stored" in str(found)


async def needs_a_wood(ctx: Context[Shelf]) -> None:
    if ctx.object.spec.wood is None:
        raise ValueError("a shelf needs a wood")


def test_newer_code_that_fails_for_older_objects_is_caught() -> None:
    found = broken(old(), new(needs_a_wood))
    assert "succeeds" in found.laws
    assert "shelves default/tall: the new version fails: ValueError: a shelf needs a wood" in str(found)


async def renames_its_page(ctx: Context[Shelf]) -> None:
    await ctx.apply(Intent(ConfigMap, metadata=ObjectMeta(f"{ctx.object.name}-page"), data={}))
    ctx.status(books=ctx.object.spec.books)


def test_newer_code_that_renames_a_child_leaves_two() -> None:
    found = broken(old(), new(renames_its_page))
    assert found.laws == {"reconciles"}
    assert (
        "newer code, newer definition: configmaps default/tall: 1 left, "
        "a fresh install of this version has 0" in str(found)
    )
    assert "delete what the former version made under another name" in str(found)


async def says_it_anew(ctx: Context[Shelf]) -> None:
    """Sets the condition with the time of the run where it finds that of the former version."""
    if any(one.reason == "Stocked" for one in ctx.object.status.conditions):
        return
    now = ctx.clock.now().replace(microsecond=0)
    ctx.status(conditions=(Condition("Ready", "True", "Stocked", last_transition_time=now),))


def test_newer_code_that_resets_the_time_of_a_condition_is_caught() -> None:
    found = broken(old(), new(says_it_anew))
    assert "resets" in found.laws
    assert (
        "newer code, newer definition: shelfs default/tall status.conditions[Ready].lastTransitionTime: is "
        in (str(found))
    )
    assert "and its status is True as before" in str(found)
    assert "keeps the time while the status stays" in str(found)


async def renames_its_condition(ctx: Context[Shelf]) -> None:
    data = {"books": str(ctx.object.spec.books)}
    await ctx.apply(Intent(ConfigMap, metadata=ObjectMeta(ctx.object.name), data=data))
    ctx.status(books=ctx.object.spec.books)
    now = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    ctx.status(conditions=(Condition("Available", "True", "Kept", last_transition_time=now),))


def test_newer_code_that_drops_a_type_of_condition_is_caught() -> None:
    found = broken(old(), new(renames_its_condition))
    assert "keeps" in found.laws
    assert "shelfs default/tall status.conditions[Ready].status: is lost, it was" in str(found)


def test_a_newer_definition_without_a_field_is_caught() -> None:
    found = broken(new(), old())
    text = 'shelfs default/wide spec.wood: is lost, it was "elm": the newer definition does not have it'
    assert f"older code, newer definition: {text}" in str(found)


async def nothing(ctx: Context[Any]) -> None: ...


def test_an_older_finalizer_that_newer_code_does_not_remove_is_caught() -> None:
    found = broken(old(nothing, cleanup=nothing, finalizer="old.example.com/shelves"), new(nothing))
    assert "finalizers" in found.laws
    assert "newer code, all objects deleted: shelfs default/tall is being deleted, and" in str(found)


@frozen
class NumberedSpec:
    books: str = "none"


@resource("library.example.com/v1", kind="Shelf", plural="shelfs")
class NumberedShelf(Object):
    spec: NumberedSpec = NumberedSpec()


def test_newer_code_that_cannot_read_older_objects_is_caught() -> None:
    numbered = evolve(new(), controllers=of(NumberedShelf, nothing), definitions=[definition_of(Shelf)])
    found = broken(old(nothing), numbered)
    assert "readable" in found.laws
    assert "the new version cannot read it" in str(found)


@frozen
class SafeSpec:
    password: str = field(default="", secret=True)


@resource("library.example.com/v1", namespaced=False)
class Safe(Object):
    spec: SafeSpec = SafeSpec()


def with_password(password: str) -> Callable[[], Any]:
    async def change(ctx: Context[Safe]) -> None:
        if ctx.object.spec.password != password:
            await ctx.client.raw.merge(ctx.object, {"spec": {"password": password}})

    return lambda: Controller(Safe, change, writes=[Write(Safe, ("patch",))])


def test_an_invariant_of_a_version_is_checked_while_that_version_works_alone() -> None:
    def no_page_names_a_wood(world: World) -> None:
        assert all("wood" not in page.data for page in world.objects(ConfigMap))

    found = broken(old(), evolve(new(), invariants=[no_page_names_a_wood]))
    assert found.laws == {"no_page_names_a_wood"}


def test_fields_that_change_on_purpose_can_be_left_out() -> None:
    found = broken(old(), new(renames_its_condition))
    fields = {fault.field.partition("[")[0] for fault in found.faults}
    assert fields == {".status.conditions"}
    assert upgrade(old(), new(renames_its_condition), ignoring=["shelfs.status.conditions"]).objects == 2


# --- what is refused --------------------------------------------------------------------------------


def test_scenarios_with_steps_are_refused() -> None:
    with pytest.raises(ValueError, match=r"upgrade\(\) plays steps of its own"):
        upgrade(evolve(old(), steps=[Apply(OLD)]), new())


def test_versions_whose_replicas_share_the_work_in_two_ways_are_refused() -> None:
    with pytest.raises(ValueError, match="give leader_election= or sharding= of the old Scenario"):
        upgrade(old(), evolve(new(), leader_election=None))


def test_controllers_that_are_made_already_are_refused() -> None:
    with pytest.raises(TypeError, match="a process that is started again has new ones"):
        upgrade(shelf_v1.shelves(), shelf_v2.shelves)  # type: ignore[arg-type]


def test_an_upgrade_without_objects_is_refused() -> None:
    def pages() -> Controller[Any]:
        return Controller(ConfigMap, nothing, operator="library.example.com")

    with pytest.raises(ValueError, match=r"there are no objects to upgrade.*objects=\[\.\.\.\]"):
        upgrade(pages, pages)


def test_values_of_secret_fields_are_not_shown() -> None:
    found = broken(with_password("one"), Scenario(controllers=with_password("two")))
    assert "fights" in found.laws
    assert "spec.password: the new version writes <secret>" in str(found)
    assert "two" not in str(found)


def test_an_object_that_the_definition_refuses_is_named() -> None:
    wrong = {**Apply(NEW).manifest, "spec": {"books": "many"}}
    found = broken(old(), evolve(new(), objects=[wrong]))
    assert "Shelf wide, an object of users, is refused" in str(found)
