"""The copier at work, for the kind of its how-to page."""

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from attrs import frozen

from reconcile import Condition, Context, Controller, Key, Object, ObjectMeta, resource
from reconcile.blocks import Content, Copier, Copy, Unusable
from reconcile.kinds import Namespace, Secret
from reconcile.models import definition_of, encode
from reconcile.simulation import Delays
from reconcile.testing import FakeClient, Fault, FaultPlan, Refuse, When, run_once, simulate
from tests.controllers.world import World, world
from tests.helpers.scenarios import in_world

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "copy-objects.md"
CODE = "\n".join(re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL))
PAGE_NAMES: dict[str, Any] = {"__name__": "copy_objects"}
exec(compile(CODE, str(PAGE), "exec"), PAGE_NAMES)
Team: Any = PAGE_NAMES["Team"]
TeamSpec: Any = PAGE_NAMES["TeamSpec"]
teams: Controller[Any] = PAGE_NAMES["teams"]


@frozen
class RegionStatus:
    conditions: tuple[Condition, ...] = ()


@resource("example.com/v1", namespaced=False)
class Region(Object):
    status: RegionStatus = RegionStatus()


CA = Secret(metadata=ObjectMeta("ca", "shared"), data={"ca.crt": "Y2E="})


def team(*namespaces: str, name: str = "blue") -> Any:
    return Team(metadata=ObjectMeta(name, "teams"), spec=TeamSpec(namespaces))


def spaces(*names: str) -> list[Namespace]:
    return [Namespace(metadata=ObjectMeta(name)) for name in names]


async def copied(client: Any) -> dict[str, dict[str, str]]:
    found = await client.list(Secret)
    return {one.namespace: dict(one.data) for one in found if one.name == "ca" and one.namespace != "shared"}


def controller_of(copier: Copier[Any]) -> Controller[Any]:
    async def keep(ctx: Any) -> None:
        ctx.status(copies=(await copier.keep(ctx)).copies)

    return Controller(
        Team,
        keep,
        cleanup=copier.remove,
        watches=copier.watches,
        indexes=copier.indexes,
        writes=copier.writes,
    )


def test_the_page_is_under_fifty_lines() -> None:
    assert len(PAGE.read_text().splitlines()) < 44


async def test_the_controller_on_the_page_copies_updates_and_cleans_up() -> None:
    client = FakeClient(*spaces("a", "b"), CA, team("a", "b"))
    assert (await run_once(teams, "teams/blue", client)).error is None
    assert await copied(client) == {"a": {"ca.crt": "Y2E="}, "b": {"ca.crt": "Y2E="}}
    assert (await run_once(teams, "teams/blue", client)).writes == []
    status = (await client.get(Team, "blue", "teams")).status
    source = await client.get(Secret, "ca", "shared")
    versions = [(one.namespace, one.source_resource_version) for one in status.copies]
    assert versions == [(space, source.metadata.resource_version) for space in ("a", "b")]

    await client.modify(Team, "blue", "teams", lambda old: old.replace(spec=TeamSpec(("b",))))
    await run_once(teams, "teams/blue", client)
    assert set(await copied(client)) == {"b"}
    await client.delete(await client.get(Team, "blue", "teams"))
    await run_once(teams, "teams/blue", client)
    assert await copied(client) == {}
    assert await client.find(Team, "blue", "teams") is None


async def test_a_namespace_is_created_only_if_requested() -> None:
    client = FakeClient(CA, team("a"))
    made = await run_once(teams, "teams/blue", client)
    assert (made.error, made.conditions["Ready"]["message"]) == (None, "there is no Namespace a")
    making = controller_of(
        Copier(Team, PAGE_NAMES["copies_of"], namespaces=lambda team: team.spec.namespaces)
    )
    await run_once(making, "teams/blue", client)
    assert set(await copied(client)) == {"a"}


