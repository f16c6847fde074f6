"""A log that is cut off, damaged or incomplete: the end of a crash is no fault, all else is refused."""

import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from reconcile.embedded.durable import segments as writing
from reconcile.embedded.durable.data_folder import DataFolder
from reconcile.embedded.durable.files import DataFault
from reconcile.embedded.durable.reading import load
from tests.embedded.api_client import CONFIG_MAPS, Api, StillClock, config_map, events
from tests.embedded.durable_worlds import copied, kept, objects, places, segments

TEN = 10


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """A folder with twenty config maps, one record each, at the end."""
    path = tmp_path / "data"
    with kept(path) as api:
        for number in range(20):
            api.ok("POST", CONFIG_MAPS, config_map(f"m{number}", {"text": "x" * 40}))
    return path


@pytest.fixture
def parted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose log has several segments."""
    monkeypatch.setattr(writing, "SEGMENT_BYTES", 4000)
    path = tmp_path / "data"
    with kept(path) as api:
        for number in range(20):
            api.ok("POST", CONFIG_MAPS, config_map(f"m{number}", {"text": "x" * 400}))
    assert len(segments(path)) > 4
    return path


def test_a_log_cut_at_every_byte_of_its_last_ten_records_holds_all_whole_ones(written: Path) -> None:
    last = segments(written)[-1]
    data, whole = last.read_bytes(), load(written)
    ends = [end for _, end in places(written)]
    first = ends[-TEN - 1]
    cuts = 0
    for size in range(len(data) - 1, first - 1, -1):
        with last.open("r+b") as file:
            file.truncate(size)
        found = load(written)
        count = sum(end <= size for end in ends)
        assert found.changes == whole.changes[:count]
        assert found.tail is not None
        assert (found.tail.size, found.tail.torn) == (ends[count - 1], size - ends[count - 1])
        cuts += 1
    assert cuts == len(data) - first > 1000


@pytest.mark.parametrize("left", [0, 1, 19, 20, 21, 150])
def test_a_torn_end_is_forgotten_and_the_next_write_takes_its_place(written: Path, left: int) -> None:
    clock = StillClock()
    start, _ = places(written)[-1]
    with segments(written)[-1].open("r+b") as file:
        file.truncate(start + left)
    with kept(written, clock) as api:
        assert api.gone(f"{CONFIG_MAPS}/m19")
        assert api.ok("GET", f"{CONFIG_MAPS}/m18")
        api.ok("POST", CONFIG_MAPS, config_map("again"))
        after = objects(api.server)
    with kept(written, clock) as api:
        assert objects(api.server) == after


def test_zeros_at_the_end_are_a_torn_end(written: Path) -> None:
    with segments(written)[-1].open("ab") as file:
        file.write(bytes(5000))
    with kept(written) as api:
        assert len(api.ok("GET", CONFIG_MAPS)["items"]) == 20


@pytest.mark.parametrize("size", [0, 1, 23, 24, 30, 60])
def test_a_segment_that_was_just_begun_may_be_torn(parted: Path, size: int) -> None:
    before = load(parted)
    numbers = [int(path.stem.rpartition("-")[2]) for path in segments(parted)]
    begun = parted / f"segment-{numbers[-1] + 1:08}.log"
    begun.write_bytes(segments(parted)[-1].read_bytes()[:size])
    with kept(parted) as api:
        assert api.server.version == before.version
        api.ok("POST", CONFIG_MAPS, config_map("more"))
    with kept(parted) as api:
        assert api.ok("GET", f"{CONFIG_MAPS}/more")


# --- damage -----------------------------------------------------------------------------------


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0x10
    path.write_bytes(data)


def damage_body(path: Path) -> None:
    start, end = places(path)[5]
    flip(segments(path)[-1], (start + end) // 2)


def damage_length(path: Path) -> None:
    start, _ = places(path)[5]
    flip(segments(path)[-1], start + 1)


def damage_last(path: Path) -> None:
    start, _ = places(path)[-1]
    flip(segments(path)[-1], start + 60)


def zero_a_page(path: Path) -> None:
    last = segments(path)[-1]
    data = bytearray(last.read_bytes())
    data[4096:6144] = bytes(2048)
    last.write_bytes(data)


def drop_a_record(path: Path) -> None:
    last = segments(path)[-1]
    start, end = places(path)[5]
    data = last.read_bytes()
    last.write_bytes(data[:start] + data[end:])


def damage_head(path: Path) -> None:
    flip(segments(path)[-1], 30)


DAMAGES = [damage_body, damage_length, damage_last, zero_a_page, drop_a_record, damage_head]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_log_is_refused_in_one_line_that_says_where_and_what_next(
    written: Path, damage: Callable[[Path], None]
) -> None:
    damage(written)
    left = {file.name: file.read_bytes() for file in written.iterdir() if file.suffix == ".log"}
    with pytest.raises(DataFault, match=r"segment-00000001.log is damaged at byte \d+: ") as fault:
        DataFolder(written)
    assert "--repair" in str(fault.value)
    assert "\n" not in str(fault.value)
    assert fault.value.repairable
    assert {file.name: file.read_bytes() for file in written.iterdir() if file.suffix == ".log"} == left


def test_a_missing_segment_is_refused(parted: Path) -> None:
    segments(parted)[2].unlink()
    with pytest.raises(
        DataFault, match=r"segment-00000004.log is .* at byte 0: segment 3 before it is missing"
    ):
        DataFolder(parted)


@pytest.mark.parametrize("at", [0, 1, -2])
def test_a_segment_that_ends_early_is_refused_unless_it_is_the_last(parted: Path, at: int) -> None:
    with segments(parted)[at].open("r+b") as file:
        file.truncate(2000)
    with pytest.raises(DataFault, match="is damaged at byte"):
        DataFolder(parted)


def test_a_log_that_is_gone_is_refused_and_a_repair_begins_anew(written: Path) -> None:
    segments(written)[0].unlink()
    with pytest.raises(DataFault, match="it is missing"):
        DataFolder(written)
    with DataFolder(written, repair=True) as folder:
        assert len(folder.repairs) == 1


def test_unreadable_keys_are_refused(written: Path) -> None:
    (written / "keys.json").write_text("{")
    with pytest.raises(DataFault, match=r"keys.json cannot be read .*: restore it from a copy"):
        DataFolder(written)


# --- repair -----------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", [damage_body, damage_length, drop_a_record])
def test_a_repair_keeps_what_came_before_and_says_what_it_drops(
    written: Path, damage: Callable[[Path], None]
) -> None:
    all_records, whole = load(written).changes, places(written)
    damage(written)
    size = segments(written)[0].stat().st_size
    damaged = segments(written)[0].read_bytes()
    clock = StillClock()
    with DataFolder(written, repair=True, clock=clock) as folder:
        [repair] = folder.repairs
        assert repair.offset == whole[5][0]
        assert repair.lost.bytes == size - repair.offset
        rest = all_records[6:]
        assert repair.lost.records == len(rest)
        assert repair.lost.objects == len({record.place for record in rest})
        assert f"dropped {repair.lost.bytes} bytes with {len(rest)} records" in str(repair)
        assert folder.found.changes == all_records[:5]
    assert Path(f"{segments(written)[0]}.damaged").read_bytes() == damaged
    with kept(written, clock) as api:
        assert api.ok("GET", CONFIG_MAPS)["items"] == []


def test_a_repair_drops_the_segments_after_the_damage(parted: Path) -> None:
    third = segments(parted)[2]
    flip(third, 1500)
    with DataFolder(parted, repair=True, clock=StillClock()):
        assert segments(parted)[-1] == third
    assert list(parted.glob("*.damaged"))
    with DataFolder(parted, clock=StillClock()) as folder:
        assert folder.repairs == []


def test_versions_that_a_repair_dropped_are_never_given_out_again(written: Path) -> None:
    clock = StillClock()
    newest = load(written).version
    damage_body(written)
    with DataFolder(written, repair=True, clock=clock) as folder:
        api = Api(clock=clock, data=folder)
        assert api.server.version > newest
    with kept(written, clock) as api:
        assert api.server.version > newest
        [(kind, status)] = events(api.watch(CONFIG_MAPS, resourceVersion=str(newest)))
        assert (kind, status["reason"]) == ("ERROR", "Expired")


def test_a_repair_of_a_whole_log_changes_nothing(written: Path) -> None:
    before = load(written)
    with DataFolder(written, repair=True) as folder:
        assert folder.repairs == []
        assert folder.found == before


# --- copies -----------------------------------------------------------------------------------


def test_a_copy_that_is_taken_while_it_runs_holds_all_that_was_answered_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(writing, "SEGMENT_BYTES", 4000)
    clock = StillClock()
    with kept(tmp_path / "data", clock) as api:
        for number in range(30):
            api.ok("POST", CONFIG_MAPS, config_map(f"m{number}", {"text": "x" * 300}))
            if number % 5 == 0:
                before = objects(api.server)
                copied(tmp_path / "data", tmp_path / "copy")
                with kept(tmp_path / "copy", clock) as other:
                    assert objects(other.server) == before
    assert [record for record in caplog.records if record.levelno > logging.INFO] == []
