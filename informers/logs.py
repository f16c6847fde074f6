"""structlog on top of the standard library's logging, with nothing configured on import.

A record has its values twice: in the text, for handlers that format `%(message)s` alone, and as attributes,
with `event` for the message without values.
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
"""Attributes that every log record has: a value of such a name gets a trailing underscore."""

_OF_THE_CALL = ("exc_info", "stack_info", "stacklevel")
_FRAMES_OF_STRUCTLOG = 4
"""Frames between the caller and the standard library, so that a record names the caller's line."""


def _spare_reserved(_logger: Any, _method: str, event: EventDict) -> EventDict:
    """Rename what the standard library refuses with a KeyError: a log line must not fail its caller."""
    taken = RESERVED.intersection(event) - {"exc_info", "stack_info"}
    return {f"{key}_" if key in taken else key: value for key, value in event.items()} if taken else event


@frozen
class _Shown:
    """A value in a message, quoted unless it is one word; formatted only on request."""

    value: Any

    def __str__(self) -> str:
        text = str(self.value)
        if not isinstance(self.value, str) or (text.isprintable() and text and not {*' "='} & {*text}):
            return text
        return json.dumps(text, ensure_ascii=False)


def _to_record(_logger: Any, _method: str, event: EventDict) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
    """The arguments for `logging`: `failed key=%s error=%s`, the values, and all of them as `extra`."""
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
    """A standard-library logger whose values are in the message and are passed on as `extra`.

    `processors` of structlog change a line before it is logged. The message is `failed key=default/web`, and
    `record.event` is `failed`. A value of a reserved name (`name`, `created`) becomes `name_`, `created_`.
    Where lines go is up to `logging`; structlog's global configuration is neither read nor written.
    """
    logger = structlog.wrap_logger(
        logging.getLogger(name),
        processors=(*_PROCESSORS[:-1], *processors, _PROCESSORS[-1]),
        wrapper_class=structlog.stdlib.BoundLogger,
        context_class=dict,
    ).bind()
    return cast(structlog.stdlib.BoundLogger, logger)


def is_worth_a_line(count: int) -> bool:
    """Whether to log the `count`th of possibly thousands of equal failures: the 1st, 2nd, 4th, 8th."""
    return count & (count - 1) == 0
