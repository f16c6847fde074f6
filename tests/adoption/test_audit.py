"""What an audit finds on objects that an operator on kopf left, in how much memory; what it never tells."""

import json
import tracemalloc
from collections.abc import Sequence
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from informers import APIResource, Forbidden, Response, Unreachable
from reconcile.adoption.adopted_kinds import AdoptedKind
from reconcile.adoption.audit import Audit, SeenPeer, judged, next_step, ready
from reconcile.adoption.audit_text import as_json, facts
from reconcile.adoption.cluster_reading import LARGEST_PAGE, PAGE_BYTES, ClusterReading, next_limit
from reconcile.adoption.tally import NAMED, NAMES, OTHERS, TEXT, Tally
from reconcile.client.sender import Sender
from reconcile.doctor.findings import Finding
from reconcile.predecessors import PEERINGS, KopfTraces, entry_of
from reconcile.testing import VirtualClock
from tests.adoption.kopf_objects import FINALIZER, GROUP, PREFIX, SECRET, STARTED, Pages, managed, record

GADGETS = APIResource(GROUP, "v1", "Gadget", "gadgets")
SECRETS = APIResource("", "v1", "Secret", "secrets")
KIND = AdoptedKind(GADGETS)
ALIVE = [SeenPeer("ClusterKopfPeering default", "me@host", 0, 60)]


def tally_of(objects: Sequence[dict[str, Any]], kind: AdoptedKind = KIND) -> Tally:
    tally = Tally(kind)
    for obj in objects:
        tally.add(obj)
    return tally


def found_on(*objects: dict[str, Any], kind: AdoptedKind = KIND) -> list[tuple[str, str]]:
    return [(one.check, one.severity) for one in judged(Audit([tally_of(objects, kind)])).findings]


def only(audit: Audit) -> Finding:
    (finding,) = judged(audit).findings
    return finding


# --- what is found --------------------------------------------------------------------------------


def test_an_object_that_was_handled_to_the_end_stands_against_nothing() -> None:
    tally = tally_of([managed("a"), managed("b", finalizer=False)])
    assert judged(Audit([tally])).findings == []
    assert (tally.objects, tally.with_traces, tally.held, tally.handled) == (2, 2, 1, 2)
    assert tally.finalizers.by_name == {FINALIZER: 1}
    assert tally.results.by_name == {"created": 2}
    assert tally.owned.by_name == {"kopf": 4}


def test_a_half_created_object_is_an_error_with_its_handler_and_since_when() -> None:
    audit = Audit([tally_of([managed("a", handled=False, make=record())])])
    finding = only(audit)
    assert (finding.check, finding.severity) == ("creations", "error")
    assert f"default/a (make; since {STARTED}; 2 attempts)" in finding.what
    assert not ready(judged(audit))
    assert next_step(audit, judged(audit)).startswith("not ready: ")


def test_a_half_created_object_waits_for_its_operator_while_that_is_alive() -> None:
    tally = tally_of([managed("a", handled=False, make=record())])
    assert only(Audit([tally], peers=ALIVE)).next_step == "let the operator on kopf finish them"
    assert only(Audit([tally])).next_step.startswith("see to each")


def test_a_creation_that_has_written_no_record_yet_is_a_warning() -> None:
    assert found_on(managed("a", handled=False)) == [("creations", "warning")]


def test_a_creation_whose_handlers_have_all_ended_is_not_half_way() -> None:
    ended = managed("a", handled=False, make=record(success=True), tell=record(failure=True))
    assert found_on(ended) == []


def test_an_unfinished_update_and_a_deletion_are_risks() -> None:
    assert found_on(managed("a", resize=record("update"))) == [("changes", "warning")]
    assert found_on(managed("a", deleted=True, drop=record("delete"))) == [("deletions", "warning")]
    assert found_on(managed("a", deleted=True, finalizer=False)) == []


def test_another_prefix_is_an_error_until_the_prefix_of_the_operator_is_known() -> None:
    other = managed("a", prefix="sites.example.com", handled=False, make=record())
    assert ("prefixes", "error") in found_on(other)
    sure = AdoptedKind(GADGETS, KopfTraces(prefix=PREFIX), any_prefix=False)
    assert ("prefixes", "warning") in found_on(other, kind=sure)
    theirs = AdoptedKind(GADGETS, KopfTraces(prefix="sites.example.com"), any_prefix=False)
    assert found_on(other, kind=theirs) == [("creations", "error")]


def test_a_copy_of_a_secret_is_named_and_never_shown() -> None:
    kind = AdoptedKind(SECRETS)
    audit = Audit([tally_of([managed("a", make=record())], kind)], looked_at=1)
    report = judged(audit)
    assert ("secrets", "warning") in [(one.check, one.severity) for one in report.findings]
    shown = [*facts(audit), *(one.line() for one in report.findings), json.dumps(as_json(audit, report))]
    assert "default/a" in "".join(shown)
    assert SECRET not in "".join(shown)


def test_the_verdict_says_whether_the_operator_is_to_be_stopped_first() -> None:
    assert next_step(Audit(peers=ALIVE), judged(Audit(peers=ALIVE))).startswith("ready: stop the operator")
    assert "start the new one" in next_step(Audit(), judged(Audit()))


