"""Replicas that share objects, each recorded by itself, through deaths, freezes, departures and joins.

`RECORDED_RUNS=1000` plays the full number of runs.
"""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path

import anyio
import pytest
from attrs import define

from reconcile import Context, Manager
from reconcile.embedded.verbs import object_selection
from reconcile.recording import read_recording, recording_file, recording_start
from reconcile.recording.recorded_events import Buckets, Changed, Ended, TimedEvent
from reconcile.sharding import Sharding
from reconcile.testing import FakeClient, simulate
from reconcile.testing.recorded_runs import replay_recording
from reconcile.testing.recorded_runs.incident_cut import cut
from tests.recording.recorded_sites import Site, keep_site, site, sites
from tests.recording.shared_worlds import SYSTEMS, record_ring, replay_replica

RUNS = int(os.environ.get("RECORDED_RUNS", "20"))
SERVERS = ("server selects", "replica selects")

pytestmark = pytest.mark.timeout(120 if RUNS <= 20 else 3600)


@pytest.fixture
def selecting(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """A server that selects by shard, or one from before KEP-5866, which does not know of shards."""
    if request.param == "replica selects":
        monkeypatch.setattr(object_selection, "parse_shard_selector", lambda text: ())


def events_of(path: Path) -> Iterator[TimedEvent]:
    return read_recording(path).events()


@pytest.mark.rule("replay-replicas")
@pytest.mark.parametrize("selecting", SERVERS, indirect=True)
@pytest.mark.parametrize("name", SYSTEMS)
def test_recorded_runs_of_a_replica_decide_the_same_when_replayed(
    name: str, tmp_path: Path, selecting: None
) -> None:
    runs, number, seen = 0, 0, Counter[str]()
    while runs < RUNS or not {"hold", "hold unclean", "drop", "forget", "lose", "merge"} <= seen.keys():
        folder = tmp_path / str(number)
        folder.mkdir()
        for path in record_ring(name, number, folder):
            report = replay_replica(name, path)
            assert not report.differing, f"{number} {path.name}\n" + "\n".join(report.lines())
            assert not report.not_followed
            runs += report.same
            seen.update(event.op for event in events_of(path) if isinstance(event, Buckets | Changed))
        number += 1


def test_runs_that_a_lost_bucket_or_lease_ended_are_replayed_with_that_end(tmp_path: Path) -> None:
    ends = Counter[str]()
    # Runs that are cancelled as their bucket goes, that must not write any more, and that begin too late.
    for name, number in (("slow", 0), ("slow", 18), ("plain", 12)):
        folder = tmp_path / f"{name}-{number}"
        folder.mkdir()
        for path in record_ring(name, number, folder):
            report = replay_replica(name, path)
            assert not report.differing, "\n".join(report.lines())
            ended = [event for event in events_of(path) if isinstance(event, Ended)]
            ends.update(one.message.partition(": ")[2] for one in ended if one.error == "BucketNotHeld")
    assert any("did not begin" in message for message in ends), ends
    assert any("was ended" in message for message in ends), ends
    assert any("was not sent" in message for message in ends), ends


IN_A_PROCESS = """
import json, sys
from pathlib import Path
from tests.recording.shared_worlds import replay_replica
for name, paths in json.load(sys.stdin).items():
    reports = [replay_replica(name, Path(path)) for path in paths]
    print(name, sum(report.runs for report in reports), sum(report.same for report in reports))
"""


@pytest.mark.rule("replay-replicas")
def test_another_process_with_another_hash_seed_decides_the_same_for_replicas(tmp_path: Path) -> None:
    recordings = {}
    for name in SYSTEMS:
        (tmp_path / name).mkdir()
        recordings[name] = [str(path) for path in record_ring(name, 1, tmp_path / name)]
    env = {**os.environ, "PYTHONHASHSEED": "4242", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        [sys.executable, "-c", IN_A_PROCESS],
        input=json.dumps(recordings), cwd=Path(__file__).parents[2],
        env=env, capture_output=True, text=True, check=True,
    )  # fmt: skip
    counts = {name: (int(runs), int(same)) for name, runs, same in map(str.split, done.stdout.splitlines())}
    assert counts.keys() == SYSTEMS.keys()
    assert all(runs == same > 3 for runs, same in counts.values()), counts


# --- what is left of a ring of files ------------------------------------------------------------------


@define(eq=False)
class _OftenRotated(recording_file.RecordingFile):
    """Begins another file every few events."""

    def _write_all(self, count: int) -> None:
        super()._write_all(count)
        self.rotating = self.rotating or self._written > self._stored + 400


def test_a_recording_that_begins_later_has_the_buckets_and_the_share_of_that_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording_start, "RecordingFile", _OftenRotated)
    monkeypatch.setattr(recording_file, "_IN_STEP", 2_000)
    runs, later = 0, 0
    for number in range(6):
        folder = tmp_path / str(number)
        folder.mkdir()
        for path in record_ring("plain", number, folder):
            recording = read_recording(path)
            if recording.header.part == 0:
                continue
            later += 1
            # Whether the first runs still wait for writes of those before is not known (docs: limits).
            begins = next(recording.events()).at / 1e6 + 3
            scenario = SYSTEMS["plain"]()
            report = replay_recording(
                recording, scenario.make_controllers(), chosen=lambda at, run, begins=begins: at >= begins
            )
            assert not report.differing, "\n".join(report.lines())
            runs += report.same
    assert later > 5
    assert runs > 5


