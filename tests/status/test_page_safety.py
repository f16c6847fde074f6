"""What objects call themselves does nothing to the status page, and it asks no other host for anything."""

import re
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest

from tests.helpers.browsers import Tab
from tests.helpers.status_pages import (
    PAGE,
    POLICY,
    ScriptedManager,
    controller_facts,
    life,
    overview,
    row,
    serving,
)
from tests.status.page_scenes import sample_manager

SCRIPT = "<script>window.caught = 1</script><img src=x onerror='window.caught = 2'>"
STYLE = "</style><style>* { display: none }</style>"
BIDI = "safe\u202etxet\u2066hidden\u200b\u0000\u001b[31m"
LONG = "x" * 1_000_000
HOSTILE = {"script": SCRIPT, "style": STYLE, "bidi": BIDI, "long": LONG, "link": "javascript:window.caught=3"}
VIEWS = ("#/controllers", "#/objects", "#/clusters")
MOST_BYTES = 150_000
BESIDES = {
    "The manager's /readyz fails",
    "The API server decides who may see this page. Give a token that it knows, for example from ",
}
"""What the page explains, and is no error."""


@pytest.fixture
async def manager() -> AsyncIterator[ScriptedManager]:
    async with serving(sample_manager()) as manager:
        yield manager


def hostile_manager(text: str) -> tuple[ScriptedManager, str]:
    """A manager in which all that can be chosen by others is `text`; and the key of its object."""
    key = f"{text}/{text}"
    node = {"kind": text, "key": key, "uid": text, "health": "healthy", "desired": "differs", "more": 0}
    fields = [{"path": text, "desired": text, "live": text}]
    write = {"verb": text, "kind": text, "key": key, "at": None, "seconds": 0.1, "text": text}
    run = {
        "id": text,
        "started": 1.0,
        "ended": 2.0,
        "attempt": 1,
        "result": text,
        "error": text,
        "at": text,
        "next_at": None,
        "reads": [{"kind": text, "key": key}] * 6,
        "woken_by": [{"what": text, "at": 1.0, "from": {"controller": text, "key": key, "run": text}}],
        "writes": [{**write, "fields": [{"path": text, "old": text, "new": text}]}],
    }
    condition = {"type": text, "status": text, "reason": text, "message": text, "since": 1.0}
    manager = ScriptedManager(
        [row(1, key, "failing", reason=text, state="back-off", sentence=text, conditions=[text])],
        overview(
            controller_facts(
                text, resource=text, cluster=text, storms=[{"key": key, "message": text, "throttled_for": 1}]
            ),
            clusters=[
                {"name": text, "reachable": False, "synced": False, "down_seconds": 1.0, "informers": []}
            ],
            shards={
                "ring": text,
                "identity": text,
                "buckets": 2,
                "held": 1,
                "members": [{"identity": text, "held": 1, "state": text}],
            },
            leader=text,
        ),
        name=text,
    )
    manager.lives[key] = life(
        key,
        reason=text,
        conditions=[condition],
        runs=[run],
        kind=text,
        finalizers=[text],
        tree={**node, "fields": [], "children": [{**node, "fields": fields, "children": []}]},
    )
    return manager, key


async def test_all_views_ask_only_their_own_host_and_break_no_rule_of_the_policy(
    tab: Tab, manager: ScriptedManager
) -> None:
    await tab.open(manager.url)
    await tab.until_shown("Look at these first")
    await tab.click(".look a")
    await tab.until("document.querySelectorAll('.run').length === 3")
    await tab.click(".actions button")
    await tab.until_shown("It is queued to run.")
    for view in VIEWS:
        await tab.evaluate(f"location.hash = '{view}'")
        await tab.evaluate("new Promise(r => requestAnimationFrame(() => requestAnimationFrame(r)))")
    await tab.press("?", shift=True)
    await tab.until_shown("next or previous row")
    hosts = {urlsplit(address).netloc for address in tab.requests if not address.startswith("about:")}
    assert hosts == {urlsplit(manager.url).netloc}
    assert tab.problems == []


