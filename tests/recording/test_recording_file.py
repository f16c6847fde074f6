"""The ring of files: its bounds, crashes, full disks, hostile bytes."""

import os
import stat
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path

import anyio
import msgspec
import pytest
import zstandard
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from reconcile import Manager
from reconcile.recording import RecordingProblem, read_recording, recording_file, recording_frames
from reconcile.recording.event_tables import TableWriter
from reconcile.recording.recorded_events import (
    FORMAT,
    Answered,
    Began,
    Buckets,
    Changed,
    Ended,
    Header,
    Sent,
    Stored,
    TimedEvent,
)
from reconcile.recording.recording_file import previous_of
from reconcile.recording.recording_frames import MAGIC, FrameWriter
from reconcile.testing import FakeClient
from reconcile.testing.recorded_runs import replay_recording, run_traces
from reconcile.testing.recorded_runs.incident_cut import cut
from tests.recording.recorded_sites import Site, recorded, site, sites

OF_FORMAT_2 = Path(__file__).parent / "recorded" / "sites-of-format-2.rec"


def events_of(path: Path) -> list[TimedEvent]:
    return list(read_recording(path).events())


def header(**changes: object) -> Header:
    return msgspec.structs.replace(
        Header(FORMAT, "r", 0, "2026-01-01T00:00:00+00:00", "0.1.0", {}), **changes
    )


def written(path: Path, *pieces: bytes, first: bytes | None = None) -> Path:
    """A file of whole frames with these pieces."""
    frames = FrameWriter()
    path.write_bytes((first or frames.first_line(FORMAT)) + b"".join(map(frames.frame, pieces)))
    return path


def pieces_of(first: Header, *frames: Sequence[TimedEvent]) -> Sequence[bytes]:
    """What the frames of a file with these events hold."""
    tables, pieces = TableWriter(), [msgspec.msgpack.encode(first)]
    for events in frames:
        for event in events:
            tables.add(event)
        pieces.append(tables.frame())
    return pieces


# --- the ring ---------------------------------------------------------------------------------------------


@pytest.mark.rule("recording-ring")
def test_only_the_owner_can_read_it(tmp_path: Path) -> None:
    recorded(tmp_path / "rec", site())
    assert stat.S_IMODE((tmp_path / "rec").stat().st_mode) == 0o600


async def many_edits(client: FakeClient) -> None:
    for number in range(60):
        text = os.urandom(24_000).hex()
        await client.modify(
            Site, "web", "default", lambda one, text=text: one.replace(spec=evolve(one.spec, text=text))
        )
        await anyio.sleep(1 + number % 2)


@pytest.mark.rule("recording-ring")
def test_both_files_together_stay_within_their_bound_and_replay_from_what_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording_file, "_IN_STEP", 10_000)
    path = tmp_path / "rec"
    objects = [site(), *(site(f"other-{number}") for number in range(5))]
    recording = recorded(path, *objects, act=many_edits, record_mb=1)
    sizes = [one.stat().st_size for one in tmp_path.iterdir()]
    assert sorted(one.name for one in tmp_path.iterdir()) == ["rec", "rec.1"]
    assert sum(sizes) < 1.1e6
    assert recording.files == (previous_of(path), path)
    assert recording.header.part > 0  # the first files are gone
    found = events_of(path)
    stored = next(event for event in found if isinstance(event, Stored) and "sites" in event.resource)
    assert len(stored.objects) == 6
    assert min(event.run for event in found if isinstance(event, Began)) > 1
    report = replay_recording(recording, [sites()])
    assert report.identical, "\n".join(report.lines())
    assert report.runs > 20


@pytest.mark.rule("recording-ring")
def test_a_file_to_which_another_manager_records_is_left_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "rec"

    async def start_another(client: FakeClient) -> None:
        run = sites()
        other = Manager(run, transport=client.transport, clock=client.clock, record=path, environ={})
        async with anyio.create_task_group() as group:
            await group.start(other.run)
            other.stop()

    recording = recorded(path, site(), act=start_another)
    (line,) = lines(caplog)
    assert "another manager records to rec: give each a file of its own" in line
    assert [one.name for one in tmp_path.iterdir()] == ["rec"]
    assert replay_recording(recording, [sites()]).identical
    recorded(path, site())  # once it has ended, the file is free
    assert previous_of(path).exists()


