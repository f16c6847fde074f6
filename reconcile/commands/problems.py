"""Errors of the command line."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import click

from reconcile.ops.log_writer import flush_log


@contextmanager
def writing_files(target: Path) -> Iterator[None]:
    """While inside, an OSError becomes a Problem that names its file, or `target` if it knows none."""
    try:
        yield
    except OSError as error:
        raise Problem(f"cannot write {error.filename or target}", error.strerror or str(error)) from None


def write_files(folder: Path, files: Mapping[str, str | bytes]) -> None:
    """Write files by their paths in `folder`, and print each. Raises Problem."""
    for path, content in files.items():
        file = folder / path
        with writing_files(file):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content.encode() if isinstance(content, str) else content)
    for path in files:  # only now: a reader that stops early must not stop the writing
        click.echo(folder / path)


class Problem(click.ClickException):
    """An error that the user can fix: one line with the fault and a `hint`, the next step; exit status 2."""

    exit_code = 2

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(f"{message}: {hint}" if hint else message)
        self.hint = hint

    def show(self, file: IO[Any] | None = None) -> None:
        """Print `error: ...` as one line on stderr, after pending lines of the log."""
        flush_log()
        click.echo(f"error: {' '.join(self.message.split())}", file=file or sys.stderr)


class ManagerEnded(Problem):
    """A manager ended with an error of its own: exit status 1, where bad arguments give 2."""

    exit_code = 1
