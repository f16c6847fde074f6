"""The page about logging: its code runs, and a failed run is logged as it shows (docs/how-to/logging.md)."""

import inspect
import io
import json
import logging
import re
from collections.abc import Iterator
from typing import Any

import anyio
import pytest

from reconcile import Context, Controller, Intent, Manager, Object, ObjectMeta, configure_logging, resource
from reconcile.kinds import ConfigMap
from reconcile.testing import FakeClient, VirtualClock, simulate
from tests.docs.blocks import assert_shown, code, run

PAGE = "docs/how-to/logging.md"


@resource("example.com/v1")
class Site(Object):
    """A kind as the page has it."""


async def keep_site(ctx: Context[Site]) -> None:
    raise OSError("no disk")


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    names = ("", "reconcile", "reconcile.site", "informers", "workqueue", "asyncio", "aiohttp.access")
    root = logging.getLogger()
    handlers, levels = list(root.handlers), {name: logging.getLogger(name).level for name in names}
    yield
    root.handlers[:] = handlers
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)


def said(formatter: logging.Formatter, controller: Controller[Any], *objects: Object) -> str:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter)

    async def work() -> None:
        client = FakeClient(*objects)
        clock = VirtualClock(0)
        async with Manager(controller, transport=client.transport, clock=clock, environ={}):
            await anyio.sleep(1)

    logging.getLogger().handlers[:] = [handler]
    simulate(work)
    return stream.getvalue()


def failing() -> Controller[Site]:
    return Controller(Site, keep_site, name="site")


WEB = Site(metadata=ObjectMeta("web", "default"))


@pytest.mark.rule("docs-blocks")
def test_a_failed_run_is_logged_as_the_page_shows() -> None:
    run(PAGE)
    logging.getLogger("reconcile.site").setLevel(logging.INFO)
    (shown,) = code(PAGE, "text")
    line = inspect.getsourcelines(keep_site)[1] + 1
    shown = shown.replace("/srv/sites.py:12", f"{__file__}:{line}").replace("sites.example.com", "sites")
    came = said(logging.Formatter("%(levelname)s %(name)s: %(message)s"), failing(), WEB)
    assert_shown(shown, came.replace("sites.example.com", "sites"))
    assert came.count("Traceback") == 1


async def keep_theme(ctx: Context[Site]) -> None:
    await ctx.apply(Intent(ConfigMap, metadata=ObjectMeta(ctx.object.name), data={"theme": "dark"}))


@pytest.mark.rule("docs-blocks")
def test_a_run_that_wrote_is_logged_as_the_page_shows() -> None:
    (shown,) = code(PAGE, "json")
    configure_logging(io.StringIO(), format="json")
    formatter = logging.getLogger().handlers[0].formatter
    assert formatter is not None
    keeping = Controller(Site, keep_theme, name="site", owns=[ConfigMap], every=600)
    lines = [json.loads(line) for line in said(formatter, keeping, WEB).splitlines()]
    (came,) = [line for line in lines if line["event"] == "reconciled"]
    assert list(came) == list(json.loads(shown))
    assert without_numbers(came) == without_numbers(json.loads(shown))


def without_numbers(told: dict[str, Any]) -> dict[str, str]:
    """The values of a line, with 0 for each number and without what differs from run to run."""
    text = json.dumps(told).replace("sites.example.com", "sites")
    texts = {name: re.sub(r"\d+(\.\d+)?", "0", str(value)) for name, value in json.loads(text).items()}
    return {**texts, "reconcile_id": "", "timestamp": ""}


@pytest.mark.rule("docs-blocks")
def test_the_formatter_on_the_page_and_that_of_structlog_include_the_values() -> None:
    names = run(PAGE)
    for formatter in (names["AsJson"](), names["formatter"]):
        lines = [json.loads(line) for line in said(formatter, failing(), WEB).splitlines()]
        told = next(line for line in lines if line["event"] == "failed")
        assert (told["controller"], told["key"], told["error"]) == ("site", "default/web", "OSError: no disk")
        assert told["at"].startswith(f"{__file__}:")


@pytest.mark.rule("docs-blocks")
def test_log_lines_of_a_reconciler_carry_its_key() -> None:
    names = run(PAGE)
    text = said(
        logging.Formatter("%(message)s"),
        names["looking"],
        ConfigMap(metadata=ObjectMeta("c", "default"), data={"a": "1"}),
    )
    assert any(
        line.startswith("looked controller=site kind=ConfigMap key=default/c ") and line.endswith("keys=1")
        for line in text.splitlines()
    )
