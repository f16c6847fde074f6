"""The status page of a real manager, on a real API server, in a real browser."""

import base64
import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from informers import HttpRequest
from reconcile import Context, Controller, ObjectMeta, Result
from reconcile.embedded import InProcessTransport, User
from reconcile.kinds import ConfigMap, Secret
from tests.helpers.browsers import Tab
from tests.ops.test_pages import Lamp, LampSpec, World

PASSWORD = "correct-horse-battery-staple"
LEAKS = "#/object?controller=lamp&key=default%2Fleaks"


async def light(ctx: Context[Lamp]) -> Result | None:
    """A lamp keeps a ConfigMap; a broken one fails, one that leaks tells a secret, a slow one runs again."""
    lamp = ctx.object
    if lamp.name == "broken":
        raise ValueError("no bulb")
    if lamp.name == "leaks":
        bulb = await ctx.client.get(Secret, "bulb", "default")
        raise ValueError(f"no bulb, password={PASSWORD}, data={bulb.data}")
    if lamp.name == "slow":
        return Result(requeue_after=3600)
    watts = {"watts": str(lamp.spec.watts)}
    await ctx.apply(ConfigMap(metadata=ObjectMeta(f"{lamp.name}-watts", "default"), data=watts))
    return None


HOW_TO = Path(__file__).parents[2] / "docs" / "how-to" / "watch-an-operator.md"
lamps = Controller(Lamp, light, owns=[ConfigMap], reads=[Secret])


async def change(world: World, name: str, watts: int) -> None:
    await world.client.apply(Lamp(metadata=ObjectMeta(name, "default"), spec=LampSpec(watts)))


async def test_objects_come_fail_and_change_before_the_readers_eyes(tab: Tab) -> None:
    world = World()
    async with world.running(lamps) as (_, ask):
        await tab.open(f"http://{ask.address}/#/objects")
        await tab.until_shown("There are no objects yet")
        for name in ("broken", "fine", "slow"):
            await change(world, name, 5)
        await tab.until_shown("3 of 3 objects")
        await tab.until("document.querySelector('.row').innerText.includes('no bulb')")
        await tab.until_shown("later · in 60 min")
        await tab.evaluate("location.hash = '#/controllers'")
        await tab.until_shown("Look at these first")
        await tab.until_shown("1 failing")
        await tab.evaluate("location.hash = '#/clusters'")
        await tab.until_shown("lamps.example.com")
        await tab.until_shown("API server answers")


async def test_a_run_shows_what_woke_it_and_the_fields_that_it_wrote(tab: Tab) -> None:
    world = World()
    async with world.running(lamps) as (_, ask):
        await change(world, "fine", 5)
        await tab.open(f"http://{ask.address}/status/#/object?controller=lamp&key=default%2Ffine")
        await tab.until_shown("apply ConfigMap default/fine-watts")
        await change(world, "fine", 40)
        await tab.until("document.querySelector('.run .fields .new')?.innerText.includes('40')")
        wrote = await tab.text(".run:has(.fields)")
        assert "lamps.example.com default/fine updated" in wrote
        assert ".data.watts" in wrote
        # The cache shows the write, which wakes the key once more.
        await tab.until("document.querySelectorAll('.run').length > 3")
        assert "by this key: .data.watts" in await tab.text(".run")
        assert "as desired" in await tab.text(".tree")


async def test_a_planted_secret_is_nowhere_in_the_page(tab: Tab) -> None:
    world = World()
    data = {"token": base64.b64encode(PASSWORD.encode()).decode()}
    await world.client.create(Secret(metadata=ObjectMeta("bulb", "default"), data=data))
    async with world.running(lamps) as (_, ask):
        await change(world, "leaks", 5)
        for view in ("#/controllers", "#/objects", LEAKS, "#/clusters"):
            await tab.open("about:blank")
            await tab.open(f"http://{ask.address}/status/{view}")
            await tab.until_shown("Live")
            await tab.until_shown("API server answers" if "clusters" in view else "no bulb")
            shown = await tab.evaluate("document.documentElement.outerHTML + document.title")
            assert PASSWORD not in shown
            assert data["token"] not in shown


