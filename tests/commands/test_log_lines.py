"""Lines of a log as bytes: what a manager writes is read back, and anything else does no harm."""

import datetime
import io
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from informers import get_logger
from reconcile import configure_logging
from reconcile.commands.log_lines import MOST, LineSplitter, LogFilter, LogLine, is_named, moment_of, parsed
from reconcile.commands.log_text import shown, shown_foreign, shown_json

NAMES = ("", "reconcile", "reconcile.site", "informers", "workqueue", "asyncio", "aiohttp.access")
OWN = {"event", "exc_info", "stack_info", "stacklevel", "positional_args", "self", "level", "logger"}

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)
FIELDS = st.dictionaries(
    st.from_regex(r"[a-z]{1,9}(_[a-z]{1,5})?", fullmatch=True) | st.sampled_from(["name", "args", "module"]),
    VALUES,
    max_size=6,
).map(lambda fields: {name: value for name, value in fields.items() if name not in {*OWN, "timestamp"}})


@contextmanager
def json_log() -> Iterator[io.StringIO]:
    """A log in JSON as a manager writes it, and `logging` afterwards as it was before."""
    root = logging.getLogger()
    handlers, levels = list(root.handlers), {name: logging.getLogger(name).level for name in NAMES}
    stream = io.StringIO()
    configure_logging(stream, format="json")
    try:
        yield stream
    finally:
        root.handlers[:] = handlers
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)


def line(**fields: Any) -> LogLine:
    whole = {"event": "reconciled", "level": "info", "timestamp": "2026-11-23T12:00:00.000Z", **fields}
    found = parsed(json.dumps(whole).encode())
    assert found is not None
    return found


@pytest.mark.rule("log-read")
@given(st.text(), st.sampled_from(["info", "warning", "error"]), FIELDS)
def test_what_a_manager_logs_is_read_back_with_all_its_fields(
    event: str, level: str, fields: dict[str, Any]
) -> None:
    with json_log() as stream:
        getattr(get_logger("reconcile.site"), level)(event, **fields)
    splitter = LineSplitter()
    lines = [*splitter.feed(stream.getvalue().encode()), *splitter.last()]
    assert len(lines) == 1
    found = parsed(lines[0])
    assert found is not None
    assert {name: found.fields[name] for name in fields} == fields
    assert (found.text("event"), found.text("level"), found.text("logger")) == (
        event,
        level,
        "reconcile.site",
    )
    assert found.time is not None
    assert found.fields.keys() == {*fields, "event", "level", "logger", "timestamp"}


@given(st.lists(st.binary(max_size=40), max_size=8), st.lists(st.integers(1, 20), min_size=1, max_size=20))
def test_lines_are_the_same_however_they_arrive(parts: list[bytes], sizes: list[int]) -> None:
    text, at, found, splitter = b"\n".join(parts), 0, [], LineSplitter()
    while at < len(text):
        size = sizes[at % len(sizes)]
        found += splitter.feed(text[at : at + size])
        at += size
    found += splitter.last()
    *ended, begun = text.split(b"\n")
    assert found == [one.removesuffix(b"\r") for one in [*ended, *filter(None, [begun])]]


@pytest.mark.rule("log-read")
def test_of_a_huge_line_the_beginning_is_kept_and_the_next_line_is_whole() -> None:
    splitter = LineSplitter()
    lines = [one for _ in range(48) for one in splitter.feed(b"x" * (1 << 16))]
    lines += splitter.feed(b"end\nnext\nhalf")
    assert [len(one) for one in lines] == [MOST, 4]
    assert lines[1] == b"next"
    assert [*splitter.last()] == [b"half"]
    assert len(shown_foreign(lines[0])) < 3_000


@pytest.mark.rule("log-read")
@given(st.binary() | st.binary().map(lambda raw: b'{"event": "a", "level": "b", "c": "' + raw + b'"}'))
def test_any_bytes_are_a_line_or_none_and_never_control_the_terminal(raw: bytes) -> None:
    found = parsed(raw)
    assert shown_foreign(raw).isprintable()
    if found is not None:
        assert click.unstyle(shown(found)).replace("\n", "").isprintable()


@pytest.mark.rule("log-read")
@given(st.dictionaries(st.text(max_size=5), VALUES), st.integers(0, 120), st.text(), st.text())
def test_hostile_values_are_escaped_at_any_width(
    fields: dict[str, Any], width: int, event: str, trace: str
) -> None:
    values = {**fields, "event": event, "level": "error"}
    rows = click.unstyle(shown(line(**values), width)).split("\n")
    assert all(row.isprintable() for row in rows)
    assert not width or max(map(len, rows)) <= max(width, 40)
    rows = click.unstyle(shown(line(**values, exception=trace), width)).split("\n")
    assert all(row.isprintable() for row in rows)


HOSTILE = "\x1b[2J\u202eroot\x9b31m\x00\r"


