"""The operator's tests: pass by pass, and then every single fault."""

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


async def test_what_is_old_goes_and_what_is_young_or_kept_or_owned_stays() -> None:
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


async def test_a_dry_run_names_what_would_go() -> None:
    client = an_hour_later(preview("old"), dry_run=True)
    await run_once(cleaners, DAILY, client)
    assert await names(client) == ["old"]
    assert (await client.get(Cleaner, "daily", "default")).status.would_go == ("old",)


async def test_only_what_is_selected_goes() -> None:
    old = preview("old", labels={"app": "shop"})
    client = an_hour_later(old, preview("other"), selector=LabelSelector({"app": "shop"}))
    await run_once(cleaners, DAILY, client)
    assert await names(client) == ["other"]


async def test_a_label_that_comes_at_the_last_moment_is_in_time() -> None:
    client = an_hour_later(preview("old"))
    client.fail("delete", ConfigMap, Meanwhile(Edit("", {"metadata": {"labels": {"keep": ""}}})))
    assert (await run_once(cleaners, DAILY, client)).retry
    assert (await run_once(cleaners, DAILY, client)).error is None
    assert await names(client) == ["old"]


async def test_what_may_not_be_deleted_holds_up_nothing_else() -> None:
    client = an_hour_later(preview("a"), preview("b"))
    client.fail("delete", "*/configmaps/a", Forbidden)
    assert (await run_once(cleaners, DAILY, client)).retry
    assert await names(client) == ["a"]


async def test_an_age_that_would_be_anything_is_refused() -> None:
    with pytest.raises(Invalid, match=r"spec\.maxAge"):
        FakeClient(DAILY.replace(spec=evolve(SPEC, max_age=timedelta())))


def what_is_kept_stays(world: World) -> None:
    assert world.find(ConfigMap, "kept")


def test_a_cleaner_survives_whatever_goes_wrong() -> None:
    scenario = Scenario(
        controllers=lambda: cleaners,
        objects=[preview("old-1"), preview("old-2"), preview("kept", labels={"keep": ""})],
        steps=[Apply(DAILY), JumpClock(HOUR), Apply(preview("young"))],
        always=[what_is_kept_stays],
        quiet_seconds=2 * EVERY,
    )
    print(sweep(scenario))
