"""The ring of files: when the next file begins, and what happens if two processes record to one path."""

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from informers import Cache, get_logger
from informers.reflector_state import Commit, Reach, StageObjects
from reconcile.kinds import ConfigMap
from reconcile.models import kind_of
from reconcile.recording import read_recording, recording_file
from reconcile.recording.recorded_events import FORMAT, Header, Noted, TimedEvent
from reconcile.recording.recording_file import Masked, RecordingFile
from reconcile.recording.run_recorder import RunRecorder
from reconcile.recording.secret_masks import SecretMasks
from reconcile.testing import FakeClient, simulate

MEGABYTES = 0.01


def ring(path: Path, name: str = "r", megabytes: float = MEGABYTES) -> RecordingFile:
    """A ring that writes when it is asked to, and begins its next file after some 4,500 bytes."""

    def header(part: int) -> Header:
        return Header(FORMAT, name, part, "2026-01-01T00:00:00+00:00", "", {})

    log = get_logger("tests.recording")
    file = RecordingFile(path, megabytes, SecretMasks(b"k" * 32, {}), header, log, in_step=True)
    file.open()
    return file


def note(text: str) -> Masked:
    return lambda masks: Noted(0, text)


def noise() -> Masked:
    """An event that takes more than half of the ring, however it is compressed."""
    return note(os.urandom(6_000).hex())


def texts(path: Path) -> Sequence[str]:
    return [event.text[:10] for event in read_recording(path).events() if isinstance(event, Noted)]


@pytest.mark.rule("recording-ring")
def test_a_file_that_is_about_to_end_is_followed_by_one_file_though_more_is_written_meanwhile(
    tmp_path: Path,
) -> None:
    file = ring(tmp_path / "rec")
    file.add(noise(), 0)
    file._write()
    assert file.rotating

    def rotated_meanwhile(masks: SecretMasks) -> TimedEvent:
        file.rotate(list)  # by the loop, while the thread writes what was there before
        return Noted(0, "last")

    file.add(rotated_meanwhile, 0)
    file._write()
    assert not file.rotating  # another file would take the place of the one that has just ended
    file.close()
    assert read_recording(tmp_path / "rec").header.part == 0


def test_the_content_of_large_caches_does_not_end_the_recording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording_file, "MOST_WAITING", 10_000)
    file = ring(tmp_path / "rec", megabytes=1)
    file.rotate(lambda: [note("stored")])
    file.add(note("next"), 9_000)
    file.close()
    assert texts(tmp_path / "rec") == ["stored", "next"]


def test_a_file_that_somebody_has_deleted_is_followed_by_the_next_one(tmp_path: Path) -> None:
    file = ring(tmp_path / "rec")
    (tmp_path / "rec").unlink()
    file.add(noise(), 0)
    file._write()
    file.rotate(lambda: [note("stored")])
    file.close()
    assert texts(tmp_path / "rec") == ["stored"]


@pytest.mark.rule("recording-ring")
def test_no_file_begins_while_any_part_of_a_cache_reads_a_list(tmp_path: Path) -> None:
    async def begun() -> list[int]:
        recorder = RunRecorder(ring(tmp_path / "rec"))
        cache = Cache(FakeClient().transport, namespaces=["one", "other"], taps=partial(recorder.tap, ""))
        cache.declare(kind_of(ConfigMap).resource)
        tap = recorder._caches[0]
        states = []
        tap.applied("one", StageObjects(()))
        recorder.file.rotating = True
        for part, output in (("other", Reach(5)), ("one", Reach(5)), ("one", Commit(6)), ("other", Reach(7))):
            tap.applied(part, output)
            states.append(recorder.file.rotating)
        recorder.file.close()
        return states

    assert simulate(begun) == [True, True, True, False]