def test_a_hostile_name_is_shown_with_escapes() -> None:
    text = shown(line(key=HOSTILE, event=f"ok{HOSTILE}"))
    assert r"\x1b[2J\u202eroot\x9b31m\x00\r" in text
    assert shown_foreign(HOSTILE.encode()).startswith(r"\x1b[2J")
    assert shown_foreign(b"\xff\x1b") == r"\xff\x1b".replace("\\xff", "\\xff")


@given(st.dictionaries(st.text(), st.text() | st.just(HOSTILE)))
def test_json_for_a_terminal_has_the_same_value_and_no_control_characters(fields: dict[str, str]) -> None:
    raw = json.dumps({**fields, "event": "e", "level": "info"}, ensure_ascii=False).encode()
    found = parsed(raw)
    assert found is not None
    assert shown_json(found, safe=False).encode() == raw
    safe = shown_json(found, safe=True)
    assert safe.isprintable()
    assert json.loads(safe) == json.loads(raw)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"plain text",
        b"[1, 2]",
        b"{}",
        b'{"event": 1, "level": "info"}',
        b'{"event": "a"}',
        b'{"event": "a", "level": "info"',
        b'{"event": "\xff", "level": "info"}',
        b'{"a":' * 100_000,
        b'{"event": "a", "level": "info", "n": ' + b"9" * 5000 + b"}",
    ],
)
def test_what_is_no_line_of_a_manager_is_none(raw: bytes) -> None:
    assert parsed(raw) is None


@pytest.mark.parametrize(
    "prefix",
    [
        b"2026-11-23T12:00:00.123456789Z stderr F ",
        b"2026-11-23T12:00:00.123456789Z ",
        b"2026-11-23T13:00:00+01:00 ",
        b"[pod/sites-7d9f-x2x9q/manager] ",
        b"[pod/sites-7d9f-x2x9q/manager] 2026-11-23T12:00:00.123456789Z ",
    ],
)
def test_what_kubectl_and_container_runtimes_put_in_front_is_taken_off(prefix: bytes) -> None:
    found = parsed(prefix + b'{"event": "a", "level": "info"}')
    assert found is not None
    assert found.raw == b'{"event": "a", "level": "info"}'


@pytest.mark.parametrize(
    ("chosen", "passes"),
    [
        (LogFilter(), True),
        (LogFilter(kind="Site"), True),
        (LogFilter(kind="sites", key="default/web"), True),
        (LogFilter(kind="Site", key="default/other"), False),
        (LogFilter(kind="Gadget", key="default/web"), False),
        (LogFilter(key="east:default/web"), True),
        (LogFilter(key="west:default/web"), False),
        (LogFilter(controller="site"), True),
        (LogFilter(controller="east/site"), True),
        (LogFilter(controller="sit"), False),
        (LogFilter(reconcile_id="1f0c"), True),
        (LogFilter(reconcile_id="f0c5"), False),
        (LogFilter(level="info"), True),
        (LogFilter(level="warning"), False),
        (LogFilter(since=moment_of("2026-11-23T12:00:00Z")), True),
        (LogFilter(since=moment_of("2026-11-23T13:00:00+01:00")), True),
        (LogFilter(since=moment_of("2026-11-23T12:00:01")), False),
    ],
)
def test_a_filter_passes_what_is_asked_for(chosen: LogFilter, passes: bool) -> None:
    told = line(controller="east/site", key="east:default/web", reconcile_id="1f0c55aa")
    assert chosen.passes(told) is passes


def test_a_controller_of_another_name_is_found_by_the_kind_in_its_lines() -> None:
    told = line(controller="web", kind="Site", key="default/web")
    assert [LogFilter(kind=kind).passes(told) for kind in ("Site", "sites", "web", "Gadget")] == [
        True,
        True,
        True,
        False,
    ]


def test_lines_without_a_time_are_not_since_any_and_unknown_levels_are_never_left_out() -> None:
    since = LogFilter(since=datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC))
    assert not since.passes(line(timestamp="yesterday"))
    assert not since.passes(line(timestamp=12))
    assert LogFilter(level="error").passes(line(level="FATAL"))
    assert LogFilter(level="error").passes(line(level="ERROR"))


@pytest.mark.parametrize(
    ("controller", "kind", "named"),
    [
        ("site", "Site", True),
        ("site", "sites", True),
        ("policy", "Policies", True),
        ("ingress", "ingresses", True),
        ("east/site", "Site", True),
        ("site", "sit", False),
        ("web-sites", "Site", False),
        ("site", "sites.example.com", True),
        ("site", "site.example.com", True),
        ("site", "example.com", False),
        ("site", ".com", False),
        ("", "", False),
        ("", "Site", False),
    ],
)
def test_a_kind_is_named_in_any_case_and_number(controller: str, kind: str, named: bool) -> None:
    assert is_named(controller, kind) is named
