"""structlog through the standard library's logging, with nothing configured on import.

A record carries its values twice: in the text, for handlers that format `%(message)s` alone, and as
attributes, with `event` for the message without values.
"""

import functools
import json
import logging
from collections.abc import Mapping
from typing import Any, cast

import structlog
from attrs import frozen
from structlog.typing import EventDict, Processor

RESERVED = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}
"""Attributes that a log record has already: a value of such a name gets an underscore at its end."""

_OF_THE_CALL = ("exc_info", "stack_info", "stacklevel")
_FRAMES_OF_STRUCTLOG = 4
"""Between the caller and the standard library, so that a record names the caller's line."""


def _spare_reserved(_logger: Any, _method: str, event: EventDict) -> EventDict:
    """Rename what the standard library refuses with a KeyError: a log line must not fail its caller."""
    taken = RESERVED.intersection(event) - {"exc_info", "stack_info"}
    return {f"{key}_" if key in taken else key: value for key, value in event.items()} if taken else event


@frozen
class _Shown:
    """A value in a message: as it is if that is one word, else quoted; written when it is asked for."""

    value: Any

    def __str__(self) -> str:
        text = str(self.value)
        if not isinstance(self.value, str) or (text.isprintable() and text and not {*' "='} & {*text}):
            return text
        return json.dumps(text, ensure_ascii=False)


def _to_record(_logger: Any, _method: str, event: EventDict) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
    """What `logging` is called with: `failed key=%s error=%s`, the values, and all of them as `extra`."""
    call = {name: event.pop(name) for name in _OF_THE_CALL if name in event}
    words = str(event.pop("event", ""))
    text = words
    if event:
        names = "".join(f" {name}=%s" for name in (name.replace("%", "%%") for name in event))
        text = words.replace("%", "%%") + names
    values = [_Shown(value) for value in event.values()]
    return (text, *values), {"stacklevel": _FRAMES_OF_STRUCTLOG, **call, "extra": {**event, "event": words}}


_PROCESSORS = (
    structlog.stdlib.filter_by_level,
    structlog.stdlib.PositionalArgumentsFormatter(),
    _spare_reserved,
    _to_record,
)


@functools.cache
def get_logger(name: str, *processors: Processor) -> structlog.stdlib.BoundLogger:
    """A logger whose values stand in the message, and travel as `extra`, of the standard library's logger.

    `processors` of structlog change a line before it is handed on. The message is `failed key=default/web`,
    and `record.event` is `failed` alone.
    A value whose name a log record has for itself (`name`, `created`) travels as `name_`, `created_`.
    Where the lines go, and how they look, is the application's choice (`logging`), as with any
    library; structlog's global configuration is neither read nor written.
    """
    logger = structlog.wrap_logger(
        logging.getLogger(name),
        processors=(*_PROCESSORS[:-1], *processors, _PROCESSORS[-1]),
        wrapper_class=structlog.stdlib.BoundLogger,
        context_class=dict,
    ).bind()
    return cast(structlog.stdlib.BoundLogger, logger)


def is_worth_a_line(count: int) -> bool:
    """Whether the failure of that number, from 1, is logged where there may be thousands: 1, 2, 4, 8 are."""
    return count & (count - 1) == 0
