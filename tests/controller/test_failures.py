"""What is told of a failed run: where it was raised, what was raised beside it, and the traceback once."""

import inspect
import json
import logging
import sys
import sysconfig
from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reconcile
from informers import get_logger
from reconcile import Context, Controller, SyncContext, configure_logging
from reconcile.commands.explain_command import chain
from reconcile.commands.top_command import summary
from reconcile.errors import TerminalError
from reconcile.kinds import ConfigMap
from reconcile.runs.frames import Frame, authors, is_library
from reconcile.runs.run_failures import (
    ERRORS_REMEMBERED,
    MEMBERS_SHOWN,
    TRACEBACK_CHARACTERS,
    Failures,
    LoggedFailure,
    described,
    members_of,
    place_text,
)
from tests.helpers.managers import Toy, World, played
from tests.helpers.scenarios import in_world

ROOT = Path(__file__).parents[2]
PLAIN = logging.Formatter("%(message)s")


def line_of(function: Callable[..., Any], text: str) -> str:
    """`file:line` of a line of a function."""
    lines, first = inspect.getsourcelines(function)
    (number,) = [first + offset for offset, line in enumerate(lines) if text in line]
    return f"{__file__}:{number}"


def read_disk(name: str) -> None:
    raise OSError(f"no disk for {name}")


async def fail(ctx: Context[Toy]) -> None:
    read_disk(ctx.object.name)


async def fail_for_good(ctx: Context[Toy]) -> None:
    raise TerminalError("the spec asks for what is not there")


async def miss(ctx: Context[Toy]) -> None:
    await ctx.client.get(ConfigMap, "not-there", "default")


def fail_in_a_thread(ctx: SyncContext[Toy]) -> None:
    read_disk(ctx.object.name)


async def fail_twice(ctx: Context[Toy]) -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(fail, ctx)
        group.start_soon(miss, ctx)


async def wait_too_long(ctx: Context[Toy]) -> None:
    await wait_for_an_answer()


async def wait_for_an_answer() -> None:
    await anyio.sleep(100)


async def return_nonsense(ctx: Context[Toy]) -> Any:
    await anyio.lowlevel.checkpoint()
    assert ctx.object.name is None, "never so"


def failures_of(
    function: Any, caplog: pytest.LogCaptureFixture, level: int = logging.INFO, objects: int = 1, **more: Any
) -> list[logging.LogRecord]:
    """The records of failed runs within three virtual seconds."""

    async def scenario(world: World) -> None:
        async with world.running(Controller(Toy, function, name="toys", reads=[ConfigMap], **more)):
            for number in range(objects):
                await world.make(f"a{number}")
            await anyio.sleep(3)

    with caplog.at_level(level, "reconcile.toys"):
        played(scenario)
    return [one for one in caplog.records if vars(one)["event"].startswith("failed")]


@pytest.mark.rule("told-place")
@pytest.mark.parametrize(
    ("function", "error", "at"),
    [
        (fail, "OSError: no disk for a0", line_of(read_disk, "raise")),
        (fail_in_a_thread, "OSError: no disk for a0", line_of(read_disk, "raise")),
        (fail_for_good, "TerminalError: the spec", line_of(fail_for_good, "raise")),
        (miss, "NotFound: ", line_of(miss, "client.get")),
        (wait_too_long, "ReconcileTimeout: took longer than 1 s", line_of(wait_for_an_answer, "sleep")),
        (return_nonsense, "AssertionError: never so", line_of(return_nonsense, "assert")),
    ],
)
def test_a_failed_run_names_the_authors_innermost_line_key_controller_and_error_in_its_message(
    function: Any, error: str, at: str, caplog: pytest.LogCaptureFixture
) -> None:
    record = failures_of(function, caplog, timeout=1)[0]
    message = PLAIN.format(record).partition("\n")[0]
    assert message.startswith("failed ")
    assert "controller=toys" in message
    assert "key=default/a0" in message
    assert error in message
    assert f" at={at}" in message
    assert (vars(record)["at"], vars(record)["key"], vars(record)["controller"]) == (at, "default/a0", "toys")


@pytest.mark.rule("told-place")
def test_each_error_of_an_exception_group_is_reported_with_its_place(
    caplog: pytest.LogCaptureFixture,
) -> None:
    record = failures_of(fail_twice, caplog)[0]
    error = vars(record)["error"]
    assert error.startswith("ExceptionGroup: ")
    assert f"OSError: no disk for a0 at {line_of(read_disk, 'raise')}" in error
    assert f"at {line_of(miss, 'client.get')}" in error
    assert vars(record)["at"] == line_of(read_disk, "raise")


