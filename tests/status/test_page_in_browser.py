"""The status page in a real browser: its views, and that they follow what the manager tells."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.helpers.browsers import Tab
from tests.helpers.status_pages import NOW, ScriptedManager, controller_facts, life, overview, row, serving
from tests.status.page_scenes import sample_manager

SHOP = "#/object?controller=sites&key=default%2Fshop"


@pytest.fixture
async def manager() -> AsyncIterator[ScriptedManager]:
    async with serving(sample_manager()) as manager:
        yield manager


async def names_shown(tab: Tab) -> list[str]:
    """The keys in the list of objects, from the top."""
    script = """[...document.querySelectorAll('.row')]
        .sort((a, b) => a.ariaPosInSet - b.ariaPosInSet)
        .map(row => row.querySelector('bdi').innerText)"""
    return list(await tab.evaluate(script))


async def test_the_first_view_has_the_objects_by_health_and_what_to_look_at_first(
    tab: Tab, manager: ScriptedManager
) -> None:
    await tab.open(manager.url)
    await tab.until_shown("Look at these first")
    assert (await tab.text(".summary-head")).split() == [
        *("485", "objects", "2", "failing", "1", "deleting", "7", "progressing", "475", "healthy"),
    ]
    first = await tab.text(".look li")
    assert "default/shop" in first
    assert "exceeded quota" in first
    assert "back-off · in 1" in first
    assert await tab.evaluate("document.title") == "(2) sites-operator"


async def test_a_controller_shows_its_queue_its_runs_its_storms_and_how_far_it_is_behind(
    tab: Tab, manager: ScriptedManager
) -> None:
    await tab.open(manager.url)
    await tab.until("document.querySelectorAll('.card').length === 2")
    card = " ".join((await tab.text(".card")).split())
    for figure in (
        *("3 ready", "10 later", "1 back-off", "2 / 4 running", "48 runs a minute", "4 failures a minute"),
        *("1.4 s behind", "1 storm", "team-web/ticker woken by its own writes to .data.stamp"),
    ):
        assert figure in card


async def test_a_change_of_the_figures_is_shown_without_a_reload(tab: Tab, manager: ScriptedManager) -> None:
    await tab.open(manager.url)
    await tab.until_shown("48")
    await tab.evaluate("window.unchanged = true")
    busy = controller_facts(
        queue={"ready": 731, "later": 0, "backoff": 0, "oldest": 9.0}, paused=True, behind=9.0
    )
    manager.send("overview", overview(busy, now=NOW + 1, leading=False, leader="pod-xyz"))
    await tab.until_shown("731")
    shown = await tab.text()
    assert "paused" in shown
    assert "9.0 s" in shown
    assert "on standby" in shown
    assert await tab.evaluate("window.unchanged") is True


async def test_objects_are_searched_filtered_and_sorted(tab: Tab, manager: ScriptedManager) -> None:
    await tab.open(f"{manager.url}#/objects")
    await tab.until_shown("485 of 485 objects")
    assert (await names_shown(tab))[:3] == ["default/shop", "team-data/warehouse", "billing/admin-0401"]

    await tab.click("#search")
    await tab.type("shop quota")
    await tab.until_shown("1 of 485 objects")
    assert await names_shown(tab) == ["default/shop"]

    await tab.open(f"{manager.url}#/objects?condition=Stalled%3DTrue")
    await tab.until_shown("1 of 485 objects")
    assert await names_shown(tab) == ["team-data/warehouse"]

    await tab.click(".filter.healthy")
    await tab.until_shown("No object is like that")
    await tab.open(f"{manager.url}#/objects?state=paused")
    await tab.until_shown("1 of 485 objects")
    assert await names_shown(tab) == ["billing/ledger"]

    await tab.open(f"{manager.url}#/objects?sort=retries")
    await tab.until_shown("485 of 485 objects")
    assert (await names_shown(tab))[0] == "default/shop"
    await tab.open(f"{manager.url}#/objects?sort=oldest&health=healthy")
    await tab.until("document.querySelectorAll('.row').length > 5")
    created = {each[2]: each[7] for each in manager.rows if each[3] == 4}
    shown = await names_shown(tab)
    assert [created[name] for name in shown] == sorted(created.values())[: len(shown)]


async def test_a_filter_is_part_of_the_address_and_back_returns_to_the_view_before(
    tab: Tab, manager: ScriptedManager
) -> None:
    await tab.open(manager.url)
    await tab.click(".card .count.failing")
    await tab.until_shown("2 of 485 objects")
    assert (await tab.evaluate("location.hash")).startswith("#/objects?health=failing&controller=sites")
    await tab.click(".row")
    await tab.until_shown("Why not now?")
    await tab.evaluate("history.back()")
    await tab.until_shown("2 of 485 objects")
    await tab.evaluate("history.back()")
    await tab.until_shown("Look at these first")


async def test_rows_that_change_come_and_go_are_shown_as_they_are(tab: Tab, manager: ScriptedManager) -> None:
    await tab.open(f"{manager.url}#/objects?q=default%2Fshop")
    await tab.until_shown("of 485 objects")
    await tab.until("document.querySelector('.row')?.innerText.includes('4×')")
    manager.change(
        row(1, "default/shop", "healthy"), row(9001, "default/shop-new", "failing", reason="no quota")
    )
    await tab.until("document.querySelector('.row').innerText.includes('no quota')")
    assert (await names_shown(tab))[0] == "default/shop-new"
    manager.change(gone=[9001])
    await tab.until("!document.body.innerText.includes('shop-new')")


async def test_the_order_stays_while_a_pointer_is_over_the_list_and_the_rows_still_change(
    tab: Tab, manager: ScriptedManager
) -> None:
    await tab.open(f"{manager.url}#/objects")
    await tab.until_shown("485 of 485 objects")
    hover = """(() => { window.hover = setInterval(() => document.getElementById('rows').dispatchEvent(
        new PointerEvent('pointermove', {bubbles: true})), 50); })()"""
    await tab.evaluate(hover)
    await tab.evaluate("new Promise(r => setTimeout(r, 100))")
    manager.change(row(4, "checkout/cart", "failing", reason="just now", failures=99))
    await tab.until_shown("just now")
    assert (await names_shown(tab))[0] == "default/shop"
    await tab.until_shown("the order is held while you point at the list")
    await tab.evaluate("clearInterval(hover)")
    await tab.until("document.querySelector('.row').innerText.includes('default/shop') === false")
    assert (await names_shown(tab))[0] == "checkout/cart"


async def test_one_object_shows_why_it_does_not_run_and_its_runs_as_causes_and_effects(
    tab: Tab, manager: ScriptedManager
) -> None:
    await tab.open(manager.url + SHOP)
    await tab.until("document.querySelectorAll('.run').length === 3")
    now = await tab.text(".now-panel")
    assert "failed 4 times in a row" in now
    assert "tries again in 1" in now
    newest = await tab.text(".run")
    for words in (
        "failed",
        "retry 4",
        "woken by\na retry",
        "exceeded quota",
        "site.py:64",
        "tries again in",
    ):
        assert words in newest
    oldest = await tab.text(".run:last-child")
    for words in (
        "done",
        "sites default/shop updated at version 48213 by kubectl: .spec.replicas",
        "apply Deployment default/shop",
        "by run 77ab10c2 of databases billing/ledger",
    ):
        assert words in oldest
    cells = await tab.evaluate(
        "[...document.querySelectorAll('.run .fields tbody tr:first-child > *')].map(c => c.innerText)"
    )
    assert cells == [".spec.replicas", "3", "12"]


async def test_one_object_shows_its_conditions_and_what_it_owns_desired_against_live(
    tab: Tab, manager: ScriptedManager
) -> None:
    await tab.open(manager.url + SHOP)
    await tab.until_shown("Owns")
    assert "Ready\nFalse\nQuotaExceeded" in await tab.text(".conditions")
    tree = await tab.text(".tree")
    for words in (
        "Deployment",
        "differs in 1 field",
        "ReplicaSet",
        "default/shop-7c9d-4xkzp",
        "as desired",
        "missing",
    ):
        assert words in tree
    cells = await tab.evaluate(
        "[...document.querySelectorAll('.tree .fields tbody td')].map(c => c.innerText)"
    )
    assert cells == ["12", "3"]


async def test_the_life_on_show_is_asked_for_again_when_its_row_changes(
    tab: Tab, manager: ScriptedManager
) -> None:
    await tab.open(manager.url + SHOP)
    await tab.until("document.querySelectorAll('.run').length === 3")
    manager.lives["default/shop"] = life(health="healthy")
    manager.change(row(1, "default/shop", "healthy", ended=NOW))
    await tab.until_shown("It has not run since", seconds=4)
    assert "Nothing is to be done" in await tab.text(".now-panel")


async def test_an_object_that_does_not_exist_is_told_in_the_managers_words(
    tab: Tab, manager: ScriptedManager
) -> None:
    await tab.open(f"{manager.url}#/object?controller=sites&key=default%2Fnone")
    await tab.until_shown("there is no Site default/none in the cache of this manager")


async def test_clusters_show_their_informers_and_shards_who_holds_what(
    tab: Tab, manager: ScriptedManager
) -> None:
    await tab.open(f"{manager.url}#/clusters")
    await tab.until_shown("deployments.apps")
    shown = await tab.text("main")
    for words in (
        *("Cluster east", "API server away for 74 s", "4 buckets not held at this moment", "this one"),
        *("96 of 256 buckets", "leaving", "valid for 80 days more", "3.4 MB"),
    ):
        assert words in shown


@pytest.mark.parametrize(
    ("state", "facts", "words"),
    [
        (
            "back-off",
            {"next_at": NOW + 49, "sentence": "failed once, last with E; tries again in 50 s"},
            "tries again in 4",
        ),
        (
            "throttled",
            {"next_at": NOW + 49, "sentence": "slowed down, next run in 50 s: a fight"},
            "next run in 4",
        ),
        ("running", {"sentence": "running for 90 s, at shop.py:7"}, "running for 9"),
        ("paused", {"sentence": "paused by hand: resume it to have it run"}, "paused by hand"),
        ("not-leading", {"sentence": "this replica is on standby: pod-xyz leads"}, "pod-xyz leads"),
        (
            "not-synced",
            {"sentence": "waits for the first list of sites.example.com"},
            "waits for the first list",
        ),
        (
            "outage",
            {"sentence": "the API server cannot be reached, for 80 s: it runs when that answers"},
            "for 8",
        ),
        (
            "queued",
            {"sentence": "waits for one of 4 workers; 8 other keys are ready"},
            "8 other keys are ready",
        ),
    ],
)
async def test_a_list_says_why_a_key_does_not_run_now(
    tab: Tab, manager: ScriptedManager, state: str, facts: dict[str, Any], words: str
) -> None:
    manager.rows = [row(1, "default/shop", state=state, **facts)]
    await tab.open(f"{manager.url}#/objects")
    await tab.until("document.querySelector('.row') !== null")
    assert words in await tab.text(".row .cell-why")
