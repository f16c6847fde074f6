"""A new version of a kind comes into production: served, stored, migrated, and the old one dropped."""

from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any

import pytest
from attrs import frozen

from reconcile import Object, resource
from reconcile.models import Schema
from reconcile.testing.virtual_time import simulate
from reconcile.webhooks.definition_rollout import DefinitionRefused
from reconcile.webhooks.wanted_definitions import WantedDefinition, wanted_definition
from tests.helpers.sweeps import sweep_runs
from tests.webhooks.migrating_shops import (
    DEFINITION,
    GROUP,
    SECOND,
    THIRD,
    Acting,
    Killing,
    Shops,
    first_release,
    release,
)
from tests.webhooks.shops import Shop, ShopAlpha, ShopBeta

STEPS = sweep_runs(12)


def versions(definition: dict[str, Any]) -> list[tuple[str, bool, bool]]:
    found = definition["spec"]["versions"]
    return [(version["name"], version["served"], version["storage"]) for version in found]


async def test_a_definition_is_created_with_its_conversion() -> None:
    shops = await first_release(0)
    definition = await shops.definition()
    assert versions(definition) == [("v1beta1", True, True), ("v1alpha1", True, False)]
    assert definition["spec"]["conversion"]["strategy"] == "Webhook"


async def test_the_newest_version_becomes_the_stored_one_and_objects_are_migrated() -> None:
    shops = await first_release(3)
    assert await shops.rollout(release(Shop, ShopBeta, ShopAlpha)).finish()
    definition = await shops.definition()
    assert ("v1", True, True) in versions(definition)
    assert definition["status"]["storedVersions"] == ["v1"]
    assert shops.stored_as() == {f"{GROUP}/v1"}
    assert {spec["size"] for spec in (await shops.specs("v1beta1")).values()} == {1, 2, 3}
    assert {spec["motto"] for spec in (await shops.specs("v1beta1")).values()} == {"open"}


async def test_a_version_without_a_class_is_dropped_after_objects_are_migrated() -> None:
    shops = await first_release(3)
    assert await shops.rollout(release(Shop, ShopBeta, ShopAlpha)).finish()
    assert await shops.rollout(THIRD).finish()
    definition = await shops.definition()
    assert versions(definition) == [("v1", True, True)]
    assert definition["spec"]["conversion"] == {"strategy": "None"}
    for item in (await shops.ask("GET", f"/apis/{GROUP}/v1/shops"))["items"]:
        managed = item["metadata"].get("managedFields", ())
        assert {entry["apiVersion"] for entry in managed} <= {f"{GROUP}/v1"}
    await shops.make("v1", "new", replicas=7)


async def test_what_is_done_is_not_done_again() -> None:
    shops = await first_release(2)
    assert await shops.rollout(SECOND).finish()
    before = await shops.definition()
    assert await shops.rollout(SECOND).finish()
    assert await shops.definition() == before


async def test_a_version_is_not_stored_before_objects_are_readable_in_it() -> None:
    shops = await first_release(1)
    shops.broken = {"shop-0"}
    assert not await shops.rollout(SECOND).finish()
    assert ("v1", True, False) in versions(await shops.definition())
    assert shops.reports.reasons[-1] == "ConversionNotReady"


async def test_serving_stores_nothing_otherwise() -> None:
    shops = await first_release(2)
    await shops.rollout(SECOND).serve()
    definition = await shops.definition()
    assert versions(definition) == [("v1beta1", True, True), ("v1alpha1", True, False), ("v1", True, False)]
    assert set(await shops.specs("v1")) == {"shop-0", "shop-1"}


@pytest.mark.rule("definitions-refused")
@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (release(ShopBeta, ShopAlpha), "are stored as v1, which this release cannot convert"),
        (wanted_definition([ShopAlpha]), "Run a release with the classes of all these versions"),
    ],
)
async def test_an_older_release_is_refused_with_the_next_step(wanted: WantedDefinition, words: str) -> None:
    shops = await first_release(1)
    assert await shops.rollout(release(Shop, ShopBeta, ShopAlpha)).finish()
    with pytest.raises(DefinitionRefused, match=words):
        await shops.rollout(wanted).serve()
    with pytest.raises(DefinitionRefused, match=words):
        await shops.rollout(wanted).finish()


async def test_a_change_of_the_definition_during_a_migration_is_not_overlooked() -> None:
    shops = await first_release(3)
    changed = {"spec": {"names": {"categories": ["all"]}}}
    acting = Acting(shops.transport, "PATCH", partial(shops.ask, "PATCH", DEFINITION, changed))
    assert await shops.rollout(SECOND, acting).finish()
    definition = await shops.definition()
    assert definition["spec"]["names"]["categories"] == ["all"]
    assert definition["status"]["storedVersions"] == ["v1"]
    marker = definition["metadata"]["annotations"][f"{GROUP}/migrated-generation"]
    assert shops.reports.reasons.count("ObjectsMigrated") == 3
    assert int(marker) < definition["metadata"]["generation"]


