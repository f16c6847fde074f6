"""What a webhook answers to a review, with the functions of an author."""

import base64
from typing import Any

import msgspec
import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from reconcile.embedded.verbs.patches import json_patch as apply_json_patch
from reconcile.kinds import Pod
from reconcile.webhooks import Admission, AdmissionRequest, Refusal
from reconcile.webhooks.admission_calls import FunctionError, admit_defaults, admit_refuses
from reconcile.webhooks.admission_reviews import read_review
from reconcile.webhooks.reviews import ReviewError
from tests.webhooks.boxes import BOXES, Box, BoxStatus, bounds, box, paint, review


def response(answer: bytes) -> dict[str, Any]:
    read = msgspec.json.decode(answer)
    assert (read["apiVersion"], read["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    assert read["response"]["uid"] == "u-1"
    found: dict[str, Any] = read["response"]
    return found


def patched(answer: bytes, obj: dict[str, Any]) -> dict[str, Any]:
    """The object after the patch of the answer."""
    read = response(answer)
    assert read["allowed"]
    assert ("patch" in read) == (read.get("patchType") == "JSONPatch")
    operations = msgspec.json.decode(base64.b64decode(read["patch"])) if "patch" in read else []
    return apply_json_patch(obj, operations)


# --- defaults -------------------------------------------------------------------------------------------


def test_defaults_change_only_what_the_function_changed() -> None:
    sent = box({"size": 1, "unknown": {"deep": [None, 1]}}, generation=3)
    stored = patched(admit_defaults(BOXES, review("CREATE", sent)), sent)
    assert stored == {**sent, "spec": {**sent["spec"], "color": "red"}}


def test_an_object_that_needs_no_defaults_gets_no_patch() -> None:
    read = response(admit_defaults(BOXES, review("CREATE", box({"color": "blue"}))))
    assert read == {"uid": "u-1", "allowed": True}


def test_an_object_that_does_not_decode_is_left_to_the_checks_of_the_server() -> None:
    read = response(admit_defaults(BOXES, review("CREATE", box({"size": "many"}))))
    assert read == {"uid": "u-1", "allowed": True}


@given(
    spec=st.fixed_dictionaries(
        {},
        optional={"size": st.integers(), "color": st.text(), "more": st.dictionaries(st.text(), st.none())},
    )
)
def test_defaults_are_the_same_when_they_are_called_again(spec: dict[str, Any]) -> None:
    once = patched(admit_defaults(BOXES, review("CREATE", box(spec))), box(spec))
    assert patched(admit_defaults(BOXES, review("CREATE", once)), once) == once
    assert {**once["spec"], "color": None} == {**spec, "color": None}


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        (lambda one, request: None, "expected to return a Box, got NoneType"),
        (
            lambda one, request: evolve(one, metadata=evolve(one.metadata, name="b")),
            "must not change metadata.name",
        ),
        (lambda one, request: evolve(one, status=BoxStatus(2)), "must not change the status"),
        (lambda one, request: 1 / 0, "raised ZeroDivisionError"),
    ],
)
def test_a_defaults_function_that_breaks_its_promise_fails_the_call(function: Any, problem: str) -> None:
    with pytest.raises(FunctionError, match=problem):
        admit_defaults(Admission(Box, defaults=function), review("CREATE", box({"size": 1})))


# --- refuses --------------------------------------------------------------------------------------------


def test_a_refusal_is_a_422_with_the_path_of_each_field() -> None:
    read = response(admit_refuses(BOXES, review("CREATE", box({"size": 10}), name="a")))
    assert not read["allowed"]
    status = read["status"]
    assert (status["code"], status["reason"]) == (422, "Invalid")
    assert status["message"] == 'Box.shop.example.com "a" is invalid: spec.size: must be at most 9, got 10'
    assert status["details"]["causes"] == [
        {"reason": "FieldValueInvalid", "message": "must be at most 9, got 10", "field": "spec.size"}
    ]


def test_warnings_come_in_one_line_and_do_not_refuse() -> None:
    read = response(admit_refuses(BOXES, review("UPDATE", box({"color": "b"}), box({"color": "a"}))))
    assert read == {"uid": "u-1", "allowed": True, "warnings": ["the color changes"]}


@pytest.mark.parametrize(
    "change",
    [
        {"finalizers": []},
        {"ownerReferences": []},
        {"managedFields": [{"manager": "m"}]},
        {"resourceVersion": "2", "generation": 2},
    ],
)
def test_an_update_that_judges_nothing_is_never_refused(change: dict[str, Any]) -> None:
    old = box({"size": 10}, finalizers=["shop.example.com/box"])
    new = {**old, "metadata": {**old["metadata"], **change}, "status": {"boxes": 3}}
    assert response(admit_refuses(BOXES, review("UPDATE", new, old)))["allowed"]


@pytest.mark.parametrize("change", [{"labels": {"a": "b"}}, {"annotations": {"a": "b"}}])
def test_a_change_of_labels_or_annotations_is_judged(change: dict[str, Any]) -> None:
    old = box({"size": 10})
    new = {**old, "metadata": {**old["metadata"], **change}}
    assert not response(admit_refuses(BOXES, review("UPDATE", new, old)))["allowed"]


def test_a_deletion_is_judged_by_the_stored_object_if_asked_for() -> None:
    def keep(one: Box, old: Box | None, request: AdmissionRequest) -> list[Refusal]:
        assert one is old
        return [Refusal("is in use")]

    guard = Admission(Box, refuses=keep, operations="DELETE")
    read = response(admit_refuses(guard, review("DELETE", None, box(), name="a")))
    assert read["status"]["message"] == 'Box.shop.example.com "a" is invalid: is in use'
    assert response(admit_refuses(BOXES, review("DELETE", None, box({"size": 10}))))["allowed"]


