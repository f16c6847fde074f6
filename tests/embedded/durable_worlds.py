"""Servers with a data folder, and everything of them that a restart has to keep."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from reconcile.embedded import ApiServer
from reconcile.embedded.durable.data_folder import DataFolder
from reconcile.embedded.durable.files import Frame, frames, log_files
from reconcile.embedded.durable.reading import head_of
from tests.embedded.api_client import Api, StillClock


@contextmanager
def kept(path: Path, clock: StillClock | None = None, **options: Any) -> Iterator[Api]:
    """A server on that folder; its clock goes on if it is given again."""
    clock = clock or StillClock()
    with DataFolder(path, clock=clock) as folder:
        yield Api(clock=clock, data=folder, **options)


def objects(server: ApiServer) -> dict[tuple[str, ...], tuple[int, str, bytes]]:
    """Every object, with its version, uid and body."""
    return {
        (*resource, *stored.key): (stored.version, stored.uid, stored.body)
        for resource in server.log.resources()
        for stored in server.log.snapshot(resource)
    }


def segments(path: Path) -> list[Path]:
    return [file.path for file in log_files(path) if not file.base]


def bases(path: Path) -> list[Path]:
    return [file.path for file in log_files(path) if file.base]


def places(path: Path) -> list[tuple[int, int]]:
    """Where each record of the last segment starts and ends."""
    last = log_files(path)[-1]
    with last.path.open("rb") as file:
        head_of(last, file)
        found = list(frames(file, file.tell()))
    return [(one.offset, one.end) for one in found if isinstance(one, Frame)]


def copied(path: Path, to: Path) -> Path:
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(path, to)
    return to
