"""How a pipeline, Secrets and Namespaces are read, and whose a copy is."""

from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from controllers.registrysecrets.copies import SecretCopy
from controllers.registrysecrets.plan import ConditionValue, plan_copies, target_namespaces
from controllers.registrysecrets.views import (
    NamespaceView,
    PipelineView,
    is_owned,
    label_value,
    namespace_view,
    ownership_labels,
    pipeline_view,
    secret_view,
    selector_labels,
)

PIPELINE = PipelineView(
    name="shop",
    namespace="kubero",
    uid="pipeline-uid",
    prefix="shop",
    mode="copy",
    host="registry.example.com",
    phases=("test", "production"),
)


def test_a_pipeline_is_read_from_its_object() -> None:
    stored_pipeline = {
        "metadata": {"name": "shop", "namespace": "kubero", "uid": "pipeline-uid"},
        "spec": {
            "name": "shop",
            "deploymentstrategy": "git",
            "registry": {"createSecret": "copy", "host": "registry.example.com"},
            "phases": [
                {"name": "review", "enabled": False},
                {"name": "test", "enabled": True},
                {"name": "stage"},
                {"name": "production", "enabled": True},
                {"name": "test", "enabled": True},
            ],
        },
    }
    assert pipeline_view(stored_pipeline) == PIPELINE
    assert target_namespaces(PIPELINE) == ["shop-test", "shop-production"]


def test_a_pipeline_that_names_another_main_namespace_is_believed() -> None:
    read = pipeline_view({"metadata": {"name": "p", "uid": "u"}, "spec": {"mainnamespace": "paas"}})
    assert (read.main_namespace, read.prefix) == ("paas", "p")


@pytest.mark.parametrize(
    "spec",
    [
        {"replicaCount": 1, "image": {"repository": "nginx"}},
        {"phases": [{"name": "test", "enabled": True}]},
        {
            "deploymentstrategy": "docker",
            "registry": {"createSecret": "copy"},
            "phases": [{"name": "test", "enabled": True}],
        },
        {"registry": {"createSecret": "copy"}},
    ],
)
def test_a_pipeline_that_asks_for_no_copies_is_valid_with_nothing_to_do(spec: dict[str, Any]) -> None:
    read = pipeline_view({"metadata": {"name": "p", "namespace": "n", "uid": "u"}, "spec": spec})
    plan = plan_copies(read, None, [], [])
    assert plan.is_idle
    assert plan.conditions == (ConditionValue("Ready", "True", "NothingToCopy"),)


def test_an_enabled_phase_without_a_name_is_an_error_that_says_which() -> None:
    spec = {"phases": [{"name": "test", "enabled": True}, {"enabled": True}]}
    with pytest.raises(ValueError, match=r"spec.phases\[1\] is enabled but has no name"):
        pipeline_view({"metadata": {"name": "p", "uid": "u"}, "spec": spec})


def test_a_secret_is_read_from_its_object_and_hides_its_values() -> None:
    copy = SecretCopy("shop-test", "registry-credentials", "Opaque", {"password": "cGFzcw=="}, {"a": "b"})
    manifest: dict[str, Any] = copy.manifest()
    manifest["metadata"] |= {"uid": "u", "resourceVersion": "3", "deletionTimestamp": "now"}
    view = secret_view({**manifest, "immutable": True})
    assert (view.namespace, view.name, view.resource_version) == ("shop-test", "registry-credentials", "3")
    assert (view.type, view.data, view.labels) == ("Opaque", {"password": "cGFzcw=="}, {"a": "b"})
    assert view.immutable
    assert view.terminating
    assert "cGFzcw==" not in repr((view, copy))


@pytest.mark.parametrize(
    ("metadata", "status", "ends"),
    [
        ({}, {"phase": "Active"}, False),
        ({}, {"phase": "Terminating"}, True),
        ({"deletionTimestamp": "now"}, {}, True),
    ],
)
def test_either_sign_of_a_namespaces_end_counts(
    metadata: dict[str, str], status: dict[str, str], ends: bool
) -> None:
    read = namespace_view({"metadata": {"name": "n", **metadata}, "status": status})
    assert read == NamespaceView("n", terminating=ends)


@given(st.text("abc-.", min_size=1, max_size=253), st.text("abc-.", min_size=1, max_size=253))
def test_names_of_any_length_are_told_apart_by_their_labels(one: str, other: str) -> None:
    first, second = evolve(PIPELINE, name=one), evolve(PIPELINE, name=other)
    assert len(label_value(one)) <= 63
    assert is_owned(first, ownership_labels(second)) is (one == other)
    assert selector_labels(first).items() <= ownership_labels(first).items()
