"""The folder of a chart: its files are written without a loss of what people changed in them."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import click

from reconcile.commands.problems import Problem, writing_files
from reconcile.shipping.chart import RECORD
from reconcile.shipping.generated_files import Change, Update, diff_of, update_of

_ABOUT = "What `reconcile manifests --helm` generated last. Keep it with the chart: edits are told by it."


def write_chart(folder: Path, files: Mapping[str, str], *, merge: bool) -> None:
    """Write the files of a chart, and print their paths. Raises Problem for edited files, unless to merge."""
    update = _update(folder, files)
    if update.edited and not merge:
        raise Problem(
            f"{folder}: these files are not as they were generated: {', '.join(update.edited)}",
            "see what would change with --diff, and have both with --merge",
        )
    with writing_files(folder):
        for change in update.changes:
            _write(folder, change)
        _write(folder, Change(RECORD, None, _record(files)))  # last: until then each file is compared anew
    for change in update.changes:
        click.echo(folder / change.path)
    _show_kept(folder, update)


def diff_chart(folder: Path, files: Mapping[str, str]) -> bool:
    """Print what `--merge` would change, as a unified diff; whether it would change anything."""
    update = _update(folder, files)
    click.echo(diff_of(update.changes, str(folder)), nl=False)
    _show_kept(folder, update)
    return bool(update.changes)


def _show_kept(folder: Path, update: Update) -> None:
    for kept in update.kept:
        click.echo(f"kept {folder / str(kept)}", err=True)


def _update(folder: Path, files: Mapping[str, str]) -> Update:
    base = _recorded(folder)
    paths = {*base, *files}
    present = {path: text for path in sorted(paths) if (text := _read(folder, path)) is not None}
    return update_of(base, present, files)


def _recorded(folder: Path) -> Mapping[str, str]:
    """What was generated last, by path; nothing for a folder of which nothing is known."""
    text = _read(folder, RECORD)
    if text is None:
        return {}
    try:
        files = {path: _lines(path, lines) for path, lines in json.loads(text)["files"].items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise Problem(
            f"{folder / RECORD} is damaged", "take it from version control, or generate into another folder"
        ) from None
    return files


def _lines(path: str, lines: Sequence[Any]) -> str:
    inside = PurePosixPath(path)
    if inside.is_absolute() or ".." in inside.parts or not all(isinstance(line, str) for line in lines):
        raise ValueError(path)
    return "\n".join(lines)


def _record(files: Mapping[str, str]) -> str:
    lines = {path: text.split("\n") for path, text in files.items()}
    return f"{json.dumps({'about': _ABOUT, 'files': lines}, indent=1, ensure_ascii=False)}\n"


def _read(folder: Path, path: str) -> str | None:
    """The text of a file, or None if there is none."""
    file = _inside(folder, path)
    try:
        return file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        raise Problem(f"{file} is not text in UTF-8", "remove it, or generate into another folder") from None
    except OSError as error:
        raise Problem(f"{file} cannot be read", error.strerror or str(error)) from None


def _inside(folder: Path, path: str) -> Path:
    file = folder / path
    if not file.parent.resolve().is_relative_to(folder.resolve()):
        raise Problem(f"{file.parent} leads out of {folder}", "make it a folder instead of a link")
    return file


def _write(folder: Path, change: Change) -> None:
    """Write or delete a file as a whole: one that is interrupted leaves what was there."""
    file = _inside(folder, change.path)
    if change.after is None:
        file.unlink(missing_ok=True)
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_name(f".{file.name}.tmp")  # Helm ignores it, if it should stay behind
    draft.unlink(missing_ok=True)
    with open(draft, "x", encoding="utf-8", newline="\n") as stream:
        stream.write(change.after)
        stream.flush()
        os.fsync(stream.fileno())
    draft.replace(file)