async def test_a_key_is_triggered_paused_and_resumed_by_its_buttons(tab: Tab) -> None:
    world = World()
    async with world.running(lamps) as (_, ask):
        await change(world, "fine", 5)
        await tab.open(f"http://{ask.address}/status/#/object?controller=lamp&key=default%2Ffine")
        await tab.click(".actions button")
        await tab.until_shown("It is queued to run.")
        await tab.until_shown("triggered: by hand", seconds=5)
        await tab.click(".actions button:last-child")
        await tab.click("dialog button.main")
        await tab.until_shown("paused by hand")
        await change(world, "fine", 60)
        await tab.click(".actions button:last-child")
        await tab.until("document.querySelector('.run .fields .new')?.innerText.includes('60')", seconds=8)


async def test_the_page_comes_back_after_a_restart_of_its_manager(tab: Tab) -> None:
    world = World()
    async with world.running(lamps) as (_, ask):
        address = ask.address
        await change(world, "fine", 5)
        await tab.open(f"http://{address}/status/#/objects")
        await tab.until_shown("1 of 1 object")
    await tab.until("document.body.classList.contains('stale')")
    async with World().running(lamps, serve=address):
        await tab.until("!document.body.classList.contains('stale')")
        await tab.until_shown("There are no objects yet")


def roles() -> list[dict[str, Any]]:
    """The ClusterRoles of the how-to."""
    (block,) = re.findall(r"```yaml\n(.*?)```", HOW_TO.read_text(), flags=re.DOTALL)
    return list(yaml.safe_load_all(block))


def granted(role: str) -> set[tuple[str, str]]:
    """Verbs and URLs of a ClusterRole of the how-to."""
    (found,) = [each for each in roles() if each["metadata"]["name"] == role]
    return {
        (verb, url) for rule in found["rules"] for verb in rule["verbs"] for url in rule["nonResourceURLs"]
    }


async def test_the_roles_of_the_how_to_grant_what_the_page_asks_for_and_no_more(tab: Tab) -> None:
    world = World()
    async with world.running(lamps) as (_, ask):
        await change(world, "fine", 5)
        await tab.open(f"http://{ask.address}/status/#/object?controller=lamp&key=default%2Ffine")
        await tab.until_shown("apply ConfigMap default/fine-watts")
        assert asked_for(tab) == granted("sites-viewer")
        await tab.click(".actions button")
        await tab.until_shown("It is queued to run.")
        await tab.click(".actions button:last-child")
        await tab.click("dialog button.main")
        await tab.until_shown("paused by hand")
        await tab.click(".actions button:last-child")
        await tab.until_shown("It runs again.")
        assert asked_for(tab) == granted("sites-operator")


def asked_for(tab: Tab) -> set[tuple[str, str]]:
    """Verbs and paths of the requests for data; the page itself and its files are for all."""
    paths = {urlsplit(address).path for address in tab.requests} - {"/", "/status/", "blank"}
    return {
        ("post" if path.startswith("/debug/") else "get", path)
        for path in paths
        if not path.startswith("/status/assets/")
    }


async def bound(world: World) -> None:
    """Make the roles of the how-to, each bound to the user of its name."""
    group = "rbac.authorization.k8s.io"
    for role in roles():
        name = role["metadata"]["name"]
        binding = {
            "apiVersion": f"{group}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "subjects": [{"apiGroup": group, "kind": "User", "name": name}],
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
        }
        for plural, body in (("clusterroles", role), ("clusterrolebindings", binding)):
            path, headers = f"/apis/{group}/v1/{plural}", {"content-type": "application/json"}
            transport = InProcessTransport(world.server)
            answer = await transport.request(
                HttpRequest("POST", path, {}, headers, json.dumps(body).encode())
            )
            assert answer.status == 201


@pytest.mark.parametrize(("user", "acts"), [("sites-viewer", False), ("sites-operator", True)])
async def test_the_api_server_decides_by_the_readers_token_who_sees_and_who_acts(
    tab: Tab, user: str, acts: bool
) -> None:
    world = World()
    await bound(world)
    with world.server.tokens.knowing({"token-of-the-reader": User(user)}):
        async with world.running(lamps, serve_review=True) as (_, ask):
            await change(world, "fine", 5)
            await tab.open(f"http://{ask.address}/status/#/object?controller=lamp&key=default%2Ffine")
            await tab.until("document.activeElement?.id === 'token'")
            assert "fine-watts" not in await tab.text()
            await tab.type("token-of-the-reader")
            await tab.press("Enter")
            await tab.until_shown("apply ConfigMap default/fine-watts")
            await tab.until_shown("Live")
            if not acts:
                assert "Run now" not in await tab.text()
            else:
                await tab.until_shown("Run now")
                await tab.click(".actions button")
                await tab.until_shown("It is queued to run.")