async def test_a_failure_in_one_namespace_blocks_no_other_and_its_report_omits_the_servers_words() -> None:
    refused = Refuse(403, "Forbidden", "quoting Y2E=")
    plan = FaultPlan((Fault(When("create", "*/namespaces/a/secrets"), refused),))
    client = FakeClient(*spaces("a", "b"), CA, team("a", "b"), plan=plan)
    made = await run_once(teams, "teams/blue", client)
    assert made.retry
    assert str(made.error) == "Secret a/ca could not be written: 403 Forbidden"
    assert made.conditions["Ready"]["message"] == str(made.error)
    assert set(await copied(client)) == {"b"}
    await run_once(teams, "teams/blue", client)
    assert set(await copied(client)) == {"a", "b"}


async def test_a_copy_that_appears_during_its_creation_is_decided_again() -> None:
    exists = Refuse(409, "AlreadyExists", "there already")
    client = FakeClient(
        *spaces("a"), CA, team("a"), plan=FaultPlan((Fault(When("create", "*/secrets"), exists),))
    )
    made = await run_once(teams, "teams/blue", client)
    assert made.retry
    assert made.events == []
    assert (await run_once(teams, "teams/blue", client)).error is None
    assert set(await copied(client)) == {"a"}


async def test_additions_of_others_to_a_copy_survive_its_replacement() -> None:
    client = FakeClient(*spaces("a"), CA, team("a"))
    await run_once(teams, "teams/blue", client)
    copy = await client.get(Secret, "ca", "a")
    patch = {
        "immutable": True,
        "data": {"ca.crt": "eA=="},
        "metadata": {"labels": {"team": "blue"}, "annotations": {"why": "so"}},
    }
    await client.raw.merge(copy, patch, guard={})
    made = await run_once(teams, "teams/blue", client)
    assert made.writes[:2] == ["delete secrets a/ca", "create secrets a/ca"]
    mended = await client.get(Secret, "ca", "a")
    assert (mended.data, mended.metadata.labels["team"]) == ({"ca.crt": "Y2E="}, "blue")
    assert mended.metadata.annotations["why"] == "so"


async def test_copiers_with_different_names_leave_each_others_copies_alone() -> None:
    def tokens(team: Any) -> list[Copy]:
        content = Content.of_text(token="t")
        return [Copy(Key(name, "token"), content=content) for name in team.spec.namespaces]

    client = FakeClient(*spaces("a"), CA, team("a"))
    other = controller_of(Copier(Team, tokens, name="tokens"))
    await run_once(teams, "teams/blue", client)
    await run_once(other, "teams/blue", client)
    for controller in (teams, other):
        assert [w for w in (await run_once(controller, "teams/blue", client)).writes if "secrets" in w] == []
    assert await client.find(Secret, "ca", "a") is not None
    assert await client.find(Secret, "token", "a") is not None


async def test_an_unusable_spec_changes_nothing_and_does_not_block_removal() -> None:
    def copies(team: Any) -> list[Copy]:
        if not team.spec.namespaces:
            raise Unusable("NoNamespaces", "spec.namespaces is empty")
        copies: list[Copy] = PAGE_NAMES["copies_of"](team)
        return copies

    client = FakeClient(*spaces("a"), CA, team("a"))
    controller = controller_of(Copier(Team, copies))
    await run_once(controller, "teams/blue", client)
    await client.modify(Team, "blue", "teams", lambda old: old.replace(spec=TeamSpec(())))
    made = await run_once(controller, "teams/blue", client)
    assert made.conditions["Ready"]["reason"] == "NoNamespaces"
    assert [event for event in made.events if event.startswith("Warning")] == [
        "Warning NoNamespaces: spec.namespaces is empty"
    ]
    assert (await run_once(controller, "teams/blue", client)).events == []
    assert set(await copied(client)) == {"a"}
    await client.delete(await client.get(Team, "blue", "teams"))
    await run_once(controller, "teams/blue", client)
    assert await copied(client) == {}


# In a manager: what wakes whom, on late watches.


