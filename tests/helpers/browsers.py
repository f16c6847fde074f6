"""A headless Chromium for tests of pages, driven by its DevTools protocol over aiohttp's WebSocket."""

import asyncio
import base64
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import aiohttp
from attrs import define, field

NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
HOW_TO_INSTALL: Final = (
    "no Chromium here, which these tests drive: apt-get install chromium, or set BROWSER_PROGRAM to one"
)
START_SECONDS: Final = 30.0
WAIT_SECONDS: Final = 15.0

_FLAGS: Final = (
    "--headless=new",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-sync",
    "--force-color-profile=srgb",
    "--hide-scrollbars",
    "--lang=en-US",
    "--mute-audio",
    "--remote-debugging-port=0",
)
_KEYS: Final = {"Enter": 13, "Escape": 27, "Tab": 9, "ArrowDown": 40, "ArrowUp": 38, "End": 35, "Home": 36}


def browser_program() -> str | None:
    """The browser of this machine, if there is one."""
    asked = os.environ.get("BROWSER_PROGRAM", "")
    return next((found for name in (asked, *NAMES) if name and (found := shutil.which(name))), None)


class PageError(AssertionError):
    """A script of a test failed in the page, or what it waits for did not come."""


@define(eq=False)
class Tab:
    """One page. `problems`: errors of scripts, the console and the policy; `requests`: all addresses."""

    _socket: aiohttp.ClientWebSocketResponse
    problems: list[str] = field(factory=list, init=False)
    requests: list[str] = field(factory=list, init=False)
    _answers: dict[int, asyncio.Future[dict[str, Any]]] = field(factory=dict, init=False)
    _count: int = field(default=0, init=False)

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        """A command of the protocol. Raises PageError with the browser's words."""
        self._count += 1
        number, answer = self._count, asyncio.get_running_loop().create_future()
        self._answers[number] = answer
        await self._socket.send_json({"id": number, "method": method, "params": params})
        async with asyncio.timeout(START_SECONDS):
            result: dict[str, Any] = await answer
        if "error" in result:
            raise PageError(f"{method}: {result['error']['message']}")
        return result["result"]  # type: ignore[no-any-return]

    async def listen(self) -> None:
        async for message in self._socket:
            told = json.loads(message.data)
            if "id" in told:
                answer = self._answers.pop(told["id"], None)
                if answer is not None and not answer.done():
                    answer.set_result(told)
            elif (note := _NOTES.get(told["method"])) is not None:
                note(self, told["params"])

    async def enable(self) -> None:
        for domain in ("Page", "Runtime", "Network", "Log", "Audits"):
            await self.call(f"{domain}.enable")

    async def open(self, url: str) -> None:
        await self.call("Page.navigate", url=url)

    async def shaped(self, width: int, height: int, *, dark: bool = False, phone: bool = False) -> None:
        """Give the page a size (px) and a colour scheme, without movements."""
        await self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=phone,
        )
        features = [
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
            {"name": "prefers-reduced-motion", "value": "reduce"},
        ]
        await self.call("Emulation.setEmulatedMedia", features=features)

    async def evaluate(self, script: str) -> Any:
        """The value of an expression; a promise is awaited."""
        answer = await self.call(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True, userGesture=True
        )
        if "exceptionDetails" in answer:
            raise PageError(f"{script}: {answer['exceptionDetails']['exception'].get('description')}")
        return answer["result"].get("value")

    async def until(self, script: str, seconds: float = WAIT_SECONDS) -> Any:
        """The value of an expression once it is true."""
        value: Any = None
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not (value := await self.evaluate(script)):
                    await asyncio.sleep(0.02)
                return value
        shown = await self.evaluate("document.body?.innerText ?? ''")
        raise PageError(
            f"not within {seconds:g} s: {script}\nthe page shows:\n{shown[:2000]}\n{self.problems}"
        )

    async def until_shown(self, text: str, seconds: float = WAIT_SECONDS) -> None:
        """Wait until the page shows a text, in one line or in several."""
        shown = "(document.body?.innerText ?? '').replace(/\\s+/g, ' ')"
        await self.until(f"{shown}.includes({json.dumps(text)})", seconds)

    async def text(self, selector: str = "body") -> str:
        """The visible text of the first element that fits."""
        return str(await self.evaluate(f"document.querySelector({json.dumps(selector)}).innerText"))

    async def click(self, selector: str) -> None:
        """Press the middle of the first element that fits, as a person does."""
        chosen = json.dumps(selector)
        await self.until(f"!!document.querySelector({chosen})?.checkVisibility()")
        x, y = await self.evaluate(
            f"(() => {{ const e = document.querySelector({chosen}); e.scrollIntoView({{block: 'nearest'}}); "
            "const b = e.getBoundingClientRect(); return [b.x + b.width / 2, b.y + b.height / 2]; })()"
        )
        await self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        for kind in ("mousePressed", "mouseReleased"):
            await self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    async def press(self, key: str, *, shift: bool = False) -> None:
        code = _KEYS.get(key)
        text = "\r" if key == "Enter" else "" if code else key
        event: dict[str, Any] = {"key": key, "modifiers": 8 if shift else 0}
        if code is not None:
            event |= {"code": key, "windowsVirtualKeyCode": code}
        await self.call(
            "Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", text=text, **event
        )
        await self.call("Input.dispatchKeyEvent", type="keyUp", **event)

    async def type(self, text: str) -> None:
        await self.call("Input.insertText", text=text)

    async def picture(self) -> bytes:
        """What the page looks like, as PNG."""
        # Two frames: the first may still be under way.
        await self.evaluate("new Promise(r => requestAnimationFrame(() => requestAnimationFrame(r)))")
        answer = await self.call("Page.captureScreenshot", format="png")
        return base64.b64decode(answer["data"])

    def _note_console(self, told: Mapping[str, Any]) -> None:
        if told["type"] in ("error", "warning", "assert"):
            self.problems.append(f"console: {[each.get('value') for each in told['args']]}")

    def _note_exception(self, told: Mapping[str, Any]) -> None:
        details = told["exceptionDetails"]
        self.problems.append(f"exception: {details.get('exception', {}).get('description', details['text'])}")

    def _note_log(self, told: Mapping[str, Any]) -> None:
        entry = told["entry"]
        # A refused request is a line of the log too; tests that refuse some look at the page itself.
        if entry["level"] in ("error", "warning") and entry["source"] != "network":
            self.problems.append(f"log: {entry['source']}: {entry['text']}")

    def _note_issue(self, told: Mapping[str, Any]) -> None:
        if told["issue"]["code"] == "ContentSecurityPolicyIssue":
            self.problems.append(f"policy: {told['issue']['details']}")

    def _note_request(self, told: Mapping[str, Any]) -> None:
        self.requests.append(told["request"]["url"])