def test_an_object_that_does_not_decode_is_refused_with_the_paths() -> None:
    read = response(admit_refuses(BOXES, review("CREATE", box({"size": "many"}))))
    assert [cause["field"] for cause in read["status"]["details"]["causes"]] == ["spec.size"]


def test_a_stored_object_that_does_not_decode_counts_as_absent() -> None:
    new = review("UPDATE", box({"size": 1}), box({"size": "many"}))
    assert response(admit_refuses(BOXES, new)) == {"uid": "u-1", "allowed": True}


@pytest.mark.parametrize("verdict", ["no", None, 3])
def test_a_refuses_function_must_yield_refusals_and_warnings(verdict: Any) -> None:
    wrong = Admission(Box, refuses=lambda one, old, request: [verdict])
    with pytest.raises(FunctionError, match="expected a Refusal or a Warn"):
        admit_refuses(wrong, review("CREATE", box()))


def test_an_error_of_a_function_says_nothing_of_the_object() -> None:
    def fail(one: Box, old: Box | None, request: AdmissionRequest) -> list[Refusal]:
        raise ValueError(f"secret {one.spec.color}")

    with pytest.raises(FunctionError) as caught:
        admit_refuses(Admission(Box, refuses=fail), review("CREATE", box({"color": "topsecret"})))
    assert str(caught.value) == "Admission(Box): refuses= raised ValueError"


def test_a_function_gets_who_writes_and_where() -> None:
    asked: list[AdmissionRequest] = []

    def note(pod: Pod, request: AdmissionRequest) -> Pod:
        asked.append(request)
        return pod

    user = {"username": "jane", "uid": "7", "groups": ["dev"], "extra": {"scopes": ["a"]}}
    pods = Admission(Pod, defaults=note, operator="shop.example.com")
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "a-"}, "spec": {"containers": []}}
    admit_defaults(pods, review("CREATE", pod, userInfo=user, namespace="default", dryRun=True))
    (request,) = asked
    assert (request.user.username, list(request.user.groups)) == ("jane", ["dev"])
    assert {name: list(texts) for name, texts in request.user.extra.items()} == {"scopes": ["a"]}
    assert (request.operation, request.namespace, request.name) == ("CREATE", "default", "")
    assert request.dry_run


# --- bodies ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}',
        b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"","operation":"CREATE"}}',
        b'{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview","request":{"uid":"a","operation":"CREATE"}}',
        b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"a","operation":"CONNECT"}}',
        b'{"apiVersion":' * 100_000,
        b"\xff",
    ],
)
def test_a_body_that_is_no_review_is_reported(body: bytes) -> None:
    with pytest.raises(ReviewError, match=r"^expected kind AdmissionReview of admission.k8s.io/v1: "):
        read_review(body)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_review_or_an_error(body: bytes) -> None:
    with pytest.raises(ReviewError):
        read_review(body)


# --- declarations ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({}, "give defaults=, refuses= or rules="),
        ({"defaults": lambda one: one}, "is called with"),
        ({"refuses": bounds, "timeout": 31}, "expected 1 to 30 seconds"),
        ({"refuses": bounds, "operations": ("REPLACE",)}, "'REPLACE' is not one of"),
        ({"refuses": bounds, "operations": ()}, "is empty"),
        ({"defaults": paint, "operations": "DELETE"}, "is not called for DELETE"),
    ],
)
def test_an_admission_that_cannot_work_is_refused_where_it_is_declared(
    options: dict[str, Any], problem: str
) -> None:
    with pytest.raises((TypeError, ValueError), match=problem):
        Admission(Box, **options)


def test_an_admission_of_a_built_in_kind_needs_an_operator_and_lets_writes_pass_without_it() -> None:
    with pytest.raises(ValueError, match="give operator="):
        Admission(Pod, refuses=lambda pod, old, request: [])
    pods = Admission(Pod, refuses=lambda pod, old, request: [], operator="shop.example.com")
    assert not pods.is_required
    assert BOXES.is_required
    assert evolve(pods, required=True).is_required


def test_the_metadata_of_an_object_survives_defaults() -> None:
    sent = box({}, labels={"a": "b"}, annotations={"c": "d"}, finalizers=["e/f"])
    assert patched(admit_defaults(BOXES, review("UPDATE", sent, sent)), sent)["metadata"] == sent["metadata"]


@pytest.mark.parametrize("extra", [None, {}, {"scopes": None}, {"scopes": ["a"]}])
def test_a_nil_of_go_in_a_users_facts_is_empty(extra: Any) -> None:
    told = msgspec.json.decode(review("CREATE", box({})))
    told["request"]["userInfo"] = {"username": "jo", "groups": None, "extra": extra}
    user = read_review(msgspec.json.encode(told)).for_author().user
    assert user.extra == {name: tuple(values or ()) for name, values in (extra or {}).items()}


def test_a_function_that_exits_has_failed() -> None:
    def leave(*_: Any) -> Any:
        raise SystemExit(3)

    admission = Admission(Box, defaults=leave, refuses=leave)
    for admit, name in ((admit_defaults, "defaults"), (admit_refuses, "refuses")):
        with pytest.raises(FunctionError, match=f"{name}= raised SystemExit"):
            admit(admission, review("CREATE", box({})))
