"""The operator's tests: single runs, and then every single fault."""

from datetime import timedelta
from typing import Any

import pytest
from attrs import evolve
from cleaners import EVERY, Cleaner, CleanerSpec, cleaners

from reconcile import LabelSelector, ObjectMeta, OwnerReference
from reconcile.errors import Forbidden, Invalid
from reconcile.kinds import ConfigMap
from reconcile.testing import (
    Apply,
    Edit,
    FakeClient,
    JumpClock,
    Meanwhile,
    Scenario,
    World,
    run_once,
    sweep,
)

HOUR = 3600.0
SPEC = CleanerSpec("ConfigMap", max_age=timedelta(hours=1))
DAILY = Cleaner(metadata=ObjectMeta("daily", "default"), spec=SPEC)


def preview(name: str, **more: Any) -> ConfigMap:
    return ConfigMap(metadata=evolve(ObjectMeta(name, "default"), **more))


async def names(client: FakeClient) -> list[str]:
    return sorted(one.name for one in await client.list(ConfigMap))


def an_hour_later(*objects: ConfigMap, **spec: Any) -> FakeClient:
    client = FakeClient(DAILY.replace(spec=evolve(SPEC, **spec)), *objects)
    client.clock.advance(HOUR + 1)
    return client


async def test_old_objects_are_deleted_unless_they_are_kept_or_owned() -> None:
    client = FakeClient(DAILY, preview("old"))
    kept = client.add(preview("kept", labels={"keep": ""}))
    owner = OwnerReference("v1", "ConfigMap", "kept", kept["metadata"]["uid"])
    client.add(preview("owned", owner_references=(owner,)))
    client.clock.advance(HOUR + 1)
    client.add(preview("young"))
    done = await run_once(cleaners, DAILY, client)
    assert done.writes == ["delete configmaps default/old", "patch cleaners/status default/daily"]
    assert done.undeclared == []
    assert await names(client) == ["kept", "owned", "young"]
    assert (await run_once(cleaners, DAILY, client)).writes == []


async def test_a_dry_run_names_the_objects_that_would_be_deleted() -> None:
    client = an_hour_later(preview("old"), dry_run=True)
    await run_once(cleaners, DAILY, client)
    assert await names(client) == ["old"]
    assert (await client.get(Cleaner, "daily", "default")).status.would_go == ("old",)


async def test_only_selected_objects_are_deleted() -> None:
    old = preview("old", labels={"app": "shop"})
    client = an_hour_later(old, preview("other"), selector=LabelSelector({"app": "shop"}))
    await run_once(cleaners, DAILY, client)
    assert await names(client) == ["other"]


async def test_an_object_that_is_labelled_at_the_last_moment_is_kept() -> None:
    client = an_hour_later(preview("old"))
    client.fail("delete", ConfigMap, Meanwhile(Edit("", {"metadata": {"labels": {"keep": ""}}})))
    assert (await run_once(cleaners, DAILY, client)).retry
    assert (await run_once(cleaners, DAILY, client)).error is None
    assert await names(client) == ["old"]


async def test_an_object_that_cannot_be_deleted_does_not_block_the_others() -> None:
    client = an_hour_later(preview("a"), preview("b"))
    client.fail("delete", "*/configmaps/a", Forbidden)
    assert (await run_once(cleaners, DAILY, client)).retry
    assert await names(client) == ["a"]


async def test_an_age_that_is_not_positive_is_refused() -> None:
    with pytest.raises(Invalid, match=r"spec\.maxAge"):
        FakeClient(DAILY.replace(spec=evolve(SPEC, max_age=timedelta())))


def what_is_kept_stays(world: World) -> None:
    assert world.find(ConfigMap, "kept")


def test_a_cleaner_survives_every_fault() -> None:
    scenario = Scenario(
        controllers=lambda: cleaners,
        objects=[preview("old-1"), preview("old-2"), preview("kept", labels={"keep": ""})],
        steps=[Apply(DAILY), JumpClock(HOUR), Apply(preview("young"))],
        always=[what_is_kept_stays],
        quiet_seconds=2 * EVERY,
    )
    print(sweep(scenario))