def test_a_new_manager_keeps_the_recording_of_the_one_before(tmp_path: Path) -> None:
    first = recorded(tmp_path / "rec", site()).header
    second = recorded(tmp_path / "rec", site()).header
    assert first.recording != second.recording
    assert read_recording(tmp_path / "rec").header == second
    assert read_recording(tmp_path / "rec.1").header == first


def test_the_file_of_another_recording_is_not_read_before_it(tmp_path: Path) -> None:
    written(tmp_path / "rec", *pieces_of(header(part=1, recording="mine")))
    written(tmp_path / "rec.1", *pieces_of(header(part=0, recording="other")))
    assert read_recording(tmp_path / "rec").files == (tmp_path / "rec",)


# --- what goes wrong when it is written ------------------------------------------------------------------


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = [vars(record) for record in caplog.records]
    return [
        f"{one.get('event')}: {one.get('why')}"
        for one in found
        if one.get("event") == "the recording has ended"
    ]


@pytest.mark.rule("recording-harmless")
@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda path: path.mkdir(), "is there, and is not a recording"),
        (lambda path: path.write_text("my notes"), "is there, and is not a recording"),
        (lambda path: path.symlink_to("/dev/null"), "Too many levels of symbolic links"),
    ],
)
def test_what_is_not_a_recording_is_left_alone_and_the_operator_works(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, make: object, why: str
) -> None:
    path = tmp_path / "rec"
    make(path)  # type: ignore[operator]
    before = path.lstat()
    with pytest.raises(RecordingProblem):
        recorded(path, site(), act=page_is_there)
    (line,) = lines(caplog)
    assert why in line
    assert (path.lstat().st_ino, path.lstat().st_size) == (before.st_ino, before.st_size)


async def page_is_there(client: FakeClient) -> None:
    from reconcile.kinds import ConfigMap

    assert await client.find(ConfigMap, "web", "default", live=True)


@pytest.mark.rule("recording-harmless")
def test_a_full_disk_ends_the_recording_with_one_line_and_never_the_operator(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording_file, "_IN_STEP", 1)
    real, calls = os.write, iter(range(1_000))

    def write(descriptor: int, data: bytes) -> int:
        if next(calls) > 6:
            raise OSError(28, "No space left on device")
        return real(descriptor, data)

    monkeypatch.setattr(recording_file.os, "write", write)
    recording = recorded(tmp_path / "rec", site(), act=page_is_there)
    assert lines(caplog) == ["the recording has ended: No space left on device"]
    assert list(recording.events())  # what was written before can be read


@pytest.mark.rule("recording-harmless")
def test_a_recording_that_is_too_small_for_the_caches_ends_and_says_what_is_needed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording_file, "_IN_STEP", 10_000)
    objects = [site(f"site-{number}", os.urandom(15_000).hex()) for number in range(40)]
    recorded(tmp_path / "rec", *objects, site(), act=many_edits, record_mb=1)
    (line,) = lines(caplog)
    assert "the objects in the caches need record_mb=" in line


# --- what was cut off, or made up ----------------------------------------------------------------------


