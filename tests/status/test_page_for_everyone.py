"""The status page by keyboard, on a phone, in the dark, and for screen readers."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.helpers.browsers import Tab
from tests.helpers.status_pages import ScriptedManager, row, serving
from tests.status.page_scenes import sample_manager

VIEWS = {
    "controllers": ("", "Look at these first"),
    "objects": ("#/objects", "485 of 485 objects"),
    "object": ("#/object?controller=sites&key=default%2Fshop", "Why not now?"),
    "clusters": ("#/clusters", "deployments.apps"),
}
LIGHTNESS = """
const lightness = ([r, g, b]) => {
  const linear = v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const [x, y, z] = [r, g, b].map(v => linear(v / 255));
  return 0.2126 * x + 0.7152 * y + 0.0722 * z;
};
const numbers = color => color.match(/[\\d.]+/g).map(Number);
const ground = element => {
  for (let at = element; at; at = at.parentElement) {
    const color = numbers(getComputedStyle(at).backgroundColor);
    if (color.length < 4 || color[3] > 0.99) return color;
  }
  return [255, 255, 255];
};
const contrast = element => {
  const pair = [numbers(getComputedStyle(element).color), ground(element)].map(lightness);
  pair.sort((a, b) => b - a);
  return (pair[0] + 0.05) / (pair[1] + 0.05);
};
"""

WEAK_TEXTS = (
    "(() => {"
    + LIGHTNESS
    + """
    const hasText = element => [...element.childNodes].some(n => n.nodeType === 3 && n.data.trim());
    const texts = [...document.querySelectorAll('body *')].filter(
        e => e.checkVisibility() && !e.closest('.unseen') && hasText(e));
    if (texts.length < 10) return ['hardly any texts'];
    return texts.filter(e => contrast(e) < 4.5)
        .map(e => [e.tagName, e.className, e.innerText.slice(0, 40), contrast(e)]); })()"""
)
NAME_OF_FOCUS = """(() => {
    const at = document.activeElement;
    return at === document.body ? '' : at.id || at.ariaLabel || at.innerText.trim(); })()"""


@pytest.fixture
async def manager() -> AsyncIterator[ScriptedManager]:
    async with serving(sample_manager()) as manager:
        yield manager


async def show(tab: Tab, manager: ScriptedManager, view: str) -> None:
    address, words = VIEWS[view]
    await tab.open(manager.url + address)
    await tab.until_shown(words)


async def active_row(tab: Tab) -> str:
    """The name of the row that the list says is active."""
    script = """(() => {
        const active = document.getElementById('rows').getAttribute('aria-activedescendant');
        return document.getElementById(active)?.querySelector('bdi').innerText ?? ''; })()"""
    return str(await tab.evaluate(script))


# --- keyboard -----------------------------------------------------------------------------------------


async def test_an_object_is_found_opened_and_left_with_the_keyboard_alone(
    tab: Tab, manager: ScriptedManager
) -> None:
    await show(tab, manager, "controllers")
    await tab.press("/")
    await tab.until("document.activeElement.id === 'search'")
    await tab.type("warehouse")
    await tab.until_shown("1 of 485 objects")
    await tab.press("Enter")
    await tab.until("document.querySelector('.object-head h1')?.innerText.includes('warehouse')")
    await tab.press("Escape")
    await tab.until("location.hash.startsWith('#/objects?q=warehouse')")
    await tab.until("document.activeElement.id === 'rows'")
    await tab.press("Escape")
    await tab.until_shown("Look at these first")


async def test_j_and_k_move_through_all_rows_and_keep_the_active_one_in_sight(
    tab: Tab, manager: ScriptedManager
) -> None:
    await show(tab, manager, "objects")
    await tab.press("j")
    await tab.until("document.querySelector('.row.active') !== null")
    assert await active_row(tab) == "default/shop"
    await tab.press("j")
    await tab.until("document.querySelector('.row.active').innerText.includes('warehouse')")
    await tab.press("k")
    await tab.until("document.querySelector('.row.active').innerText.includes('default/shop')")
    await tab.press("End")
    await tab.until("document.querySelector('.row.active')?.ariaPosInSet === '485'")
    inside = """(() => { const a = document.querySelector('.row.active').getBoundingClientRect();
        const b = document.getElementById('rows').getBoundingClientRect();
        return a.top >= b.top && a.bottom <= b.bottom + 1; })()"""
    assert await tab.evaluate(inside)
    await tab.press("Home")
    await tab.until("document.querySelector('.row.active')?.ariaPosInSet === '1'")
    await tab.press("Enter")
    await tab.until_shown("Why not now?")


async def test_numbers_change_the_view_and_a_question_mark_lists_the_keys(
    tab: Tab, manager: ScriptedManager
) -> None:
    await show(tab, manager, "controllers")
    await tab.press("3")
    await tab.until_shown("deployments.apps")
    await tab.press("2")
    await tab.until_shown("485 of 485 objects")
    await tab.press("1")
    await tab.until_shown("Look at these first")
    await tab.press("?", shift=True)
    await tab.until_shown("next or previous row")
    await tab.press("Escape")
    await tab.until("document.querySelector('dialog') === null")
    assert "Look at these first" in await tab.text()


async def test_tab_reaches_every_link_and_button_but_the_rows_which_are_one_stop(
    tab: Tab, manager: ScriptedManager
) -> None:
    await show(tab, manager, "objects")
    await tab.evaluate("document.activeElement.blur()")
    reached: list[str] = []
    for _ in range(30):
        await tab.press("Tab")
        at = await tab.evaluate(NAME_OF_FOCUS)
        if at and reached and at == reached[0]:
            break
        reached.append(at)
    words = "\n".join(reached)
    for name in ("Skip to the content", "Controllers", "Clusters", "Theme", "Keys and words", "search"):
        assert name in words
    for name in ("failing", "healthy", "rows"):
        assert name in words
    assert "warehouse" not in words


# --- sizes --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("view", VIEWS)
async def test_a_phone_shows_each_view_without_scrolling_sideways(
    tab: Tab, manager: ScriptedManager, view: str
) -> None:
    long = "a-name-that-is-as-long-as-names-may-be-" * 6
    manager.rows = [row(1, f"{long}/{long}", "failing", reason=long * 3), *manager.rows]
    await tab.shaped(360, 740, phone=True)
    address, _ = VIEWS[view]
    await tab.open(manager.url + address)
    await tab.until_shown("Live")
    await tab.until("document.querySelector('h1, h2, .row') !== null")
    assert await tab.evaluate("document.documentElement.scrollWidth") == 360
    too_wide = """[...document.querySelectorAll('main *')]
        .filter(e => e.getBoundingClientRect().right > 361 && !e.closest('.unseen')
            && !getClipped(e)).map(e => `${e.tagName}.${e.className}`)"""
    clipped = """window.getClipped = e => { for (let at = e.parentElement; at; at = at.parentElement)
        if (getComputedStyle(at).overflowX !== 'visible') return true; return false; }; 0"""
    await tab.evaluate(clipped)
    assert await tab.evaluate(too_wide) == []


async def test_on_a_phone_the_filters_open_by_a_button(tab: Tab, manager: ScriptedManager) -> None:
    await tab.shaped(360, 740, phone=True)
    await show(tab, manager, "objects")
    assert await tab.evaluate("document.querySelector('.filter.failing').offsetParent === null")
    await tab.click(".filters-button")
    await tab.click(".filter.failing")
    await tab.until_shown("2 of 485 objects")


# --- colours ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("view", VIEWS)
async def test_every_text_has_enough_contrast(
    tab: Tab, manager: ScriptedManager, view: str, dark: bool
) -> None:
    await tab.shaped(1280, 860, dark=dark)
    await show(tab, manager, view)
    weak: list[Any] = await tab.evaluate(WEAK_TEXTS)
    assert weak == []


async def test_dark_follows_the_system_until_the_reader_chooses_and_the_choice_stays(
    tab: Tab, manager: ScriptedManager
) -> None:
    ground = "getComputedStyle(document.documentElement).backgroundColor"
    await tab.shaped(1280, 860, dark=True)
    await show(tab, manager, "controllers")
    dark = await tab.evaluate(ground)
    await tab.press("t")
    await tab.until(f"{ground} !== '{dark}'")
    assert await tab.evaluate("document.documentElement.dataset.theme") == "light"
    await show(tab, manager, "clusters")
    assert await tab.evaluate("document.documentElement.dataset.theme") == "light"
    await tab.press("t")
    await tab.until(f"{ground} === '{dark}'")


async def test_nothing_moves_for_those_who_asked_for_that(tab: Tab, manager: ScriptedManager) -> None:
    await show(tab, manager, "controllers")
    moving = "document.getAnimations().length"
    assert await tab.evaluate(moving) == 0
    await tab.call("Emulation.setEmulatedMedia", features=[])
    await tab.until(f"{moving} > 0")


# --- screen readers -----------------------------------------------------------------------------------


@pytest.mark.parametrize("view", VIEWS)
async def test_whatever_can_be_pressed_or_filled_has_a_name(
    tab: Tab, manager: ScriptedManager, view: str
) -> None:
    await show(tab, manager, view)
    tree = await tab.call("Accessibility.getFullAXTree")
    wanted = {
        "button",
        "link",
        "searchbox",
        "textbox",
        "combobox",
        "listbox",
        "option",
        "navigation",
        "image",
        "img",
    }
    found = [node for node in tree["nodes"] if not node["ignored"] and node["role"]["value"] in wanted]
    assert len(found) > 5
    nameless = [node["role"]["value"] for node in found if not node.get("name", {}).get("value", "").strip()]
    assert nameless == []


@pytest.mark.parametrize("view", VIEWS)
async def test_each_view_has_one_title_and_the_focus_goes_into_it(
    tab: Tab, manager: ScriptedManager, view: str
) -> None:
    await show(tab, manager, "clusters" if view != "clusters" else "controllers")
    address, words = VIEWS[view]
    await tab.evaluate(f"location.hash = {(address or '#/controllers')!r}")
    await tab.until_shown(words)
    assert await tab.evaluate("document.querySelectorAll('h1').length") == 1
    assert await tab.evaluate("document.getElementById('main').contains(document.activeElement)")


async def test_updates_of_rows_are_not_read_out_but_a_lost_connection_is(
    tab: Tab, manager: ScriptedManager
) -> None:
    await show(tab, manager, "objects")
    for number in range(5):
        manager.change(row(1, "default/shop", "failing", reason=f"change {number}"))
    await tab.until_shown("change 4")
    assert await tab.evaluate("document.querySelectorAll('[aria-live]').length") == 1
    announced = "document.getElementById('announcer').textContent"
    assert await tab.evaluate(announced) == ""
    manager.end_streams()
    await tab.until(f"{announced}.includes('The manager closed the connection')")
    await tab.until(f"{announced} === 'Live again'")
