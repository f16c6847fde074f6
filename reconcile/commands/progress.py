"""Says what a command is at, once it has taken longer than a person waits in silence."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import click

PATIENCE = 2.0
"""Seconds without a word."""


@contextmanager
def progress(what: str) -> Iterator[None]:
    """While inside, after PATIENCE, a line `still WHAT ...` on stderr; nothing where that is no terminal."""
    if not sys.stderr.isatty():
        yield
        return
    timer = threading.Timer(PATIENCE, lambda: click.echo(f"still {what} ...", err=True))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
