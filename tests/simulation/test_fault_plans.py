"""Fault plans as values: what they match, and that they survive being written down."""

import sys
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconcile import ObjectMeta
from reconcile.kinds import Deployment, Namespace
from reconcile.testing.faults import (
    CrashAfter,
    CrashBefore,
    Cut,
    Delay,
    Drop,
    EndEarly,
    Expire,
    Fault,
    FaultPlan,
    LoseReply,
    Refuse,
    RefuseAsStale,
    SlowReply,
    Stall,
    Verb,
    What,
    When,
    _converter,
)
from reconcile.testing.recorded_requests import RecordedRequest
from reconcile.testing.scenario_acts import Delete, Edit, Touch

SECONDS = st.floats(0, 1e6)
COUNTS = st.integers(0, 100)
WHENS = st.builds(
    When,
    verb=st.sampled_from(["*", "write", "get", "list", "watch", "create", "update", "patch", "delete"]),
    path=st.text(max_size=20),
    nth=st.integers(1, 50),
    times=st.none() | st.integers(1, 50),
)
WHATS = st.one_of(
    st.builds(Delay, SECONDS),
    st.builds(SlowReply, SECONDS),
    st.builds(
        Refuse,
        st.integers(400, 599),
        reason=st.text(max_size=9),
        message=st.text(max_size=9),
        text=st.none() | st.text(max_size=9),
        retry_after=st.none() | st.integers(0, 99),
    ),
    st.builds(Cut, COUNTS, mid_line=st.booleans()),
    st.builds(EndEarly, COUNTS),
    st.builds(Stall, COUNTS, seconds=st.none() | SECONDS),
    st.builds(Expire, COUNTS),
    st.sampled_from([Drop(), RefuseAsStale(), LoseReply(), CrashBefore(), CrashAfter()]),
)
PLANS = st.builds(FaultPlan, st.lists(st.builds(Fault, WHENS, WHATS), max_size=5))


@given(PLANS)
def test_a_plan_round_trips_through_json(plan: FaultPlan) -> None:
    assert FaultPlan.from_json(plan.to_json()) == plan


@pytest.mark.parametrize(
    "patch", [{"spec": {"size": None}}, [{"op": "add", "path": "/spec/size", "value": None}]]
)
def test_a_plan_with_a_patch_of_either_kind_round_trips_through_json(patch: Any) -> None:
    plan = FaultPlan(acts=[Edit("*/pods/web-*", patch)])
    assert FaultPlan.from_json(plan.to_json()) == plan


def test_a_plan_is_written_readably() -> None:
    plan = FaultPlan([Fault(When("patch", "*/pods/*", nth=2), Delay(3.0)), Fault(When(), CrashAfter())])
    assert plan.to_json() == (
        '{"faults":[{"when":{"verb":"patch","path":"*/pods/*","nth":2},"what":{"seconds":3.0,"fault":"Delay"}},'
        '{"when":{},"what":{"fault":"CrashAfter"}}]}'
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "truncated"),
        ("[]", "list"),
        ('{"fault":[]}', r"extra fields found \(fault\)"),
        ('{"faults":[1]}', r"faults\[0\]"),
        ('{"acts":[{"act":"Edit","what":"p","patch":["x"]}]}', r"acts\[0\]"),
        ('{"faults":[{"what":{"fault":"Drop"}}]}', "required field missing .*when"),
        ('{"faults":[{"when":{},"what":{"fault":"Meteor"}}]}', r"faults\[0\].what"),
        ('{"faults":[{"when":{},"what":{"fault":"Drop","hard":true}}]}', r"extra fields found \(hard\)"),
        ('{"faults":[{"when":{"verb":"steal"},"what":{"fault":"Drop"}}]}', r"when.verb"),
        ('{"faults":[{"when":{"nth":0},"what":{"fault":"Drop"}}]}', r"faults\[0\].when"),
        ('{"faults":[{"when":{"times":0},"what":{"fault":"Drop"}}]}', r"faults\[0\].when"),
        ('{"faults":[{"when":{},"what":{"fault":"Delay","seconds":-1}}]}', r"faults\[0\].what"),
        ('{"faults":[{"when":{},"what":{"fault":"Refuse","code":200}}]}', r"faults\[0\].what"),
    ],
)
def test_an_invalid_plan_is_refused_with_the_place_of_the_error(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=f"not a fault plan: .*{problem}"):
        FaultPlan.from_json(text)


