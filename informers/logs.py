"""structlog through the standard library's logging, with nothing configured on import."""

import logging
from typing import cast

import structlog

_PROCESSORS = (
    structlog.stdlib.filter_by_level,
    structlog.stdlib.PositionalArgumentsFormatter(),
    structlog.stdlib.render_to_log_kwargs,
)


def get_logger(name: str) -> structlog.stdlib.BoundLogger:
    """A logger whose bound values travel as `extra` of the standard library's logger of that name.

    Where the lines go, and how they look, is the application's choice (`logging`), as with any
    library; structlog's global configuration is neither read nor written.
    """
    logger = structlog.wrap_logger(
        logging.getLogger(name),
        processors=_PROCESSORS,
        wrapper_class=structlog.stdlib.BoundLogger,
        context_class=dict,
    )
    return cast(structlog.stdlib.BoundLogger, logger)