@given(st.integers(1, 20))
def test_the_first_errors_of_a_large_group_are_reported_and_the_others_counted(size: int) -> None:
    group = ExceptionGroup("many", [ExceptionGroup("inner", [ValueError(str(n))]) for n in range(size)])
    shown = min(size, MEMBERS_SHOWN)
    assert [one.error for one in members_of(group)] == [f"ValueError: {number}" for number in range(shown)]
    assert described(group).endswith(f"; and {size - shown} more") is (size > shown)
    assert described(ValueError("no")) == "ValueError: no"
    assert members_of(ValueError("no")) == ()


@pytest.mark.rule("told-once")
@pytest.mark.parametrize(("level", "always"), [(logging.INFO, False), (logging.DEBUG, True)])
def test_the_traceback_of_a_distinct_error_is_logged_once_and_always_at_debug(
    level: int, always: bool, caplog: pytest.LogCaptureFixture
) -> None:
    records = failures_of(fail, caplog, level, objects=3)
    assert len(records) > 6
    first, *others = records
    assert first.exc_info is not None
    assert first.exc_info[0] is OSError
    assert "in read_disk\n" in PLAIN.format(first)
    assert all((other.exc_info is not None) is always for other in others)


def failed(number: int) -> LoggedFailure:
    error = ValueError(str(number))
    return LoggedFailure(
        f"ValueError {number}", f"ValueError: {number}", f"a.py:{number}", "x" * 20_000 + "end", error
    )


@pytest.mark.rule("told-once")
def test_above_the_bound_the_least_recently_seen_error_is_forgotten() -> None:
    failures = Failures(get_logger("t"))
    assert all(failures.note(failed(number), number) for number in range(ERRORS_REMEMBERED))
    assert not failures.note(failed(0), 1000.0)  # seen again, so the second one is the oldest now
    assert failures.note(failed(ERRORS_REMEMBERED), 1001.0)
    assert len(list(failures.distinct())) == ERRORS_REMEMBERED
    assert not failures.note(failed(0), 1002.0)
    assert failures.note(failed(1), 1003.0)
    assert failures.count == ERRORS_REMEMBERED + 4
    again = next(one for one in failures.distinct() if one.at == "a.py:0")
    assert (again.count, again.last) == (3, 1002.0)
    assert len(again.traceback) == TRACEBACK_CHARACTERS
    assert again.traceback.endswith("end")


# --- where ---------------------------------------------------------------------------------------------

SITE = f"{sysconfig.get_path('purelib')}/"
STANDARD = f"{sysconfig.get_path('stdlib')}/"
LIBRARY = str(Path(reconcile.__file__).parent)


@pytest.mark.rule("told-place")
@pytest.mark.parametrize(
    ("files", "innermost"),
    [
        ([f"{LIBRARY}/passes.py", "/home/me/a.py", "/home/me/b.py"], 2),
        ([f"{LIBRARY}/passes.py", "/home/me/a.py", f"{LIBRARY}/client.py"], 1),
        ([f"{LIBRARY}/passes.py", "/home/me/a.py", SITE + "requests/api.py", STANDARD + "socket.py"], 1),
        ([f"{LIBRARY}/passes.py", SITE + "mine/a.py", SITE + "mine/b.py", SITE + "requests/api.py"], 2),
        ([f"{LIBRARY}/passes.py", SITE + "anyio/a.py", SITE + "mine/a.py"], 2),
        ([f"{LIBRARY}/blocking.py", STANDARD + "contextvars.py", "/home/me/a.py"], 2),
        ([f"{LIBRARY}/passes.py", str(ROOT / "controllers/nodegroups/plan.py")], 1),
        ([f"{LIBRARY}/passes.py", SITE + "anyio/a.py"], None),
        (["<frozen importlib._bootstrap>"], None),
        ([], None),
    ],
)
def test_the_authors_innermost_frame_is_found_wherever_packages_are_installed(
    files: list[str], innermost: int | None
) -> None:
    assert authors([Frame(file, 1, "f") for file in files]) == innermost


@given(st.lists(st.sampled_from([f"{LIBRARY}/a.py", "/me/a.py", SITE + "b/b.py", STANDARD + "c.py"])))
def test_the_chosen_frame_is_the_authors_innermost_and_never_in_the_libraries(files: list[str]) -> None:
    number = authors([Frame(file, 1, "f") for file in files])
    if number is None:
        assert not {"/me/a.py", SITE + "b/b.py"} & {*files}
        return
    assert not is_library(files[number])
    assert not files[number].startswith(STANDARD) or "site-packages" in files[number]
    assert "/me/a.py" not in files[number + 1 :]


def test_an_error_never_raised_has_no_place_and_one_of_the_library_alone_has_its_line() -> None:
    assert place_text(ValueError("no")) == ""
    assert place_text(None) == ""
    try:
        json.loads("{")
    except ValueError as error:
        inner = error.with_traceback(error.__traceback__.tb_next)  # type: ignore[union-attr]
        assert place_text(inner).startswith(str(Path(json.__file__).parent))


# --- in /debug/state, explain, top and dev -------------------------------------------------------------