_NOTES: Final[Mapping[str, Callable[[Tab, Mapping[str, Any]], None]]] = {
    "Runtime.consoleAPICalled": Tab._note_console,
    "Runtime.exceptionThrown": Tab._note_exception,
    "Log.entryAdded": Tab._note_log,
    "Audits.issueAdded": Tab._note_issue,
    "Network.requestWillBeSent": Tab._note_request,
}


@asynccontextmanager
async def opened_tab(address: str) -> AsyncIterator[Tab]:
    """An empty page of the browser at that address, closed at the end."""
    async with aiohttp.ClientSession() as session:
        async with session.put(f"{address}/json/new?about:blank") as answer:
            target = await answer.json()
        socket = await session.ws_connect(target["webSocketDebuggerUrl"], max_msg_size=0)
        tab = Tab(socket)
        listener = asyncio.create_task(tab.listen())
        try:
            await tab.enable()
            yield tab
        finally:
            async with session.get(f"{address}/json/close/{target['id']}"):
                pass
            await socket.close()
            listener.cancel()


@contextmanager
def launched(program: str, profile: Path) -> Iterator[str]:
    """The DevTools address of a browser with its profile in that folder; killed with all its processes."""
    as_root = ("--no-sandbox",) if os.geteuid() == 0 else ()
    process = subprocess.Popen(
        [program, *_FLAGS, *as_root, f"--user-data-dir={profile}", "about:blank"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield f"http://127.0.0.1:{_port_of(profile / 'DevToolsActivePort', process)}"
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _port_of(file: Path, process: subprocess.Popen[bytes]) -> int:
    """The port that the browser writes to a file once it listens."""
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        assert process.poll() is None, f"the browser ended with status {process.returncode}"
        lines = file.read_text().splitlines() if file.exists() else []
        if len(lines) > 1:
            return int(lines[0])
        time.sleep(0.05)
    raise AssertionError(f"the browser did not listen within {START_SECONDS:g} s")
