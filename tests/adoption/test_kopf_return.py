"""What an object gets so that kopf resumes it, compared with kopf's own functions."""

import json
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from kopf._cogs.configs.diffbase import AnnotationsDiffBaseStorage
from kopf._cogs.structs import bodies
from kopf._core.intents.causes import Reason

from informers import APIResource
from reconcile.adoption.kopf_return import Fate, ReturnedKind, decision_for, is_behind, last_handled
from reconcile.predecessors import KopfTraces
from tests.adoption.kopf_causes import cause_of

SITES = APIResource("example.com", "v1", "Site", "sites")
OURS = "example.com/site"
KIND = ReturnedKind(SITES, finalizers=(OURS,), managers=frozenset((OURS,)))
PREFIXES = (
    "kopf.zalando.org",
    "sites.example.com",
    "a-prefix-of-more-than-thirty-two-characters.example.com",
)


def site(**metadata: Any) -> dict[str, Any]:
    named = {"name": "a", "namespace": "default", "uid": "1", "resourceVersion": "5", "generation": 3}
    spec = {"image": "nginx", "empty": {}, "password": "hunter2"}
    return {"apiVersion": "example.com/v1", "kind": "Site", "metadata": {**named, **metadata}, "spec": spec}


def patched(obj: dict[str, Any], patch: Any) -> dict[str, Any]:
    """What the object is after a merge patch of its metadata."""
    change = patch.get("metadata", {})
    annotations = {**(obj["metadata"].get("annotations") or {}), **change.get("annotations", {})}
    metadata = {**obj["metadata"], **change, "annotations": annotations}
    return {**obj, "metadata": metadata}


values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
texts = st.text(max_size=4)
names = st.sampled_from(
    [
        "kubectl.kubernetes.io/last-applied-configuration",
        "example.com/a",
        "plain",
        "other.example.com/kopf-managed",
        "other.example.com/handler",
        "team.kopf.zalando.org/handler",
    ]
)
objects = st.builds(
    lambda spec, labels, annotations, status, more: {
        **site(labels=labels, annotations=annotations, finalizers=[OURS]),
        "spec": spec,
        "status": status,
        **more,
    },
    values,
    st.dictionaries(texts, texts, max_size=2),
    st.dictionaries(names, texts, max_size=4),
    # kopf cannot work with an object where a field that it looks into is no mapping.
    st.fixed_dictionaries(
        {}, optional={"phase": values, "b": st.dictionaries(st.sampled_from("cd"), values, max_size=2)}
    ),
    st.dictionaries(st.sampled_from(["data", "extra"]), values, max_size=2),
)
kinds = st.builds(
    lambda prefix, fields: evolve(KIND, names=KopfTraces(prefix=prefix), fields=fields),
    st.sampled_from(PREFIXES),
    st.sampled_from([(), (("status", "phase"),), (("metadata", "name"), ("status", "b", "c"))]),
)


@settings(max_examples=60)
@given(objects, kinds)
def test_kopf_resumes_what_was_handed_back_and_would_create_it_otherwise(
    obj: dict[str, Any], kind: ReturnedKind
) -> None:
    assert cause_of(obj, kind.names, kind.fields) is Reason.CREATE
    decision = decision_for(obj, kind)
    after = patched(obj, decision.patch)
    assert decision.fate is Fate.HANDED
    assert after["metadata"]["finalizers"] == [kind.names.finalizer]
    assert cause_of(after, kind.names, kind.fields) is Reason.RESUME
    assert decision_for(after, kind).fate is Fate.KEPT


@settings(max_examples=60)
@given(objects, kinds)
def test_the_copy_is_the_one_that_kopf_makes(obj: dict[str, Any], kind: ReturnedKind) -> None:
    fields: Any = kind.fields
    body = bodies.Body(obj)  # type: ignore[arg-type]
    storage = AnnotationsDiffBaseStorage(prefix=kind.names.prefix)
    assert last_handled(obj, kind.fields) == storage.build(body=body, extra_fields=fields)


