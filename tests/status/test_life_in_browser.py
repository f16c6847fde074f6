"""An exported life as a browser shows it: from a file, without a server."""

from pathlib import Path
from typing import Any

import pytest

from reconcile.status.life_form import read_life
from reconcile.status.life_html import html_of
from tests.helpers.browsers import Tab
from tests.helpers.lives import a_life

GROUND = "getComputedStyle(document.body).backgroundColor"
PLANTED = "<img src=x onerror='window.planted = 1'><script>window.planted = 1</script>"


def written(folder: Path, life: dict[str, Any]) -> str:
    file = folder / "life.html"
    file.write_text(html_of(read_life(life)))
    return file.as_uri()


def with_long_lists() -> dict[str, Any]:
    life = a_life()
    life["runs"][0]["reads"] = [{"kind": "Pod", "key": f"default/p{number}"} for number in range(20)]
    return life


async def test_the_file_has_its_style_and_its_script_and_asks_for_nothing(tab: Tab, tmp_path: Path) -> None:
    address = written(tmp_path, a_life())
    await tab.open(address)
    await tab.until_shown("failed 2 times in a row, last with ValueError: no bulb")
    assert await tab.evaluate("getComputedStyle(document.querySelector('.badge')).borderStyle") == "solid"
    await tab.until("[...document.querySelectorAll('time')].every(time => time.title)")
    assert tab.requests == [address]


async def test_a_press_on_a_cause_leads_to_the_run_that_wrote(tab: Tab, tmp_path: Path) -> None:
    await tab.open(written(tmp_path, a_life()))
    await tab.click("a[href='#run-0000000a']")
    await tab.until("document.querySelector(':target')?.innerText.includes('.spec.replicas')")


@pytest.mark.rule("life-export")
async def test_a_script_that_was_planted_in_an_object_does_not_run(tab: Tab, tmp_path: Path) -> None:
    life = {**a_life(), "reason": PLANTED, "key": PLANTED}
    life["runs"][0]["error"] = life["conditions"][0]["message"] = f"</style>{PLANTED}"
    await tab.open(written(tmp_path, life))
    await tab.until_shown(PLANTED)
    assert await tab.evaluate("'planted' in window") is False
    assert await tab.evaluate("document.querySelectorAll('script').length") == 1


@pytest.mark.parametrize("dark", [False, True])
async def test_the_file_follows_the_colours_of_the_reader(dark: bool, tab: Tab, tmp_path: Path) -> None:
    await tab.shaped(1280, 860, dark=dark)
    await tab.open(written(tmp_path, a_life()))
    await tab.until_shown("Site default/shop")
    colours = {"dark": "rgb(20, 23, 27)", "light": "rgb(255, 255, 255)"}
    assert await tab.evaluate(GROUND) == colours["dark" if dark else "light"]


async def test_the_file_fits_a_phone(tab: Tab, tmp_path: Path) -> None:
    await tab.shaped(360, 740, phone=True)
    life = {**a_life(), "reason": "x" * 3000, "key": f"default/{'y' * 253}"}
    await tab.open(written(tmp_path, life))
    await tab.until_shown("What it owns")
    assert await tab.evaluate("document.documentElement.scrollWidth") == 360


async def test_on_paper_nothing_is_folded(tab: Tab, tmp_path: Path) -> None:
    await tab.open(written(tmp_path, with_long_lists()))
    await tab.until_shown("20 objects")
    assert "default/p19" not in await tab.text()
    await tab.call("Page.printToPDF")
    await tab.until_shown("default/p19")
