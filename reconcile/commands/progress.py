"""Prints what a command is doing once it has taken longer than PATIENCE."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import click

PATIENCE = 2.0
"""Seconds without output before a command says what it is doing."""


@contextmanager
def progress(what: str) -> Iterator[None]:
    """While inside, print `still WHAT ...` on stderr after PATIENCE, if that is a terminal."""
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
