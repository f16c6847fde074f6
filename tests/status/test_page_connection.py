"""The status page and its manager: who may see it, what happens when it is away, and what may be done."""

import re
from collections.abc import AsyncIterator
from itertools import pairwise

import pytest

from tests.helpers.browsers import Tab
from tests.helpers.status_pages import NOW, ScriptedManager, overview, row, serving
from tests.status.page_scenes import sample_manager

SHOP = "#/object?controller=sites&key=default%2Fshop"
TRIES = "performance.getEntriesByType('resource').filter(e => e.name.endsWith('/stream'))"
TOKEN = "eyJhbGciOiJSUzI1NiJ9.c3RhdHVz.c2lnbmF0dXJl"


@pytest.fixture
async def manager() -> AsyncIterator[ScriptedManager]:
    async with serving(sample_manager()) as manager:
        yield manager


# --- tokens -------------------------------------------------------------------------------------------


async def test_where_a_token_is_asked_for_the_page_asks_and_keeps_it_in_memory_alone(
    tab: Tab, manager: ScriptedManager
) -> None:
    manager.token = TOKEN
    await tab.open(manager.url + SHOP)
    await tab.until("document.activeElement?.id === 'token'")
    await tab.until_shown("The API server asks who you are")
    assert "exceeded quota" not in await tab.text()

    await tab.type("wrong")
    await tab.press("Enter")
    await tab.until_shown("The API server did not accept that token")
    await tab.type(f"Bearer {TOKEN} ")
    await tab.press("Enter")
    await tab.until_shown("Live")
    await tab.until("document.querySelectorAll('.run').length === 3")

    stored = "JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie, location.href])"
    assert TOKEN not in await tab.evaluate(stored)
    assert TOKEN not in await tab.evaluate("document.documentElement.outerHTML")
    assert not any(TOKEN in address for address in tab.requests)


async def test_a_token_that_is_not_given_is_not_asked_for_again_but_can_be_given_later(
    tab: Tab, manager: ScriptedManager
) -> None:
    manager.token = TOKEN
    await tab.open(manager.url + SHOP)
    await tab.until("document.activeElement?.id === 'token'")
    await tab.press("Escape")
    await tab.until("document.querySelector('dialog') === null")
    asked = len(manager.asked)
    await tab.evaluate("new Promise(r => setTimeout(r, 5500))")
    assert await tab.evaluate("document.querySelector('dialog')") is None
    assert len(manager.asked) <= asked + 1
    await tab.click(".live.lost button")
    await tab.until("document.activeElement?.id === 'token'")


async def test_who_has_no_right_is_told_so_and_asked_for_nothing(tab: Tab, manager: ScriptedManager) -> None:
    manager.refuses = (403, "this page is for this machine only: use kubectl port-forward\n")
    await tab.open(manager.url)
    await tab.until_shown("this page is for this machine only: use kubectl port-forward")
    assert await tab.evaluate("document.querySelector('dialog')") is None


# --- a manager that goes away -------------------------------------------------------------------------


async def test_a_lost_connection_is_said_its_data_marked_as_old_and_it_comes_back_by_itself(
    tab: Tab,
) -> None:
    async with serving(sample_manager()) as manager:
        await tab.open(f"{manager.url}#/objects")
        await tab.until_shown("485 of 485 objects")
        port = int(re.findall(r":(\d+)/", manager.url)[0])
    await tab.until("document.body.classList.contains('stale')")
    await tab.until_shown("The manager does not answer · again in")
    assert "data from" in await tab.text("#top")
    assert "default/shop" in await tab.text("main")

    again = ScriptedManager([row(77, "default/newcomer")], overview(), name="after-the-restart")
    async with serving(again, port):
        await tab.until_shown("after-the-restart")
        await tab.until_shown("1 of 1 object")
        assert not await tab.evaluate("document.body.classList.contains('stale')")
        assert "default/newcomer" in await tab.text("main")
        assert "default/shop" not in await tab.text("main")


async def test_a_manager_with_too_many_viewers_is_tried_again_and_its_words_are_shown(
    tab: Tab, manager: ScriptedManager
) -> None:
    manager.refuses = (503, "8 pages follow this manager already: close one\n")
    await tab.open(manager.url)
    await tab.until_shown("8 pages follow this manager already: close one · again in")
    manager.refuses = None
    await tab.until_shown("Look at these first")


async def test_tries_are_further_and_further_apart(tab: Tab, manager: ScriptedManager) -> None:
    manager.refuses = (503, "not now\n")
    await tab.open(manager.url)
    await tab.until(f"{TRIES}.length > 3")
    times: list[float] = await tab.evaluate(f"{TRIES}.map(e => e.startTime)")
    gaps = [after - before for before, after in pairwise(times)]
    assert 300 < gaps[0] < gaps[1] < gaps[2]


async def test_objects_that_went_while_the_page_was_away_are_gone_once_it_is_back(
    tab: Tab, manager: ScriptedManager
) -> None:
    await tab.open(f"{manager.url}#/objects")
    await tab.until_shown("485 of 485 objects")
    manager.rows = manager.rows[2:]
    manager.end_streams()
    await tab.until_shown("483 of 483 objects")
    assert "warehouse" not in await tab.text("main")


