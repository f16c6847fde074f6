"""Whether a person can be asked."""

import sys


def is_interactive() -> bool:
    """Whether standard input is a terminal; it may be closed altogether (`<&-`)."""
    return sys.stdin is not None and sys.stdin.isatty()
