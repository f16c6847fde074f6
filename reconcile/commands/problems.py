"""What goes wrong on the command line, as the person at it reads it."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

import click

from reconcile.ops.log_writer import flush_log


@contextmanager
def writing_files() -> Iterator[None]:
    """While inside, a file that cannot be written is a Problem that names it."""
    try:
        yield
    except OSError as error:
        raise Problem(f"cannot write {error.filename}", error.strerror or str(error)) from None


class Problem(click.ClickException):
    """Something that the person who typed the command can put right: one line, exit status 2.

    `message` says what is wrong and with what, `hint` what to do about it.
    """

    exit_code = 2

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(f"{message}: {hint}" if hint else message)
        self.hint = hint

    def show(self, file: IO[Any] | None = None) -> None:
        """Print `error: ...` on one line of stderr, after what the log holds."""
        flush_log()
        click.echo(f"error: {' '.join(self.message.split())}", file=file or sys.stderr)


class ManagerEnded(Problem):
    """A command that stays up has ended, and not for its arguments: exit status 1, where those give 2."""

    exit_code = 1
