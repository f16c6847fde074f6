"""Where the lines of the library's loggers go, and how they look. Only the command line decides that."""

import datetime
import logging
from typing import IO, Any

import structlog
from structlog.typing import EventDict

from informers.logs import RESERVED

_NOISY = ("asyncio", "aiohttp.access")


def configure_logs(stream: IO[str], *, pretty: bool, verbose: bool = False) -> None:
    """Send every log line to `stream`: for a person to read if `pretty`, else one JSON object a line.

    `verbose` adds the debug lines of the library, tracebacks of failed runs among them.
    """
    handler = logging.StreamHandler(stream)
    handler.setFormatter(_formatter(pretty))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
    for name in ("reconcile", "informers", "workqueue"):
        logging.getLogger(name).setLevel(logging.DEBUG if verbose else logging.INFO)
    for name in _NOISY:
        logging.getLogger(name).setLevel(logging.WARNING)


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
    """When, how grave and from whom, as the record says it: time is not looked up again."""
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
