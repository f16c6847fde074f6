"""Old segments are compacted in the background, and clients do not notice."""

import os
import threading
from pathlib import Path

import pytest

from reconcile.embedded.durable import compaction, files, segments
from reconcile.embedded.durable.data_folder import DataFolder
from reconcile.embedded.durable.files import DataFault, log_files
from reconcile.embedded.durable.reading import load
from tests.embedded.api_client import CONFIG_MAPS, Api, StillClock, config_map, events
from tests.embedded.durable_worlds import bases, copied, kept, objects
from tests.embedded.durable_worlds import segments as segments_of


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "SEGMENT_BYTES", 4000)
    monkeypatch.setattr(compaction, "KEPT_BYTES", 9000)
    monkeypatch.setattr(compaction, "_WASTE", 4000)


def churn(api: Api, rounds: int = 60) -> None:
    """Change a few objects again and again, and let each compaction end."""
    for number in range(rounds):
        name = f"m{number % 4}"
        if number < 4:
            api.ok("POST", CONFIG_MAPS, config_map(name, {"text": "x" * 400}))
        else:
            api.merge(f"{CONFIG_MAPS}/{name}", {"data": {"text": f"{number}" * 200}})
        await_compaction()


def await_compaction() -> None:
    for thread in threading.enumerate():
        if thread.name == "reconcile-compaction":
            thread.join()


def test_a_log_that_is_mostly_superseded_is_compacted_and_restarts_as_it_was(tmp_path: Path) -> None:
    clock = StillClock()
    with kept(tmp_path, clock) as api:
        churn(api)
        api.ok("DELETE", f"{CONFIG_MAPS}/m3")
        before, version = objects(api.server), api.server.version
    assert bases(tmp_path)
    found = load(tmp_path)
    assert len(found.objects) + len(found.changes) < 80
    with kept(tmp_path, clock) as api:
        assert (objects(api.server), api.server.version) == (before, version)
        assert api.gone(f"{CONFIG_MAPS}/m3")


def test_watches_resume_in_what_was_not_compacted_and_are_expired_before_that(tmp_path: Path) -> None:
    clock = StillClock()
    with kept(tmp_path, clock) as api:
        begun = api.server.version
        churn(api)
        recent = api.server.version - 4
        watched = api.watch(CONFIG_MAPS, resourceVersion=str(recent)).take()
        assert len(watched) == 4
    with kept(tmp_path, clock) as api:
        assert api.watch(CONFIG_MAPS, resourceVersion=str(recent)).take() == watched
        [(kind, status)] = events(api.watch(CONFIG_MAPS, resourceVersion=str(begun)))
        assert (kind, status["reason"]) == ("ERROR", "Expired")


def test_a_copy_that_began_before_a_compaction_is_whole(tmp_path: Path) -> None:
    """What a copy lists first is still there when it comes to copy it."""
    clock = StillClock()
    with kept(tmp_path / "data", clock) as api:
        churn(api, 20)
        listed = sorted(path.name for path in (tmp_path / "data").iterdir())
        before = api.server.version
        churn_more(api)
        (tmp_path / "copy").mkdir()
        for name in listed:
            (tmp_path / "copy" / name).write_bytes((tmp_path / "data" / name).read_bytes())
    with kept(tmp_path / "copy", clock) as other:
        assert other.server.version >= before


def churn_more(api: Api) -> None:
    for number in range(60):
        api.merge(f"{CONFIG_MAPS}/m{number % 4}", {"data": {"text": f"again {number}" * 100}})
        await_compaction()


def test_superseded_files_go_some_minutes_later(tmp_path: Path) -> None:
    clock = StillClock()
    with kept(tmp_path, clock) as api:
        churn(api)
    base, later, superseded = files.current(log_files(tmp_path))
    assert base is not None
    assert superseded
    moment = clock.now().timestamp()
    os.utime(base.path, (moment, moment))
    for seconds, left in ((200, [*superseded, base, *later]), (400, [base, *later])):
        compaction.sweep(tmp_path, moment + seconds)
        assert sorted(log_files(tmp_path), key=str) == sorted(left, key=str)