@pytest.mark.parametrize(
    ("nth", "times", "met"),
    [(1, 1, [1]), (2, 1, [2]), (2, 3, [2, 3, 4]), (1, None, [1, 2, 3, 4, 5]), (4, None, [4, 5])],
)
def test_a_fault_applies_from_the_nth_match_for_the_given_number_of_times(
    nth: int, times: int | None, met: list[int]
) -> None:
    when = When(nth=nth, times=times)
    assert [count for count in range(1, 6) if when.meets(count)] == met


@pytest.mark.parametrize(
    ("when", "verb", "path", "matches"),
    [
        (When(), "get", "/version", True),
        (When("write"), "create", "/api/v1/pods", True),
        (When("write"), "deletecollection", "/api/v1/pods", True),
        (When("write"), "watch", "/api/v1/pods", False),
        (When("patch"), "update", "/api/v1/pods", False),
        (When("*", "*/pods/web-*"), "get", "/api/v1/namespaces/a/pods/web-1", True),
        (When("*", "*/pods/web-*"), "get", "/api/v1/namespaces/a/pods/db-1", False),
        (When("*", "*/pods"), "list", "/api/v1/namespaces/a/pods/status", False),
    ],
)
def test_a_fault_matches_by_verb_and_path(when: When, verb: Verb, path: str, matches: bool) -> None:
    assert when.matches(verb, path) is matches


def test_a_request_has_its_rbac_verb_its_target_and_a_summary() -> None:
    path = "/apis/apps/v1/namespaces/a/deployments/web/scale"
    scaled = RecordedRequest("PATCH", path, {"force": "true"})
    target = scaled.target
    assert (target.group, target.within, target.resource, target.name) == ("apps", "a", "deployments", "web")
    assert (scaled.verb, scaled.summary) == ("patch", "apply deployments/scale a/web")
    assert RecordedRequest("GET", "/version").verb == "get"
    made = RecordedRequest("POST", "/api/v1/nodes", content=b'{"metadata":{"generateName":"n-"}}')
    assert (made.verb, made.summary) == ("create", "create nodes n-*")


@pytest.mark.parametrize(
    ("request_", "mutating", "effective"),
    [
        (RecordedRequest("GET", "/api/v1/pods", server_status=200), False, False),
        (RecordedRequest("POST", "/api/v1/pods", status=201, server_status=201), True, True),
        (RecordedRequest("POST", "/api/v1/pods", status=None, server_status=201), True, True),
        (RecordedRequest("POST", "/api/v1/pods", status=409, server_status=409), True, False),
        (RecordedRequest("POST", "/api/v1/pods", status=409, server_status=None), True, False),
        (RecordedRequest("POST", "/api/v1/pods", {"dryRun": "All"}, server_status=201), False, False),
    ],
)
def test_a_record_distinguishes_mutating_from_effective_requests(
    request_: RecordedRequest, mutating: bool, effective: bool
) -> None:
    assert (request_.mutating, request_.effective) == (mutating, effective)


def test_a_recorded_body_is_decoded_on_access() -> None:
    assert RecordedRequest("PATCH", "/api/v1/nodes/a", content=b'{"spec":{}}').body == {"spec": {}}
    assert RecordedRequest("GET", "/api/v1/nodes/a").body is None


@pytest.mark.parametrize(
    ("what", "path"),
    [
        ((Deployment, "web"), "/apis/apps/v1/namespaces/default/deployments/web"),
        ((Deployment, "shop/web"), "/apis/apps/v1/namespaces/shop/deployments/web"),
        ((Namespace, "shop"), "/api/v1/namespaces/shop"),
        (Namespace(metadata=ObjectMeta("shop")), "/api/v1/namespaces/shop"),
        ("*/pods/web-*", "*/pods/web-*"),
    ],
)
def test_the_target_of_an_act_is_an_object_a_model_and_name_or_a_path(what: Any, path: str) -> None:
    assert (Edit(what, {}).what, Touch(what).what, Delete(what).what) == (path, path, path)


def test_the_explanation_names_every_fault() -> None:
    text = (Path(__file__).parents[2] / "docs/explanation/simulation.md").read_text()
    assert [kind.__name__ for kind in get_args(What) if f"`{kind.__name__}(" not in text] == []


def test_without_cattrs_a_plan_names_the_extra_that_reads_and_writes_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "cattrs", None)
    _converter.cache_clear()
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'reconcile-runtime\[testing\]'"):
        FaultPlan().to_json()
    monkeypatch.undo()
    assert FaultPlan.from_json(FaultPlan().to_json()) == FaultPlan()