@settings(max_examples=60)
@given(objects)
def test_a_change_that_no_run_has_seen_is_an_update_for_kopf(obj: dict[str, Any]) -> None:
    obj = {**obj, "spec": {"image": "new"}, "status": {"conditions": [{"observedGeneration": 2}, 7]}}
    assert is_behind(obj)
    decision = decision_for(obj, KIND)
    assert decision.fate is Fate.CHANGED
    assert cause_of(patched(obj, decision.patch)) is Reason.UPDATE


def test_a_replica_set_of_a_deployment_gets_the_name_that_does_not_clash() -> None:
    owner = [{"kind": "Deployment", "name": "web"}]
    obj = {**site(ownerReferences=owner, finalizers=[OURS]), "kind": "ReplicaSet"}
    annotations = decision_for(obj, KIND).patch["metadata"]["annotations"]
    assert list(annotations) == ["kopf.zalando.org/last-handled-configuration-ofDRS"]
    assert cause_of(patched(obj, {"metadata": {"annotations": annotations}})) is Reason.RESUME


COPY = {"kopf.zalando.org/last-handled-configuration": '{"spec":{"image":"old"}}'}
RECORD = {"kopf.zalando.org/create_fn": json.dumps({"started": "2026-11-24T00:00:00", "purpose": "create"})}
KOPFS = KopfTraces().finalizer
GOING = "2026-11-24T00:00:00Z"


@pytest.mark.parametrize(
    ("metadata", "fate"),
    [
        ({"annotations": COPY, "finalizers": [KOPFS]}, Fate.KEPT),
        ({"annotations": RECORD, "finalizers": [KOPFS]}, Fate.KEPT),
        ({"finalizers": [KOPFS]}, Fate.KEPT),
        ({"deletionTimestamp": GOING, "finalizers": [KOPFS]}, Fate.KEPT),
        ({"deletionTimestamp": GOING, "finalizers": [OURS, "example.org/other"]}, Fate.DELETING),
        ({}, Fate.UNTRACED),
        ({"managedFields": [{"manager": "kubectl"}]}, Fate.UNTRACED),
    ],
)
def test_nothing_is_written_to_what_kopf_still_knows_or_a_server_refuses(
    metadata: dict[str, Any], fate: Fate
) -> None:
    decision = decision_for(site(**metadata), KIND)
    assert decision.fate is fate
    assert decision.patch == {}


def test_an_object_without_any_trace_is_handed_back_where_that_is_asked_for() -> None:
    assert cause_of(patched(site(), decision_for(site(), KIND, untraced=True).patch)) is Reason.RESUME


@pytest.mark.parametrize("finalizers", [[], [KOPFS]])
def test_an_object_is_the_new_operators_by_the_fields_that_it_wrote(finalizers: list[str]) -> None:
    obj = site(managedFields=[{"manager": OURS, "operation": "Apply"}], finalizers=finalizers)
    decision = decision_for(obj, KIND)
    assert decision.fate is Fate.HANDED
    assert "finalizers" not in decision.patch["metadata"]
    assert cause_of(patched(obj, decision.patch)) is Reason.RESUME


def test_a_copy_that_is_there_stays_and_only_the_finalizer_goes_back() -> None:
    obj = site(annotations=COPY, finalizers=["example.org/other", OURS])
    decision = decision_for(obj, KIND)
    assert decision.patch == {"metadata": {"finalizers": ["example.org/other", KOPFS]}}
    assert cause_of(patched(obj, decision.patch)) is Reason.UPDATE


def test_the_mark_of_a_prefix_is_written_with_it() -> None:
    kind = evolve(KIND, names=KopfTraces(prefix="sites.example.com"))
    annotations = decision_for(site(finalizers=[OURS]), kind).patch["metadata"]["annotations"]
    assert annotations["sites.example.com/kopf-managed"] == "yes"