@asynccontextmanager
async def played(seed: int) -> AsyncIterator[World]:
    async with world(seed, definition_of(Team), delays=Delays()) as here:
        for space in spaces("shared", "teams", "a", "b"):
            await here.user.create(space)
        yield here


def simulated(scenario: Callable[[World], Awaitable[None]], seed: int = 0) -> None:
    async def run() -> None:
        async with played(seed) as here:
            await scenario(here)

    simulate(run, seed=seed)


@pytest.mark.parametrize("seed", range(5))
@in_world(simulated)
async def test_sources_copies_and_namespaces_wake_exactly_the_affected_owners(here: World, seed: int) -> None:
    async with here.running(teams) as recorded:
        await here.user.create(team("a", "later"))
        await here.user.create(team("b", name="red"))
        await anyio.sleep(5)
        source = await here.user.create(CA)
        await anyio.sleep(5)
        assert set(await copied(here.user)) == {"a", "b"}
        await here.user.create(Namespace(metadata=ObjectMeta("later")))
        await anyio.sleep(5)
        assert set(await copied(here.user)) == {"a", "b", "later"}

        await here.user.raw.merge(source, {"data": {"ca.crt": "bmV3"}}, guard={})
        await anyio.sleep(5)
        assert set(map(str, (await copied(here.user)).values())) == {"{'ca.crt': 'bmV3'}"}
        assert len([r.path for r in recorded.writes if "/secrets" in r.path]) == 6

        sent = len(recorded.writes)
        await here.user.delete(await here.user.get(Secret, "ca", "a"))
        await anyio.sleep(5)
        again = [(r.verb, r.path) for r in recorded.writes[sent:] if "/secrets" in r.path]
        assert again == [("create", "/api/v1/namespaces/a/secrets")]


def test_a_cluster_scoped_kind_with_long_names_can_have_copies() -> None:
    name = "north-" + "x" * 100
    copier = Copier(Region, lambda region: [Copy(Key("a", "ca"), Key("shared", "ca"))], name="r" * 80)

    async def keep(ctx: Context[Region]) -> None:
        await copier.keep(ctx)

    regions = Controller(
        Region,
        keep,
        cleanup=copier.remove,
        watches=copier.watches,
        indexes=copier.indexes,
        writes=copier.writes,
    )

    async def scenario(here: World) -> None:
        await here.user.apply(definition_of(Region))
        await here.user.create(CA)
        async with here.running(regions) as recorded:
            region = await here.user.create(Region(metadata=ObjectMeta(name)))
            await anyio.sleep(5)
            assert set(await copied(here.user)) == {"a"}
            sent = len(recorded.writes)
            await anyio.sleep(300)
            assert len(recorded.writes) == sent
            await here.user.delete(region)
            await anyio.sleep(5)
            assert await copied(here.user) == {}

    simulated(scenario)


@pytest.mark.parametrize("seed", range(3))
@in_world(simulated)
async def test_a_manager_killed_during_a_rotation_still_writes_each_copy_once(here: World, seed: int) -> None:
    source = await here.user.create(CA)
    await here.user.create(team("a", "b"))
    async with here.running(teams):
        await anyio.sleep(5)
    before = await here.user.get(Secret, "ca", "a")
    async with here.running(teams) as first:
        await here.user.raw.merge(source, {"data": {"ca.crt": "bmV3"}}, guard={})
        await anyio.sleep(0.05 * (1 + seed))
    async with here.running(teams) as second:
        await anyio.sleep(10)
    wrote = [r.path for r in (*first.writes, *second.writes) if "/secrets/" in r.path]
    assert sorted(wrote) == sorted(set(wrote))
    after = await here.user.get(Secret, "ca", "a")
    assert (after.uid, after.data) == (before.uid, {"ca.crt": "bmV3"})


@in_world(simulated)
async def test_no_value_of_a_source_is_stored_with_the_owner(here: World) -> None:
    await here.user.create(CA)
    await here.user.create(team("a"))
    async with here.running(teams):
        await anyio.sleep(5)
    assert "Y2E=" not in str(encode(await here.user.get(Team, "blue", "teams")))