def state_after(function: Any) -> Any:
    states: list[Any] = []

    async def scenario(world: World) -> None:
        async with world.running(Controller(Toy, function, name="toys", reads=[ConfigMap])) as manager:
            await world.make("a0")
            await anyio.sleep(3)
            states.append(json.loads(json.dumps(manager.state())))

    played(scenario)
    return states[0]


@pytest.mark.rule("told-place")
def test_state_explain_and_top_show_the_place_the_members_and_each_distinct_error() -> None:
    state = state_after(fail_twice)
    run = state["controllers"]["toys"]["recent"]["default/a0"][-1]
    places = [one["at"] for one in run["members"]]
    assert sorted(places) == sorted([line_of(read_disk, "raise"), line_of(miss, "client.get")])
    assert run["at"] == places[0]
    assert f"    at        {run['at']}" in list(chain(run))
    told = summary(state)
    assert told["keys"][0]["at"] == run["at"]
    (error,) = told["errors"]
    assert error["controller"] == "toys"
    assert error["at"] in places
    assert error["count"] > 3
    (distinct,) = state["controllers"]["toys"]["errors"]
    assert distinct["traceback"].count("Traceback (most recent call last)") >= 1
    assert "in read_disk" in distinct["traceback"]


def test_a_successful_run_has_no_place() -> None:
    async def keep(ctx: Context[Toy]) -> None:
        ctx.status(size=1)

    run = state_after(keep)["controllers"]["toys"]["recent"]["default/a0"][-1]
    assert (run["error"], run["at"], run["members"]) == ("", "", [])
    assert not any(line.startswith("    at ") for line in chain(run))


@in_world(played)
async def test_the_removal_of_the_last_finalizer_is_recorded_as_a_delete(world: World) -> None:
    async def clean(ctx: Context[Toy]) -> None:
        return

    async def keep(ctx: Context[Toy]) -> None:
        return

    wrote: list[list[str]] = []

    async with world.running(Controller(Toy, keep, cleanup=clean, name="toys")) as manager:
        toy = await world.make("a0")
        await anyio.sleep(3)
        await world.client.delete(toy)
        await anyio.sleep(3)
        assert await world.client.find(Toy, "a0", "default") is None
        recent = manager.state()["controllers"]["toys"]["recent"]["default/a0"]
        wrote.extend(run["wrote"] for run in recent if run["wrote"])
    assert wrote[-1] == ["patch toys default/a0: .metadata.finalizers, removed the last one"]


# --- configure_logging -----------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    names = ("", "reconcile", "informers", "workqueue", "asyncio", "aiohttp.access")
    root = logging.getLogger()
    handlers, levels = list(root.handlers), {name: logging.getLogger(name).level for name in names}
    yield
    root.handlers[:] = handlers
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)


def logged(**options: Any) -> str:
    stream = StringIO()
    configure_logging(stream, **options)
    log = get_logger("reconcile.toys").bind(controller="toys", key="default/a")
    log.debug("looked")
    try:
        read_disk("a")
    except OSError as error:
        log.warning("failed", error="OSError: no disk", at="a.py:1", exc_info=error)
    logging.getLogger("mine").info("of %s", "the application")
    logging.getLogger("mine").debug("unseen")
    return stream.getvalue()


@pytest.mark.rule("told-logging")
def test_log_lines_are_json_except_on_a_terminal_or_if_text_is_requested() -> None:
    lines = [json.loads(line) for line in logged().splitlines()]
    assert [(line["event"], line["level"]) for line in lines] == [
        ("failed", "warning"),
        ("of the application", "info"),
    ]
    assert (lines[0]["controller"], lines[0]["key"], lines[0]["at"]) == ("toys", "default/a", "a.py:1")
    assert "in read_disk" in lines[0]["exception"]
    text = logged(format="text")
    assert "failed" in text
    assert "key=default/a" in text
    assert "in read_disk" in text
    assert "looked" not in text


def test_the_level_applies_to_the_library_and_others_stay_at_info() -> None:
    text = logged(level="debug", format="text")
    assert "looked" in text
    assert "unseen" not in text
    text = logged(level=logging.ERROR, format="text")
    assert text == ""


def test_a_stream_that_is_a_terminal_gets_text(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stderr", stream)
    configure_logging()
    get_logger("reconcile").info("started", controllers=["toys"])
    assert "started" in stream.getvalue()
    assert not stream.getvalue().startswith("{")


@pytest.mark.parametrize(
    ("options", "complaint"), [({"level": "loud"}, "level"), ({"format": "xml"}, "format")]
)
def test_an_unknown_level_or_format_is_refused(options: dict[str, Any], complaint: str) -> None:
    handlers = list(logging.getLogger().handlers)
    with pytest.raises(ValueError, match=f"^{complaint}: expected .*'(loud|xml)'"):
        configure_logging(StringIO(), **options)
    assert logging.getLogger().handlers == handlers