RELEASES = (release(Shop, ShopBeta, ShopAlpha), SECOND, THIRD)


def wide(steps: int) -> Sequence[int]:
    """Numbers of requests to be killed at: all of them, or `STEPS` spread evenly."""
    if STEPS is None or steps <= STEPS:
        return range(1, steps + 1)
    return sorted({1 + round(place * (steps - 1) / (STEPS - 1)) for place in range(STEPS)})


async def requests_of_all_releases(count: int, migrates: bool) -> int:
    shops, total = await first_release(count, migrates=migrates), 0
    for wanted in RELEASES:
        counting = Killing(shops.transport, 0, False)
        await shops.rollout(wanted, counting).finish()
        total += counting.count
    return total


async def migrate_killed(count: int, kill: int, late: bool, migrates: bool) -> None:
    """Each release follows the last one; a process is killed at one request, and another one goes on."""
    shops = await first_release(count, migrates=migrates)
    before = await shops.specs("v1beta1")
    for wanted in RELEASES:
        killing = Killing(shops.transport, kill, late)
        with killing.scope:
            await shops.rollout(wanted, killing).finish()
        kill -= killing.count
        stored = {name.rpartition("/")[2] for name in shops.stored_as()}
        assert stored <= set((await shops.definition())["status"]["storedVersions"])
        assert len(await shops.specs("v1beta1" if wanted is not THIRD else "v1")) == count
        assert await shops.rollout(wanted).finish()
    await check_end(shops, before)


async def check_end(shops: Shops, before: Any) -> None:
    definition = await shops.definition()
    assert versions(definition) == [("v1", True, True)]
    assert definition["status"]["storedVersions"] == ["v1"]
    assert shops.stored_as() == {f"{GROUP}/v1"}
    after = await shops.specs("v1")
    sizes = {name: spec["size"] for name, spec in before.items()}
    assert {name: spec["replicas"] for name, spec in after.items()} == sizes


@pytest.mark.rule("definitions-restart")
@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("migrates", [False, True])
def test_a_process_killed_at_any_request_loses_nothing_and_another_one_goes_on(
    late: bool, migrates: bool
) -> None:
    async def story() -> None:
        for kill in wide(await requests_of_all_releases(4, migrates)):
            await migrate_killed(4, kill, late, migrates)

    simulate(story, limit_seconds=1e6)


@pytest.mark.parametrize("migrates", [False, True])
def test_an_object_that_cannot_be_converted_is_named_and_stops_only_the_dropping(migrates: bool) -> None:
    async def story() -> None:
        shops = await first_release(5, migrates=migrates)
        await shops.rollout(SECOND).serve()
        await broken_after_the_probe(shops, "shop-3")

    simulate(story)


async def broken_after_the_probe(shops: Shops, name: str) -> None:
    breaking = Acting(shops.transport, "PUT", partial(shut, shops, name))
    assert not await shops.rollout(SECOND, breaking).finish()
    definition = await shops.definition()
    assert ("v1", True, True) in versions(definition)
    assert set(definition["status"]["storedVersions"]) == {"v1beta1", "v1"}
    assert shops.names_stored_as("v1beta1") == {name}
    assert shops.reports.heard[-1].reason == "ObjectsNotMigrated"
    assert "1 objects cannot be stored in v1" in shops.reports.heard[-1].note
    assert f"default/{name}" in shops.reports.heard[-1].note
    shops.broken = set()
    assert await shops.rollout(SECOND).finish()
    assert (await shops.definition())["status"]["storedVersions"] == ["v1"]


async def shut(shops: Shops, name: str) -> None:
    shops.broken = {name}


def test_a_definition_whose_names_another_one_has_is_reported() -> None:
    async def story() -> None:
        shops = Shops()
        other = {**THIRD.body, "metadata": {"name": f"stores.{GROUP}"}}
        names = {**other["spec"]["names"], "plural": "stores", "singular": "store"}
        other["spec"] = {**other["spec"], "names": names}
        await shops.ask("POST", DEFINITION.rpartition("/")[0], other)
        await shops.rollout(THIRD).serve()
        assert not await shops.rollout(THIRD).finish()
        assert shops.reports.reasons[-1] == "DefinitionNotEstablished"
        assert "already in use" in shops.reports.heard[-1].note

    simulate(story)


@frozen
class PatternSpec:
    size: int = 1
    ports: tuple[int, ...] = ()
    motto: Annotated[str | None, Schema(pattern=r"^(?!x)[a-z]+$")] = None


@resource(f"{GROUP}/v1beta1", kind="Shop")
class ShopOfAPattern(Object):
    """Its pattern is one of Python, and none of an API server."""

    spec: PatternSpec = PatternSpec()


async def test_a_pattern_that_no_server_takes_is_refused_and_ends_nothing() -> None:
    shops = await first_release(1)
    with pytest.raises(DefinitionRefused, match=r"an API server refuses their schema: .*see reconcile check"):
        await shops.rollout(wanted_definition([ShopOfAPattern])).finish()
