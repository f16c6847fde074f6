"""Begins the recording of a manager."""

import os
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import structlog

from informers import Clock, SystemClock
from reconcile.controller.declaration import Controller
from reconcile.controller.declared_secrets import declared_secrets
from reconcile.recording.recorded_events import FORMAT, Header
from reconcile.recording.recording_file import RecordingFile
from reconcile.recording.run_recorder import RunRecorder
from reconcile.recording.secret_masks import Place, SecretMasks


def open_recorder(
    path: str,
    megabytes: float,
    clock: Clock,
    controllers: Sequence[Controller[Any]],
    options: Mapping[str, Any],
    log: structlog.stdlib.BoundLogger,
) -> RunRecorder:
    """A recorder into a ring of two files at `path`; `options` are those that replay needs.

    A path that cannot be written is a warning: then nothing is recorded.
    """
    # Neither name nor key is taken from the clock: a test takes the same course with and without a recording,
    # and the key of the masks cannot be guessed.
    began, name = clock.now(), os.urandom(16).hex()

    def header(part: int) -> Header:
        return Header(FORMAT, name, part, began.isoformat(), _version(), dict(options))

    masks = SecretMasks(os.urandom(32), secret_paths(controllers))
    in_step = not isinstance(clock, SystemClock)
    file = RecordingFile(Path(path), megabytes, masks, header, log, in_step)
    file.open()
    return RunRecorder(file)


def secret_paths(controllers: Sequence[Controller[Any]]) -> Mapping[Place, frozenset[tuple[str, ...]]]:
    """The fields that are declared secret, of all kinds that these controllers name."""
    found: dict[Place, frozenset[tuple[str, ...]]] = {}
    for resource, paths in declared_secrets(controllers).items():
        place = resource.group, resource.plural
        found[place] = found.get(place, frozenset()) | paths
    return found


def _version() -> str:
    try:
        return version("reconcile-runtime")
    except PackageNotFoundError:
        return ""