@pytest.mark.rule("recording-crash")
@settings(max_examples=30, deadline=None)
@given(st.data())
def test_a_file_that_was_cut_off_anywhere_is_read_to_its_last_whole_frame(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.getbasetemp() / "cut.rec"
    whole = [Began(number, number, "", "a", "b", "c", 0, 0, []) for number in range(20)]
    pieces = pieces_of(header(), *([event] for event in whole))
    frames = FrameWriter()
    parts = [frames.first_line(FORMAT), *map(frames.frame, pieces)]
    body = b"".join(parts)
    size = data.draw(st.integers(0, len(body)))
    path.write_bytes(body[:size])
    complete = sum(1 for end in range(3, len(parts) + 1) if sum(map(len, parts[:end])) <= size)
    if size < len(parts[0]) + len(parts[1]):
        with pytest.raises(RecordingProblem):
            read_recording(path)
    else:
        assert events_of(path) == whole[:complete]


@pytest.mark.rule("recording-hostile")
@settings(max_examples=30, deadline=None)
@given(st.binary(max_size=200))
def test_made_up_bytes_are_a_clear_error(tmp_path_factory: pytest.TempPathFactory, body: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "hostile.rec"
    for first in (b"", *(MAGIC + f"{FORMAT} {name}\n".encode() for name in ("zlib", "zstd"))):
        path.write_bytes(first + body)
        with pytest.raises(RecordingProblem, match="hostile"):
            events_of(path)
    with pytest.raises(RecordingProblem):
        events_of(written(path, body))
    if body:
        with pytest.raises(RecordingProblem):
            events_of(written(path, *pieces_of(header()), body))


@pytest.mark.rule("recording-hostile")
@pytest.mark.parametrize("compression", ["zlib", "zstd"])
def test_a_frame_that_would_fill_the_memory_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compression: str
) -> None:
    monkeypatch.setattr(recording_frames, "LARGEST_PIECE", 1 << 20)
    if compression == "zlib":
        packed = zlib.compress(bytes(50 << 20), 9)
    else:
        packed = zstandard.ZstdCompressor().compress(bytes(50 << 20))
    first = MAGIC + f"{FORMAT} {compression}\n".encode()
    (tmp_path / "rec").write_bytes(first + struct.pack(">II", len(packed), zlib.crc32(packed)) + packed)
    with pytest.raises(RecordingProblem, match="a frame of more than 1048576 bytes"):
        events_of(tmp_path / "rec")


def test_other_formats_and_compressions_are_named(tmp_path: Path) -> None:
    (tmp_path / "new").write_bytes(MAGIC + b"4 zstd\n")
    with pytest.raises(RecordingProblem, match="has format 4, and this version reads formats 2 and 3"):
        read_recording(tmp_path / "new")
    (tmp_path / "odd").write_bytes(MAGIC + b"2 lzma\n")
    with pytest.raises(RecordingProblem, match="compressed by 'lzma'"):
        read_recording(tmp_path / "odd")


def test_a_recording_of_the_format_before_is_still_replayed() -> None:
    """It was made by `test_the_same_code_decides_the_same_in_every_run` before replicas were recorded."""
    recording = read_recording(OF_FORMAT_2)
    assert recording.header.format == 2
    report = replay_recording(recording, [sites()])
    assert report.identical, "\n".join(report.lines())
    assert report.runs > 8


def test_a_damaged_frame_is_named_and_not_skipped(tmp_path: Path) -> None:
    path = written(tmp_path / "rec", *pieces_of(header(), [Began(1, 1, "", "a", "b", "c", 0, 0, [])]))
    body = bytearray(path.read_bytes())
    body[-1] ^= 1
    path.write_bytes(body)
    with pytest.raises(RecordingProblem, match="the checksum of a frame is wrong"):
        events_of(path)


def test_hostile_buckets_are_replayed_as_far_as_they_make_sense(tmp_path: Path) -> None:
    ring = {
        "buckets": 16,
        "shared": {"example.com/v1/Site/sites": "uid", "/v1/ConfigMap/configmaps": "label"},
    }
    events = [
        Buckets(1, "follow", "example.com/v1/Site/sites", [-1, 3, 1 << 60], []),
        Buckets(2, "follow", "example.com/v1/Unknown/unknowns", [1], []),
        Buckets(3, "hold", "", [1, -7, 1 << 60, 16], [5]),
        Buckets(4, "close", "", [2, -9], []),
        Began(5, 1, "", "site", "default", "web", 0, 0, []),
        Buckets(6, "drop", "", [1, 99, -1], []),
        Buckets(7, "forget", "nobody", [1], []),
        Buckets(8, "forget", "site", [1, -1], []),
        Ended(9, 1, "eeeeeeee", "success", False, None, None, "", "", []),
    ]
    path = written(tmp_path / "rec", *pieces_of(header(options={"sharding": ring}), events))
    report = replay_recording(read_recording(path), [sites()])
    assert (report.runs, report.cut_off) == (1, 0)
    for options in ({"buckets": 15}, {"buckets": [1]}, {**ring, "shared": {"x": 5}}):
        path = written(tmp_path / "rec", *pieces_of(header(options={"sharding": options}), events))
        with pytest.raises(RecordingProblem, match="the header of the recording cannot be used"):
            replay_recording(read_recording(path), [sites()])
    path = written(tmp_path / "rec", *pieces_of(header(), [Buckets(1, "follow", "what", [], [])]))
    with pytest.raises(RecordingProblem, match="names no resource"):
        events_of(path)


def test_hostile_events_are_replayed_as_far_as_they_make_sense(tmp_path: Path) -> None:
    events = [
        Began(1, 1, "", "site", "default", "web", 0, 0, []),
        Ended(2, 9, "ffffffff", "success", False, None, None, "", "", [("now", "yesterday")]),
        Ended(3, 1, "eeeeeeee", "success", False, None, None, "", "", [("random", "x"), ("what", 5)]),
    ]
    path = written(tmp_path / "rec", *pieces_of(header(options={"clusters": 5, "timeout": [1]}), events))
    report = replay_recording(read_recording(path), [sites()])
    assert (report.runs, report.cut_off) == (1, 0)


@pytest.mark.rule("recording-hostile")
def test_runs_that_never_end_are_refused_before_they_fill_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_traces, "LARGEST_OPEN", 50_000)
    begun = [Began(number, number, "", "site", "default", "web", 0, 0, []) for number in range(60)]
    path = written(tmp_path / "rec", *pieces_of(header(), begun))
    with pytest.raises(RecordingProblem, match="runs of the recording have not ended"):
        replay_recording(read_recording(path), [sites()])


