"""Lines of a manager's log for people: every value in one line of a terminal, nothing that controls it."""

import textwrap
from collections.abc import Iterator, Mapping
from typing import Final

import click

from reconcile.commands.log_lines import LogLine
from reconcile.doctor.findings import printable

FOREIGN_SHOWN: Final = 2_000
"""Characters of a line that is not a manager's."""
VALUE_SHOWN: Final = 4_000
"""Characters of one value."""
TRACEBACK_SHOWN: Final = 100
"""Lines of a traceback, from its end, which has the error."""

_HEAD: Final = ("timestamp", "level", "logger", "controller", "key", "event", "reconcile_id", "exception")
_COLOURS: Final[Mapping[str, str]] = {"warning": "yellow", "error": "red", "critical": "red"}
_INDENT: Final = " " * 4


def shown(line: LogLine, width: int = 0) -> str:
    """A line for people: its head, its values by name, and its traceback below.

    `width` is that of the terminal, at which the text is wrapped; 0: it is not.
    """
    head = " ".join(filter(None, _head(line)))
    values = [f"{name.replace('_', ' ')}: {_value(value)}" for name, value in _values(line)]
    text = "  ".join([printable(head), *map(printable, values)])
    rows = _wrapped(text, width) if width else [text]
    colour = _COLOURS.get(line.text("level").lower())
    rows[0] = click.style(rows[0], fg=colour) if colour else rows[0]
    return "\n".join([*rows, *_traceback(line.text("exception"))])


def shown_foreign(line: bytes) -> str:
    """A line of another program, as far as it is shown."""
    text = line[: 4 * FOREIGN_SHOWN].decode(errors="backslashreplace")
    return printable(_cut(text, FOREIGN_SHOWN))


def shown_json(line: LogLine, *, safe: bool) -> str:
    """Its JSON as it came; if `safe`, with escapes of JSON for what would control a terminal."""
    text = line.raw.decode()
    if not safe or text.isprintable():
        return text
    return "".join(one if one.isprintable() else _json_escape(one) for one in text)


def _json_escape(one: str) -> str:
    """The escape of one character. Outside of strings JSON has blanks alone, of which a tab is one."""
    if one in "\t\r\n":
        return " "
    units = one.encode("utf-16-be")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


def _head(line: LogLine) -> Iterator[str]:
    """Time, level, and which run of what the line is about; other lines have the logger for it."""
    about = " ".join(filter(None, (line.text("controller"), line.text("key"))))
    yield line.text("timestamp")
    yield f"{line.text('level'):<8}"
    yield line.text("reconcile_id")
    yield f"{about or line.text('logger')}:"
    yield line.text("event")


def _values(line: LogLine) -> Iterator[tuple[str, object]]:
    for name, value in line.fields.items():
        if not (name in _HEAD and isinstance(value, str)) and value not in (None, "", [], {}):
            yield name, value
    if line.pod:
        yield "pod", line.pod


def _value(value: object) -> str:
    try:
        text = "; ".join(map(str, value)) if isinstance(value, list) else str(value)
    except RecursionError:
        text = "(nested too deeply to be shown)"
    return _cut(text, VALUE_SHOWN)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}… ({len(text) - most} more characters)"


def _wrapped(text: str, width: int) -> list[str]:
    # Narrower, a word a line would be left of it.
    wide = max(width, 40)
    return textwrap.wrap(text, wide, subsequent_indent=_INDENT, break_on_hyphens=False) or [""]


def _traceback(text: str) -> Iterator[str]:
    lines = text.splitlines()
    if len(lines) > TRACEBACK_SHOWN:
        yield f"{_INDENT}… ({len(lines) - TRACEBACK_SHOWN} lines before)"
    for line in lines[-TRACEBACK_SHOWN:]:
        yield f"{_INDENT}{_cut(printable(line), VALUE_SHOWN)}"
