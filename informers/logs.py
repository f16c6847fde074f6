"""structlog through the standard library's logging, with nothing configured on import."""

import functools
import logging
from typing import Any, cast

import structlog
from structlog.typing import EventDict, Processor

RESERVED = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}
"""Attributes that a log record has already: a value of such a name gets an underscore at its end."""


def _spare_reserved(_logger: Any, _method: str, event: EventDict) -> EventDict:
    """Rename what the standard library refuses with a KeyError: a log line must not fail its caller."""
    taken = RESERVED.intersection(event) - {"exc_info", "stack_info"}
    return {f"{key}_" if key in taken else key: value for key, value in event.items()} if taken else event


_PROCESSORS = (
    structlog.stdlib.filter_by_level,
    structlog.stdlib.PositionalArgumentsFormatter(),
    _spare_reserved,
    structlog.stdlib.render_to_log_kwargs,
)


@functools.cache
def get_logger(name: str, *processors: Processor) -> structlog.stdlib.BoundLogger:
    """A logger whose bound values travel as `extra` of the standard library's logger of that name.

    `processors` of structlog change a line before it is handed on.
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