def test_an_entry_that_freezes_operators_on_kopf_is_not_taken_for_one() -> None:
    now = VirtualClock().now()
    status = {"me@host": entry_of(0, 60, now), "reconcile/sites": entry_of(100, 60, now)}
    peering = {"metadata": {"name": "default"}, "status": status}
    pages = Pages(PEERINGS[0].path(), lambda number: peering, 1)
    assert anyio.run(reading(pages).peers, ()) == [SeenPeer("ClusterKopfPeering default", "me@host", 0, 60)]


# --- hostile objects ------------------------------------------------------------------------------

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(
    annotations=anything | st.dictionaries(st.sampled_from([f"{PREFIX}/make", f"{PREFIX}/x"]), anything),
    finalizers=anything,
    fields=anything,
    status=anything,
)
def test_any_object_can_be_counted_and_told_of(
    annotations: Any, finalizers: Any, fields: Any, status: Any
) -> None:
    metadata = {"name": "a", "annotations": annotations, "finalizers": finalizers, "managedFields": fields}
    audit = Audit([tally_of([{"metadata": metadata, "status": status}])], looked_at=1)
    assert audit.tallies[0].objects == 1
    json.dumps(as_json(audit, judged(audit)))
    assert all(line.isprintable() for line in facts(audit))


def test_names_that_writers_make_up_are_bounded() -> None:
    def hostile(number: int) -> dict[str, Any]:
        name = f"{number}-" + "y" * 5_000
        obj = managed(f"a{number}", handled=False, prefix=f"{name}.{PREFIX}", make=record())
        obj["metadata"]["finalizers"] += [name]
        obj["metadata"]["annotations"] |= {f"{PREFIX}/h{k}": record(started="z" * 9_000) for k in range(40)}
        obj["metadata"]["managedFields"].append({"manager": name, "fieldsV1": {f"f:{name}": {}}})
        return obj

    tally = tally_of([hostile(number) for number in range(200)])
    for counts in (tally.finalizers, tally.prefixes, tally.owned):
        assert len(counts.by_name) == NAMES + 1
        assert max(map(len, counts.by_name)) <= TEXT
    assert tally.finalizers.by_name[OTHERS] == 201 - NAMES
    assert tally.half_created.count == 200
    assert len(tally.half_created.first) == NAMED
    assert len(only(Audit([Tally(KIND, half_created=tally.half_created)])).line()) < 5_000


# --- reading --------------------------------------------------------------------------------------


def reading(transport: Any) -> ClusterReading:
    clock = VirtualClock()
    return ClusterReading(Sender(transport, clock), clock)


def gadgets(count: int, padding: int = 0, expires_at: int | None = None) -> Pages:
    return Pages(GADGETS.path(), lambda number: managed(f"g{number}", padding=padding), count, expires_at)


def test_a_list_is_read_in_pages_and_an_expired_one_anew_with_nothing_counted_twice() -> None:
    pages = gadgets(700, expires_at=50)
    tally = anyio.run(reading(pages).tally, KIND)
    assert tally.objects == 700
    assert [request.query.get("continue") for request in pages.requests][:3] == [None, "50", None]
    assert {request.method for request in pages.requests} == {"GET"}


def peak_of(pages: Pages) -> int:
    """Bytes that reading takes at most, beyond what there is before."""
    tracemalloc.start()
    try:
        anyio.run(reading(pages).tally, KIND)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_does_not_grow_with_the_number_of_objects() -> None:
    peak_of(gadgets(60))
    few, many = peak_of(gadgets(1_500)), peak_of(gadgets(6_000))
    assert many < few * 1.2


def test_large_objects_come_in_smaller_pages() -> None:
    pages = gadgets(200, padding=500_000)
    assert peak_of(pages) < 50 * 500_000 * 6
    limits = [int(request.query["limit"]) for request in pages.requests]
    assert len(limits) > 2
    assert all(limit * 500_000 <= PAGE_BYTES for limit in limits[1:])


@settings(max_examples=200)
@given(read=st.integers(1, 10**6), size=st.integers(0, 10**12))
def test_a_page_has_one_object_at_least_and_is_not_larger_than_wanted(read: int, size: int) -> None:
    limit = next_limit(read, size)
    assert 1 <= limit <= LARGEST_PAGE
    assert limit == 1 or limit * size <= PAGE_BYTES * read


class Refusing(Pages):
    """Refuses to list gadgets, or cannot be reached."""

    error: Exception | None = None

    async def request(self, request: Any) -> Response:
        if request.path == self.path and self.error is not None:
            raise self.error
        return await super().request(request)


def test_a_kind_that_may_not_be_listed_is_not_taken_for_clean() -> None:
    transport = Refusing(GADGETS.path(), lambda number: managed(f"g{number}"), 3)
    assert ready(judged(anyio.run(reading(transport).audit, [KIND])))
    transport.error = Forbidden(403, "Forbidden", "may not list gadgets")
    report = judged(anyio.run(reading(transport).audit, [KIND]))
    assert {one.severity for one in report.findings} == {"unknown"}
    assert not ready(report)


def test_a_server_that_cannot_be_reached_ends_the_audit() -> None:
    transport = Refusing(GADGETS.path(), lambda number: managed(f"g{number}"), 3)
    transport.error = Unreachable("no route")
    with pytest.raises(Unreachable):
        anyio.run(reading(transport).audit, [KIND])
