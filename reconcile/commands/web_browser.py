"""Opening a page in the user's browser, where there is one."""

import os
import sys
import webbrowser
from collections.abc import Mapping

import anyio.to_thread

_DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY")


async def open_in_browser(url: str) -> bool:
    """Show a page in the default browser; False if there is none that has a window of its own."""
    if not has_display(sys.platform, os.environ):
        return False
    # A browser may take seconds to start, and the command must end on Ctrl-C all the same.
    return await anyio.to_thread.run_sync(_open, url, abandon_on_cancel=True)


def has_display(platform: str, environment: Mapping[str, str]) -> bool:
    """Whether a browser would have a window; without one, it could only be one that takes the terminal."""
    if platform in ("darwin", "win32", "cygwin"):
        return True
    return bool(environment.get("BROWSER")) or any(environment.get(name) for name in _DISPLAYS)


def _open(url: str) -> bool:
    try:
        return webbrowser.open(url)
    except (OSError, webbrowser.Error):
        return False


def status_page(address: str) -> str:
    """The status page of a manager that serves its pages at `HOST:PORT`, as this machine reaches it."""
    host, _, port = address.rpartition(":")
    # The address of all interfaces is none to ask, and the pages are for names of loopback.
    reachable = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "[::]": "[::1]"}.get(host, host)
    return f"http://{reachable}:{port}/status/"