# --- one replica ------------------------------------------------------------------------------------------


Act = Callable[[FakeClient], Awaitable[None]]
NAMES = [f"web-{number}" for number in range(8)]


async def nothing(client: FakeClient) -> None:
    """Let the replicas work alone."""


def recorded_replicas(paths: Mapping[str, Path], act: Act = nothing) -> None:
    """Replicas that start one after the other, by name, and record to these files; eight sites."""

    async def world() -> None:
        client = FakeClient(sites(), *map(site, NAMES))
        managers = [
            Manager(
                sites(), transport=client.transport, clock=client.clock, environ={},
                record=path, sharding=Sharding("sites", buckets=16, identity=identity),
            )
            for identity, path in paths.items()
        ]  # fmt: skip
        async with anyio.create_task_group() as group:
            for manager in managers:
                await group.start(manager.run)
                await anyio.sleep(20)
            await act(client)
            await anyio.sleep(5)
            for manager in reversed(managers):
                manager.stop()

    simulate(world)


def test_a_recording_says_of_which_replica_it_is(tmp_path: Path) -> None:
    recorded_replicas({"only": tmp_path / "rec"})
    found = read_recording(tmp_path / "rec").header.options["sharding"]
    assert (found["ring"], found["identity"], found["buckets"]) == ("default/sites", "only", 16)
    assert found["shared"] == {
        "example.com/v1/Site/sites": "uid",
        "/v1/ConfigMap/configmaps": "label",
    }


def test_a_scenario_from_a_recording_of_a_replica_deletes_nothing_that_others_got(tmp_path: Path) -> None:
    recorded_replicas({"first": tmp_path / "first", "second": tmp_path / "second"})
    lost = [one for one in events_of(tmp_path / "first") if isinstance(one, Changed) and one.op == "lose"]
    assert {one.name for one in lost} < set(NAMES)
    assert lost
    incident = cut(events_of(tmp_path / "first"), 10, lost[-1].at / 1e6 + 1)
    assert len(incident.objects) == 2 * len(NAMES)
    assert not incident.steps
    later = cut(events_of(tmp_path / "first"), lost[-1].at / 1e6 + 1, 1_000)
    assert len(later.objects) == 2 * (len(NAMES) - len({one.name for one in lost}))


def test_two_replicas_with_one_path_do_not_disturb_each_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    recorded_replicas({"first": tmp_path / "rec", "second": tmp_path / "rec"})
    lines = [vars(one) for one in caplog.records]
    (why,) = [line["why"] for line in lines if line.get("event") == "the recording has ended"]
    assert why == (
        "another manager records to rec: give each a file of its own, "
        "such as RECONCILE_RECORD=/recordings/$(POD_NAME).rec"
    )
    assert [one.name for one in tmp_path.iterdir()] == ["rec"]
    recording = read_recording(tmp_path / "rec")
    assert recording.header.options["sharding"]["identity"] == "first"
    assert replay_recording(recording, [sites()]).identical


def test_newer_code_of_a_replica_is_compared_as_ever(tmp_path: Path) -> None:
    recorded_replicas({"only": tmp_path / "rec"})

    async def louder(ctx: Context[Site]) -> None:
        await keep_site(ctx)
        await ctx.client.get(Site, "web-1", "default", live=True)

    report = replay_recording(read_recording(tmp_path / "rec"), [sites(louder)])
    assert len(report.differing) == report.runs > 1
    assert "GET /apis/example.com/v1/namespaces/default/sites/web-1: before not sent, now sent" in "\n".join(
        report.lines()
    )
