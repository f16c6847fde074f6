"""What is kept of the writes of a controller's runs, and for how long."""

from typing import Any

import msgspec

from informers import APIResource, Key, Snapshot
from reconcile import kind_of
from reconcile.client.redaction import SecretValues
from reconcile.controller.run_result import RunResult
from reconcile.controller.shown_runs import WRITES_KEPT
from reconcile.controller.write_details import WriteDetails
from reconcile.kinds import ConfigMap, Secret
from reconcile.runs.run_request import Request
from reconcile.runs.write_events import EndedWrite
from tests.helpers.writes import ended_write

CONFIG, SECRET = kind_of(ConfigMap).resource, kind_of(Secret).resource
REQUEST = Request("default", "a")
OTHER = Request("default", "b")
OUTCOME = RunResult()


def state(version: int, name: str = "a", size: int = 0) -> Snapshot:
    metadata = {"name": name, "namespace": "default", "uid": name, "resourceVersion": str(version)}
    return Snapshot.from_json(msgspec.json.encode({"metadata": metadata, "data": {"fill": "x" * size}}))


def applied(
    name: str = "a", version: int = 1, size: int = 0, resource: APIResource = CONFIG, **more: Any
) -> EndedWrite:
    body = {"apiVersion": "v1", "kind": resource.kind, "data": {"version": str(version)}}
    written = state(version, name, size)
    return ended_write("PATCH", resource, Key("default", name), body=body, written=written, **more)


def kept_intents(details: WriteDetails, request: Request = REQUEST) -> list[str]:
    return [msgspec.json.decode(one.intent)["data"]["version"] for one in details.intents(request).values()]


def test_a_run_without_writes_keeps_nothing() -> None:
    assert WriteDetails().kept(REQUEST, [], OUTCOME) is None


def test_the_states_before_and_after_a_write_are_kept_as_they_are() -> None:
    before = state(1)
    write = applied(version=2, base=before)
    run = WriteDetails().kept(REQUEST, [write], OUTCOME)
    assert run is not None
    assert run.writes is not None
    (detail,) = run.writes
    assert detail.before is before
    assert detail.after is write.written
    assert (detail.resource, detail.key, detail.version) == (CONFIG, Key("default", "a"), 2)


def test_the_oldest_runs_make_room_for_new_ones() -> None:
    details = WriteDetails(limit=11_000)
    runs = [details.kept(REQUEST, [applied(version=number, size=3000)], OUTCOME) for number in range(1, 6)]
    assert [run is not None and run.writes is not None for run in runs] == [False, False, True, True, True]
    huge = details.kept(REQUEST, [applied(version=9, size=20_000)], OUTCOME)
    assert huge is not None
    assert huge.writes is None


def test_of_one_run_a_bounded_number_of_writes_is_kept() -> None:
    writes = [applied(f"m{number}") for number in range(WRITES_KEPT + 5)]
    run = WriteDetails().kept(REQUEST, writes, OUTCOME)
    assert run is not None
    assert len(run.writes or ()) == WRITES_KEPT


def test_of_a_secret_only_its_version_is_kept() -> None:
    details = WriteDetails()
    run = details.kept(REQUEST, [applied(version=7, resource=SECRET, base=state(6))], OUTCOME)
    assert run is not None
    assert run.writes is not None
    (detail,) = run.writes
    assert (detail.secret, detail.before, detail.after, detail.version) == (True, None, None, 7)
    assert not details.intents(REQUEST)


def test_secrets_that_a_run_has_read_count_for_its_size() -> None:
    secrets = SecretValues()
    secrets.add(SECRET, b'{"stringData":{"a":"%s"}}' % (b"x" * 9000))
    details = WriteDetails(limit=10_000)
    first = details.kept(REQUEST, [applied()], RunResult(secrets=secrets, secretive=True))
    assert first is not None
    assert first.secrets is secrets
    details.kept(REQUEST, [applied(size=3000)], OUTCOME)
    assert first.writes is None
    assert not first.secrets


def test_the_last_apply_of_an_object_is_its_intent() -> None:
    details = WriteDetails()
    details.kept(REQUEST, [applied(version=1), applied("b", version=2)], OUTCOME)
    details.kept(REQUEST, [applied(version=3)], OUTCOME)
    assert sorted(kept_intents(details)) == ["2", "3"]


def test_other_writes_are_no_intent() -> None:
    details, key = WriteDetails(), Key("default", "a")
    patch = ended_write("PATCH", CONFIG, key, body={"data": {}}, written=state(2))
    status = ended_write("PATCH", CONFIG, key, "status", {"apiVersion": "v1"}, written=state(3))
    details.kept(REQUEST, [patch, status, applied(dry=True)], OUTCOME)
    assert not details.intents(REQUEST)


def test_an_intent_ends_with_the_deletion_of_its_object() -> None:
    details = WriteDetails()
    details.kept(REQUEST, [applied(), applied("b", version=2)], OUTCOME)
    details.kept(REQUEST, [ended_write("DELETE", CONFIG, Key("default", "a"))], OUTCOME)
    assert kept_intents(details) == ["2"]


def test_the_intents_of_the_key_that_applied_first_make_room() -> None:
    details = WriteDetails(limit=10_000)
    details.kept(REQUEST, [applied(version=1, size=4000)], OUTCOME)
    details.kept(OTHER, [applied("b", version=2, size=4000)], OUTCOME)
    details.kept(OTHER, [applied("c", version=3, size=4000)], OUTCOME)
    assert kept_intents(details) == []
    assert kept_intents(details, OTHER) == ["2", "3"]


def test_the_intents_of_keys_that_another_replica_takes_are_forgotten() -> None:
    details = WriteDetails(limit=10_000)
    details.kept(REQUEST, [applied(version=1, size=4000)], OUTCOME)
    details.kept(OTHER, [applied("b", version=2, size=4000)], OUTCOME)
    details.forget_where(lambda request: request == REQUEST)
    details.kept(OTHER, [applied("c", version=3, size=4000)], OUTCOME)
    assert kept_intents(details) == []
    assert kept_intents(details, OTHER) == ["2", "3"]