async def test_a_page_that_is_left_gives_its_stream_back(tab: Tab, manager: ScriptedManager) -> None:
    await tab.open(manager.url)
    await tab.until_shown("Live")
    assert manager.streams == 1
    await tab.open("about:blank")
    await tab.until("location.href === 'about:blank'")
    manager.send("overview", {**overview(), "now": NOW + 1})
    manager.send("overview", {**overview(), "now": NOW + 2})
    for _ in range(100):
        if manager.streams == 0:
            break
        await tab.evaluate("new Promise(r => setTimeout(r, 20))")
        manager.change()
    assert manager.streams == 0


FAST = """
const real = window.setTimeout;
window.setTimeout = (work, wait, ...more) => real(work, wait >= 20000 ? wait / 100 : wait, ...more);
"""
"""Makes the page's long waits, of 20 s and more, a hundred times shorter."""


async def until_streams(tab: Tab, manager: ScriptedManager, number: int) -> None:
    for _ in range(200):
        if manager.streams == number:
            return
        manager.change()  # a closed connection is noticed at the next write
        await tab.evaluate("new Promise(r => requestAnimationFrame(r))")
    raise AssertionError(f"expected {number} streams, got {manager.streams}")


async def test_a_stream_that_says_nothing_for_40_s_is_taken_for_lost(
    tab: Tab, manager: ScriptedManager
) -> None:
    await tab.call("Page.addScriptToEvaluateOnNewDocument", source=FAST)
    await tab.open(manager.url)
    await tab.until_shown("Live")
    await tab.until_shown("The manager does not answer", seconds=5)
    await tab.until_shown("Live")


async def test_a_hidden_tab_gives_its_stream_back_and_follows_again_when_it_is_looked_at(
    tab: Tab, manager: ScriptedManager
) -> None:
    await tab.call("Page.addScriptToEvaluateOnNewDocument", source=FAST)
    await tab.open(f"{manager.url}#/objects")
    await tab.until_shown("485 of 485 objects")
    hide = """Object.defineProperty(document, 'hidden', {value: %s, configurable: true});
        document.dispatchEvent(new Event('visibilitychange'))"""
    await tab.evaluate(hide % "true")
    await tab.until("document.body.innerText.includes('Not followed while this tab is hidden')")
    await until_streams(tab, manager, 0)
    await tab.evaluate(hide % "false")
    await tab.until_shown("Live")
    await until_streams(tab, manager, 1)


# --- actions ------------------------------------------------------------------------------------------


async def test_a_run_is_asked_for_with_one_press_and_a_pause_only_after_a_question(
    tab: Tab, manager: ScriptedManager
) -> None:
    await tab.open(manager.url + SHOP)
    await tab.click(".actions button")
    await tab.until_shown("It is queued to run.")
    assert manager.acted == [("trigger", "sites", "default/shop")]

    await tab.click(".actions button:last-child")
    await tab.until_shown("Pause default/shop?")
    await tab.press("Escape")
    await tab.until("document.querySelector('dialog') === null")
    assert len(manager.acted) == 1
    await tab.click(".actions button:last-child")
    await tab.click("dialog button.main")
    await tab.until_shown("It is paused.")
    assert manager.acted[1:] == [("pause", "sites", "default/shop")]

    manager.change(
        row(1, "default/shop", state="paused", sentence="paused by hand: resume it to have it run")
    )
    await tab.until_shown("Resume")
    await tab.click(".actions button:last-child")
    await tab.until_shown("It runs again.")
    assert manager.acted[2:] == [("resume", "sites", "default/shop")]


async def test_the_buttons_do_not_move_when_the_life_of_the_object_arrives(
    tab: Tab, manager: ScriptedManager
) -> None:
    known = manager.lives.pop("default/shop")
    await tab.open(manager.url + SHOP)
    await tab.until_shown("Run now")
    place = "document.querySelector('.actions').getBoundingClientRect().top"
    before = await tab.evaluate(place)
    manager.lives["default/shop"] = known
    manager.change(row(1, "default/shop", "failing", reason="changed"))
    await tab.until_shown("Why not now?")
    assert abs(await tab.evaluate(place) - before) < 1


async def test_an_action_names_the_cluster_of_its_object(tab: Tab, manager: ScriptedManager) -> None:
    manager.overview["controllers"][0]["cluster"] = "east"
    await tab.open(manager.url + SHOP)
    await tab.until_shown("Run now")
    await tab.click(".actions button")
    await tab.until_shown("It is queued to run.")
    assert manager.acted == [("trigger", "sites", "east:default/shop")]


async def test_an_action_that_is_refused_says_why(tab: Tab, manager: ScriptedManager) -> None:
    manager.on_action = lambda action, kind, key: "the replica pod-b holds Site default/shop: ask that one"
    await tab.open(manager.url + SHOP)
    await tab.click(".actions button")
    await tab.until_shown("the replica pod-b holds Site default/shop: ask that one")


async def test_where_nothing_may_be_done_there_are_no_buttons_for_it(
    tab: Tab, manager: ScriptedManager
) -> None:
    manager.actions = False
    await tab.open(manager.url + SHOP)
    await tab.until_shown("Why not now?")
    assert await tab.evaluate("document.querySelector('.actions')") is None
    assert "Run now" not in await tab.text()
