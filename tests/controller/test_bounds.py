"""Memories with a bound, one above it: what is forgotten is what the page on limits says, and no more."""

import msgspec
import pytest

from informers import Delta, HttpRequest, Key, Response, Snapshot, SystemClock
from informers.stored_shape import pointer_steps
from reconcile import Controller, ObjectMeta, kind_of
from reconcile.client.sender import WARNINGS_REMEMBERED, Sender
from reconcile.controller import declared_writes as declarations_module
from reconcile.controller.declared_writes import DeclaredWrites
from reconcile.controller.run_history import KEYS_REMEMBERED, RunHistory
from reconcile.controller.run_result import RunResult
from reconcile.controller.shown_runs import WRITES_KEPT
from reconcile.embedded.log import _KEPT_SNAPSHOTS
from reconcile.kinds import ConfigMap
from reconcile.manager.shadow import REMEMBERED as SHADOW_REMEMBERED
from reconcile.manager.shadow import ShadowTransport
from reconcile.ops.page_authorization import REMEMBERED as REVIEWS_REMEMBERED
from reconcile.ops.page_authorization import _AnswerCache
from reconcile.runs.run_record import READS_KEPT, RunRecord
from reconcile.runs.run_request import Request
from reconcile.runs.write_events import Answered, Sent
from reconcile.storms.echoes import REMEMBERED as ECHOES_REMEMBERED
from reconcile.storms.echoes import Echoes, Origin
from reconcile.testing import FakeClient
from tests.helpers.managers import Toy, keep_size
from tests.storms.test_echoes import sent, state
from workqueue import Item
from workqueue.entries import MAX_CAUSES, NO_CAUSES, joined

CONFIG = kind_of(ConfigMap).resource


def test_a_warning_forgotten_above_the_bound_is_logged_again(monkeypatch: pytest.MonkeyPatch) -> None:
    logged: list[str] = []
    monkeypatch.setattr(
        "reconcile.client.sender._log.warning", lambda _, text: logged.append(text), raising=False
    )
    sender = Sender(FakeClient().transport, SystemClock())

    def warn(number: int) -> None:
        sender._warn(Response(200, {"warning": f'299 - "warning {number}"'}, b""))

    for number in (*range(WARNINGS_REMEMBERED), WARNINGS_REMEMBERED - 1):
        warn(number)
    assert len(logged) == WARNINGS_REMEMBERED
    warn(WARNINGS_REMEMBERED)
    warn(0)
    warn(WARNINGS_REMEMBERED - 1)
    assert logged[-2:] == [f"warning {WARNINGS_REMEMBERED}", "warning 0"]


async def test_the_last_runs_are_remembered_for_a_bounded_number_of_keys() -> None:
    history = RunHistory()
    requests = [Request("default", str(number)) for number in range(KEYS_REMEMBERED + 1)]
    for request in requests:
        with history.run(Item(request, 0, (), 0, 0)):
            pass
    known = [bool(history.past(request)) for request in (requests[0], requests[1], requests[-1])]
    assert known == [False, True, True]


def test_a_run_shows_its_first_reads() -> None:
    record = RunRecord()
    for number in range(READS_KEPT + 1):
        record.note_read(CONFIG, Key("default", str(number)))
    assert [key.name for _, key in record.reads if key is not None] == [str(n) for n in range(READS_KEPT)]


def test_a_key_keeps_its_newest_causes_and_the_number_of_the_others() -> None:
    causes = NO_CAUSES
    for number in range(MAX_CAUSES + 1):
        causes = joined(causes, ((number,), 0))
    assert causes == (tuple(range(1, MAX_CAUSES + 1)), 1)


async def test_a_caller_forgotten_above_the_bound_is_reviewed_again() -> None:
    memory = _AnswerCache()
    for number in range(REVIEWS_REMEMBERED + 1):
        memory.keep(number, True, 60.0)
    assert [memory.get(number) for number in (0, 1, REVIEWS_REMEMBERED)] == [None, True, True]


async def test_a_shadow_write_forgotten_above_the_bound_is_logged_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    logged: list[str] = []
    monkeypatch.setattr(
        "reconcile.manager.shadow._log.info", lambda _, path, **more: logged.append(path), raising=False
    )
    shadow = ShadowTransport(FakeClient().transport, SystemClock())
    for number in (*range(SHADOW_REMEMBERED), 0, 1):
        shadow._log_once(HttpRequest("PATCH", f"/{number}"), {}, {}, {})
    assert len(logged) == SHADOW_REMEMBERED
    for number in (SHADOW_REMEMBERED, 0, 2):
        shadow._log_once(HttpRequest("PATCH", f"/{number}"), {}, {}, {})
    assert logged[SHADOW_REMEMBERED:] == [f"/{SHADOW_REMEMBERED}", "/2"]


def test_above_the_bound_the_oldest_key_with_pending_writes_is_woken_by_its_own_writes() -> None:
    echoes = Echoes()
    write = sent({}, None, state(5), fresh=True)
    for number in range(ECHOES_REMEMBERED + 1):
        echoes.expect(Request("default", str(number)), write)
    assert len(echoes) == ECHOES_REMEMBERED
    assert echoes.classify(Request("default", "0"), CONFIG, Delta(None, state(5))) is Origin.FOREIGN


def test_declarations_forgotten_above_the_bound_are_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(declarations_module, "_KNOWN", {})
    monkeypatch.setattr(declarations_module, "_MOST_KNOWN", 1)
    for owns in ([], [ConfigMap], []):
        asked = DeclaredWrites(Controller(Toy, keep_size, owns=owns), None)  # type: ignore[arg-type]
        assert asked.may_apply(CONFIG) is bool(owns)
        assert len(declarations_module._KNOWN) == 1


def test_a_pointer_is_split_correctly_above_the_bound_of_the_cache() -> None:
    for number in range(2_000):
        assert pointer_steps(f"/spec/{number % 1_500}") == ("spec", str(number % 1_500))


def test_a_snapshot_is_read_correctly_above_the_bound_of_the_cache() -> None:
    for number in (*range(5_000), 0):
        metadata = {"name": "a", "labels": {"n": str(number)}, "finalizers": [f"x/{number}"]}
        read = Snapshot.from_json(msgspec.json.encode({"metadata": metadata}))
        assert (read.labels, read.finalizers) == ({"n": str(number)}, (f"x/{number}",))


async def test_a_run_shows_its_first_writes() -> None:
    record = RunRecord()
    for number in range(WRITES_KEPT + 1):
        record.answered(Answered(Sent("PATCH", CONFIG, Key("default", str(number)), "", {})))
    history, request = RunHistory(), Request("default", "a")
    with history.run(Item(request, 0, (), 0, 0)) as run:
        run.outcome = RunResult(record=record)
    assert len(history.past(request)[0].writes) == WRITES_KEPT


async def test_pages_whose_snapshot_was_forgotten_still_show_the_state_at_their_start() -> None:
    client = FakeClient(*(ConfigMap(metadata=ObjectMeta(f"a-{n}", "default")) for n in range(3)))
    pages = [client.pages(ConfigMap, "default", size=2) for _ in range(_KEPT_SNAPSHOTS + 1)]
    for number, page in enumerate(pages):
        assert len(await anext(page)) == 2
        client.add(ConfigMap(metadata=ObjectMeta(f"b-{number}", "default")))
    rest = [[len(more) async for more in page] for page in pages]
    assert [sum(lengths) for lengths in rest] == [1 + number for number in range(len(pages))]