def test_a_compaction_that_fails_loses_nothing_and_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clock = StillClock()
    with monkeypatch.context() as broken, kept(tmp_path, clock) as api:

        def full(*_: object) -> None:
            raise OSError(28, "No space left on device")

        broken.setattr(compaction, "write_all", full)
        churn(api)
        before = objects(api.server)
    assert not bases(tmp_path)
    assert "cannot compact the log" in caplog.text
    assert not list(tmp_path.glob("*.tmp"))
    with kept(tmp_path, clock) as api:
        await_compaction()
        assert bases(tmp_path)
        assert objects(api.server) == before


def test_writes_go_on_during_a_compaction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, gate = StillClock(), threading.Event()
    through = compaction.write_all

    def slowly(descriptor: int, data: bytes) -> None:
        gate.wait(20)
        through(descriptor, data)

    with kept(tmp_path, clock) as api:
        monkeypatch.setattr(compaction, "write_all", slowly)
        for number in range(60):
            name = f"m{number}"
            api.ok("POST", CONFIG_MAPS, config_map(name, {"text": "x" * 400}))
            api.ok("DELETE", f"{CONFIG_MAPS}/{name}")
        assert not bases(tmp_path)
        assert any(thread.name == "reconcile-compaction" for thread in threading.enumerate())
        gate.set()
        await_compaction()
        assert bases(tmp_path)
        before = objects(api.server)
    with kept(tmp_path, clock) as api:
        assert objects(api.server) == before


def test_a_compaction_that_was_killed_leaves_the_segments(tmp_path: Path) -> None:
    clock = StillClock()
    with kept(tmp_path / "data", clock) as api:
        churn(api, 12)
        before = objects(api.server)
        copy = copied(tmp_path / "data", tmp_path / "copy")
    (copy / "base-00000002.log.tmp").write_bytes(b"half a base")
    with kept(copy, clock) as api:
        assert objects(api.server) == before
    assert not list(copy.glob("*.tmp"))


# --- damage -----------------------------------------------------------------------------------


@pytest.fixture
def compacted(tmp_path: Path) -> Path:
    """A folder with a base, and nothing that it was made of."""
    path = tmp_path / "data"
    with kept(path) as api:
        churn(api)
    for one in files.current(log_files(path))[2]:
        one.path.unlink()
    return path


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0x10
    path.write_bytes(data)


@pytest.mark.parametrize("at", [30, 200, -40, -1])
def test_a_damaged_base_is_refused_and_can_be_repaired(compacted: Path, at: int) -> None:
    [base] = bases(compacted)
    flip(base, at % base.stat().st_size)
    with pytest.raises(DataFault, match=r"base-\d+.log is damaged at byte \d+") as fault:
        DataFolder(compacted)
    assert fault.value.repairable
    with DataFolder(compacted, repair=True, clock=StillClock()) as folder:
        assert folder.repairs
        Api(data=folder)
    with kept(compacted) as api:
        assert api.ok("GET", CONFIG_MAPS)["kind"] == "ConfigMapList"


def test_a_base_that_ends_early_is_refused(compacted: Path) -> None:
    [base] = bases(compacted)
    data = base.read_bytes()
    for size in (len(data) - 1, len(data) // 2, 10, 0):
        base.write_bytes(data[:size])
        with pytest.raises(DataFault, match=r"base-\d+.log is damaged"):
            DataFolder(compacted)


def test_a_base_without_the_segment_after_it_is_refused(compacted: Path) -> None:
    for path in segments_of(compacted):
        path.unlink()
    with pytest.raises(DataFault, match="after it is missing"):
        DataFolder(compacted)


def test_a_repair_goes_back_to_what_a_damaged_base_was_made_of(tmp_path: Path) -> None:
    clock = StillClock()
    with kept(tmp_path, clock) as api:
        churn(api)
        before = objects(api.server)
    flip(bases(tmp_path)[-1], 200)
    with DataFolder(tmp_path, repair=True, clock=clock) as folder:
        assert [repair.lost.records for repair in folder.repairs] == [0]
        assert objects(Api(clock=clock, data=folder).server) == before
