"""Opening a page in the user's browser, and `reconcile dev --open`."""

import sys
import threading
import time
import webbrowser
from pathlib import Path

import anyio
import pytest
from click.testing import CliRunner

from reconcile.commands.main import reconcile
from reconcile.commands.web_browser import has_display, open_in_browser, status_page
from tests.commands.helpers import running


@pytest.mark.parametrize(
    ("platform", "environment", "expected"),
    [
        ("linux", {}, False),
        ("linux", {"DISPLAY": ""}, False),
        ("linux", {"DISPLAY": ":0"}, True),
        ("linux", {"WAYLAND_DISPLAY": "wayland-0"}, True),
        ("linux", {"BROWSER": "firefox"}, True),
        ("freebsd14", {}, False),
        ("darwin", {}, True),
        ("win32", {}, True),
    ],
)
def test_a_browser_needs_a_window_or_a_name(
    platform: str, environment: dict[str, str], expected: bool
) -> None:
    assert has_display(platform, environment) is expected


@pytest.fixture
def display(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISPLAY", ":0")


async def test_without_a_display_no_browser_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    assert not await open_in_browser("http://127.0.0.1:1/status/")
    assert opened == []


@pytest.mark.usefixtures("display")
@pytest.mark.parametrize("error", [OSError("no such file"), webbrowser.Error("no browser")])
async def test_a_browser_that_does_not_start_is_none(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(url: str) -> bool:
        raise error

    monkeypatch.setattr(webbrowser, "open", fail)
    assert not await open_in_browser("http://127.0.0.1:1/status/")


@pytest.mark.usefixtures("display")
async def test_a_browser_that_is_slow_holds_nothing_up(monkeypatch: pytest.MonkeyPatch) -> None:
    started, over = threading.Event(), threading.Event()

    def slow(url: str) -> bool:
        started.set()
        return over.wait(30)

    monkeypatch.setattr(webbrowser, "open", slow)
    try:
        with anyio.move_on_after(0.2) as scope:
            await open_in_browser("http://127.0.0.1:1/status/")
        assert started.is_set()
        assert scope.cancelled_caught
    finally:
        over.set()


@pytest.mark.parametrize(
    ("address", "url"),
    [
        ("127.0.0.1:8080", "http://127.0.0.1:8080/status/"),
        ("0.0.0.0:8080", "http://127.0.0.1:8080/status/"),
        (":8080", "http://127.0.0.1:8080/status/"),
        ("[::]:8080", "http://[::1]:8080/status/"),
        ("[::1]:8080", "http://[::1]:8080/status/"),
    ],
)
def test_a_status_page_is_asked_for_at_an_address_of_this_machine(address: str, url: str) -> None:
    assert status_page(address) == url


@pytest.fixture
def greeter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(reconcile, ["init", "greeter"]).exit_code == 0
    return tmp_path / "greeter"


def test_dev_opens_the_page_in_the_browser_that_the_user_has(greeter: Path) -> None:
    """The browser is a program that notes what it is asked to show."""
    note = greeter / "opened"
    program = greeter / "browser.sh"
    program.write_text(f'#!/bin/sh\necho "$1" > {note}.part && mv {note}.part {note}\n')
    program.chmod(0o755)
    variables = {"BROWSER": f"{program} %s"}
    with running("dev", "greeter", "--open", home=greeter, variables=variables) as command:
        address = command.wait_for("status page: ").rpartition(" ")[2]
        end = time.monotonic() + 20
        while not note.exists() and time.monotonic() < end:
            time.sleep(0.05)
        assert note.read_text().strip() == address


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a browser of this system needs no display")
def test_dev_without_a_browser_says_where_the_page_is(greeter: Path) -> None:
    with running("dev", "greeter", "--open", home=greeter) as command:
        words = command.wait_for("no browser was found")
        assert words.startswith("no browser was found; open the status page by hand: http://127.0.0.1:")
        assert words.endswith("/status/")
