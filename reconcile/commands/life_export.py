"""`reconcile explain --export`: writes an object's life to a file, in the form that its name asks for."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

import click
import msgspec

from reconcile.commands.debug_client import DebugClient
from reconcile.commands.problems import Problem
from reconcile.status.life_form import Life, read_life
from reconcile.status.life_html import html_of
from reconcile.status.life_trace import trace_of

PAGE: Final = "/status/object"


def export_life(target: str, manager: DebugClient, *, kind: str, key: str) -> None:
    """Ask a manager for the life of an object, and write it to `target`. Raises Problem."""
    write = _form_of(target)
    body = manager.read(PAGE, controller=kind, key=key)
    try:
        text = write(body, read_life(body))
    except ValueError as error:
        raise Problem(
            f"{manager.url} does not answer with the life of an object ({error})",
            "its manager and this command have to be of one version",
        ) from None
    if target == "-":
        click.echo(text, nl=False)
        return
    replace_file(Path(target), text)
    click.echo(target)


def _form_of(target: str) -> Callable[[bytes, Life], str]:
    """What makes the file of a life. Raises Problem for a name that does not say it."""
    name = target.lower()
    if name.endswith(".otlp.json"):
        return _trace
    if name.endswith(".json") or target == "-":
        return _as_it_came
    if name.endswith(".html"):
        return lambda body, life: html_of(life)
    raise Problem(
        f"the name {target} does not say in which form to export", "end it with .html, .json or .otlp.json"
    )


def _as_it_came(body: bytes, life: Life) -> str:
    # Not written anew from `life`: a member that this version does not know yet would be lost.
    return f"{msgspec.json.format(body, indent=2).decode()}\n"


def _trace(body: bytes, life: Life) -> str:
    # One line, as the form of files asks: https://opentelemetry.io/docs/specs/otel/protocol/file-exporter/
    return f"{msgspec.json.encode(trace_of(life)).decode()}\n"


def replace_file(path: Path, text: str) -> None:
    """Write a file, whole or not at all: an earlier one stays until the new one is complete.

    Raises Problem.
    """
    path = Path(os.path.realpath(path))  # a link stays one, and what it leads to is replaced
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        # Exclusively: in a folder that others may write to, the name may be a link of theirs.
        with draft.open("x", encoding="utf-8", errors="replace") as file:
            try:
                file.write(text)
                file.close()
                draft.replace(path)
            except BaseException:
                draft.unlink(missing_ok=True)
                raise
    except OSError as error:
        raise Problem(f"cannot write {path}", f"{error.strerror or error}; name another file") from None