@pytest.mark.rule("recording-hostile")
def test_a_header_that_would_fill_the_memory_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "rec", *pieces_of(header(options={"x": [[]] * 2_000_000})))
    with pytest.raises(RecordingProblem, match="a header of 2000"):
        read_recording(path)


@pytest.mark.rule("recording-hostile")
def test_a_run_that_begins_twice_is_refused(tmp_path: Path) -> None:
    begun = [
        Began(number, run, "", "site", "default", "web", 0, 0, []) for number, run in enumerate((1, 2, 1))
    ]
    path = written(tmp_path / "rec", *pieces_of(header(), begun))
    with pytest.raises(RecordingProblem, match="run 1 of the recording begins out of turn"):
        replay_recording(read_recording(path), [sites()])


@pytest.mark.rule("recording-hostile")
@pytest.mark.parametrize("began", ["", "yesterday", "2026-01-01T00:00:00"])
def test_a_beginning_that_is_not_a_point_in_time_is_refused(tmp_path: Path, began: str) -> None:
    path = written(tmp_path / "rec", *pieces_of(header(began=began)))
    with pytest.raises(RecordingProblem, match="does not say when it began"):
        read_recording(path)


@pytest.mark.rule("recording-hostile")
@pytest.mark.parametrize(
    "metadata", [None, 5, "web", [], {"ownerReferences": "web"}, {"ownerReferences": [3]}, {"name": {}}]
)
def test_objects_that_cannot_be_ones_make_a_scenario_as_far_as_they_make_sense(
    tmp_path: Path, metadata: object
) -> None:
    body = msgspec.json.encode({"metadata": metadata, "spec": {}})
    put = [Changed(number, "", "/v1/ConfigMap/configmaps", "", "put", 0, [body]) for number in (1, 2_000_000)]
    answered = [
        Began(3_000_000, 1, "", "site", "default", "web", 0, 0, []),
        Sent(3_000_000, 1, 0, "", "PATCH", "/api/v1", {}, "", None),
        Answered(3_000_000, 1, 0, 9_999, {}, body),
    ]
    path = written(tmp_path / "rec", *pieces_of(header(), [*put, *answered]))
    assert len(cut(read_recording(path).events(), 1.0, 60.0).objects) == 1