async def test_the_browser_does_hold_the_page_to_its_policy(tab: Tab, manager: ScriptedManager) -> None:
    """Without this, a policy that is not sent or not read would go unnoticed."""
    assert "unsafe" not in POLICY
    await tab.open(manager.url)
    await tab.until_shown("Look at these first")
    await tab.evaluate(
        "document.body.insertAdjacentHTML('beforeend', '<p id=styled style=\"color: red\">x</p>')"
    )
    await tab.until("true")
    tries = """new Promise(done => { const script = document.createElement('script');
        script.textContent = 'window.caught = 1'; document.body.append(script);
        fetch('https://example.invalid/').then(() => done('sent'), error => done('refused')); })"""
    assert await tab.evaluate(tries) == "refused"
    assert await tab.evaluate("window.caught") is None
    assert any("policy" in problem or "Content Security Policy" in problem for problem in tab.problems)
    tab.problems.clear()


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
async def test_hostile_names_and_messages_are_text_of_bounded_length_in_every_view(
    tab: Tab, text: str
) -> None:
    manager, key = hostile_manager(text)
    object_view = (
        f"#/object?controller={quote(text[:50], safe='')}&key={quote(key, safe='')}"
        if text is not LONG
        else "#/objects"
    )
    async with serving(manager):
        for view in (*VIEWS, object_view):
            await tab.open("about:blank")
            await tab.open(manager.url + view)
            await tab.until_shown("Live")
            await tab.until("document.querySelector('main h1, main h2') !== null")
            if view.startswith("#/object?"):
                await tab.until("document.querySelectorAll('.run').length === 1")
            assert await tab.evaluate("window.caught") is None
            assert await tab.evaluate("document.querySelector('main script, main img, main style')") is None
            shown = await tab.evaluate("document.documentElement.textContent")
            assert len(shown) < 60_000
            assert not set(shown) & set("\u202e\u2066\u200b\u0000\u001b")
            links = await tab.evaluate("[...document.querySelectorAll('a')].map(a => a.getAttribute('href'))")
            assert all(link.startswith("#") for link in links)


async def test_data_that_no_view_expects_is_said_and_does_not_stop_the_page(
    tab: Tab, manager: ScriptedManager
) -> None:
    manager.lives["default/shop"] = {"now": 1}
    await tab.open(f"{manager.url}#/object?controller=sites&key=default%2Fshop")
    await tab.until_shown("This view cannot be shown")
    await tab.press("1")
    await tab.until_shown("Look at these first")
    assert any("exception" in problem for problem in tab.problems)
    tab.problems.clear()


def test_the_files_are_small_together_and_name_no_other_host() -> None:
    files = sorted(PAGE.iterdir())
    assert {file.suffix for file in files} == {".html", ".css", ".js", ".svg"}
    assert sum(file.stat().st_size for file in files) < MOST_BYTES
    for file in files:
        text = file.read_text().replace("http://www.w3.org/2000/svg", "")
        assert "://" not in text, file.name


@pytest.mark.parametrize("file", sorted(PAGE.glob("*.js")), ids=lambda file: file.name)
def test_no_module_makes_markup_of_text_or_runs_it(file: Path) -> None:
    text = file.read_text()
    for name in (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "new Function",
        "setHTML",
    ):
        assert name not in text


@pytest.mark.parametrize("file", sorted(PAGE.glob("*.js")), ids=lambda file: file.name)
def test_a_module_is_short_enough_to_be_read(file: Path) -> None:
    lines = file.read_text().splitlines()
    assert len(lines) < 320
    assert lines[0].startswith("// ")
    assert max(map(len, lines)) <= 130


def test_every_message_of_the_page_is_in_the_index_of_errors() -> None:
    errors = (PAGE.parents[2] / "docs" / "reference" / "errors.md").read_text()
    index = errors.partition("## The status page")[2].partition("\n## ")[0]
    listed = {message.rstrip("…") for message in re.findall(r"^\| `([^`]+)`", index, re.MULTILINE)}
    said = "\n".join(file.read_text() for file in PAGE.glob("*.js"))
    assert [message for message in listed if message not in said] == []
    failures = re.findall(r'"((?:The (?:manager|stream|API server)|You have|Not followed)[^"]*)"', said)
    assert {each.rstrip(".") for each in failures} <= {each.rstrip(".") for each in listed} | BESIDES


def test_the_page_asks_for_all_modules_at_once() -> None:
    asked = re.findall(r'(?:href|src)="assets/([a-z_]+\.js)"', (PAGE / "index.html").read_text())
    assert sorted(asked) == sorted(file.name for file in PAGE.glob("*.js"))


def test_the_page_says_what_to_do_without_scripts() -> None:
    assert "reconcile top" in (PAGE / "index.html").read_text()
