"""Where log lines go, and their format: called by applications, never by the library itself."""

import datetime
import logging
import sys
from typing import IO, Any, Literal

import structlog
from structlog.typing import EventDict

from informers.logs import RESERVED
from reconcile.ops.log_writer import ThreadedHandler, handler_on

LIBRARY = ("reconcile", "informers", "workqueue")
_NOISY = ("asyncio", "aiohttp.access")


def configure_logging(
    stream: IO[str] | None = None,
    *,
    format: Literal["auto", "text", "json"] = "auto",  # noqa: A002 -- the usual name
    level: int | str = logging.INFO,
) -> None:
    """Send every log line of the process to `stream` (default: stderr), also those of other libraries.

    For a program that has no logging of its own, once, before anything logs: the handlers of the root
    logger are replaced. `format` is `text` for people, `json` for one object a line, and `auto` for text on
    a terminal and JSON elsewhere. `level` is that of the library's loggers; at DEBUG each failed run has
    its traceback, else each distinct error once. Other loggers have the same level, but INFO at least.
    A pipe, a socket or a terminal is written by a thread, so that the event loop goes on while nothing reads
    it: at most 10,000 lines (10 million characters) wait, further ones are dropped, and one line with their
    number (`dropped`) takes their place when there is room. Waiting lines are written at the end of the
    process, within 2 s. Raises ValueError for an unknown level or format.
    """
    number = logging.getLevelName(level.upper()) if isinstance(level, str) else level
    if not isinstance(number, int):
        raise ValueError(f"level: expected a level of logging such as 'INFO', got {level!r}")
    if format not in ("auto", "text", "json"):
        raise ValueError(f"format: expected 'auto', 'text' or 'json', got {format!r}")
    stream = sys.stderr if stream is None else stream
    handler = handler_on(stream)
    handler.setFormatter(_formatter(stream.isatty() if format == "auto" else format == "text"))
    root = logging.getLogger()
    former, root.handlers[:] = list(root.handlers), [handler]
    for handler_before in former:
        if isinstance(handler_before, ThreadedHandler):
            handler_before.close()
    root.setLevel(max(number, logging.INFO))
    for name in LIBRARY:
        logging.getLogger(name).setLevel(number)
    for name in _NOISY:
        logging.getLogger(name).setLevel(max(number, logging.WARNING))


def _formatter(pretty: bool) -> logging.Formatter:
    if pretty:
        # the default would show local variables, and with them Secrets and tokens
        plain = structlog.dev.plain_traceback
        last: list[Any] = [
            structlog.dev.ConsoleRenderer(colors=False, pad_event_to=24, exception_formatter=plain)
        ]
    else:
        last = [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(default=str)]
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[structlog.stdlib.ExtraAdder(), _describe_record],
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
    )


def _describe_record(_logger: Any, _method: str, event: EventDict) -> EventDict:
    """Add time, level and logger of the record itself: a line written later has the time of its event."""
    record: logging.LogRecord = event["_record"]
    for name in RESERVED.intersection(key.removesuffix("_") for key in event if key.endswith("_")):
        event[name] = event.pop(f"{name}_")
    moment = datetime.datetime.fromtimestamp(record.created, datetime.UTC)
    event["timestamp"] = moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    event["level"] = record.levelname.lower()
    event["logger"] = record.name
    if record.exc_info:
        event["exc_info"] = record.exc_info
    return event
