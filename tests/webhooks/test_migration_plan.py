"""The next step to the versions of the classes, from any state of a definition."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconcile.webhooks import migration_plan as plan
from reconcile.webhooks.migration_plan import Seen, marker_of, next_step
from reconcile.webhooks.schema_losses import lost_field
from reconcile.webhooks.wanted_definitions import WantedDefinition, wanted_definition
from tests.webhooks.migrating_shops import FIRST, SECOND, THIRD, release
from tests.webhooks.shops import Shop, ShopAlpha, ShopBeta

ALL = release(Shop, ShopBeta, ShopAlpha)
NAMES = tuple(ALL.versions)
WANTED: Sequence[WantedDefinition] = (ALL, FIRST, SECOND, THIRD, wanted_definition([ShopAlpha]))
SERVICE = {"namespace": "shop-system", "name": "shop", "path": "/convert/shops", "port": 443}
SET_UP: Mapping[str, Any] = {"conversionReviewVersions": ["v1"], "clientConfig": {"service": SERVICE}}
"""The webhook of the classes as a server has it."""
MOST_STEPS = 20


def installed(
    names: Sequence[str], stored: str, kept: Sequence[str], served: Sequence[str], webhook: bool
) -> dict[str, Any]:
    versions = [
        {**ALL.versions[name], "storage": name == stored, "served": name == stored or name in served}
        for name in names
    ]
    conversion = {"strategy": "Webhook", "webhook": SET_UP} if webhook else {"strategy": "None"}
    spec = {**ALL.body["spec"], "versions": versions, "conversion": conversion}
    established = {"type": "Established", "status": "True"}
    status = {"storedVersions": [*kept, *([] if stored in kept else [stored])], "conditions": [established]}
    return {"metadata": {"generation": 1}, "spec": spec, "status": status}


@st.composite
def definitions(draw: st.DrawFn) -> dict[str, Any]:
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, unique=True))
    some = st.lists(st.sampled_from(names), unique=True)
    return installed(names, draw(st.sampled_from(names)), draw(some), draw(some), draw(st.booleans()))


def carried_out(step: plan.Step, before: Mapping[str, Any]) -> dict[str, Any]:
    """What the server has after a step."""
    metadata, status = before["metadata"], before["status"]
    if isinstance(step, plan.Change):
        check_change(step, before)
        stored = next(version["name"] for version in step.spec["versions"] if version["storage"])
        kept = status["storedVersions"]
        kept = kept if stored in kept else [*kept, stored]
        metadata = {**metadata, "generation": metadata["generation"] + 1}
        return {"metadata": metadata, "spec": step.spec, "status": {**status, "storedVersions": kept}}
    if isinstance(step, plan.Migrate):
        marked = {marker_of(before): str(metadata["generation"])}
        return {**before, "metadata": {**metadata, "annotations": marked}}
    assert isinstance(step, plan.Record)
    return {**before, "status": {**status, "storedVersions": [step.version]}}


def check_change(step: plan.Change, before: Mapping[str, Any]) -> None:
    names = {version["name"] for version in step.spec["versions"]}
    dropped = {version["name"] for version in before["spec"]["versions"]} - names
    assert not dropped & set(before["status"]["storedVersions"])
    assert sum(version["storage"] for version in step.spec["versions"]) == 1
    if step.spec["conversion"]["strategy"] == "None" and before["spec"]["conversion"]["strategy"] != "None":
        assert len(before["status"]["storedVersions"]) == 1


@pytest.mark.rule("definitions-order")
@given(st.sampled_from(WANTED), definitions())
def test_from_any_state_the_steps_end_and_no_stored_version_is_dropped(
    wanted: WantedDefinition, now: dict[str, Any]
) -> None:
    for _ in range(MOST_STEPS):
        # Probes always succeed here.
        step = next_step(wanted, now, Seen(converts=now["metadata"]["generation"]))
        if isinstance(step, plan.Refused):
            return
        if isinstance(step, plan.Finished):
            assert set(wanted.versions) <= {version["name"] for version in now["spec"]["versions"]}
            assert len(now["status"]["storedVersions"]) == 1
            return
        now = carried_out(step, now)
    raise AssertionError(step)


@pytest.mark.rule("definitions-order")
def test_a_version_is_stored_only_after_a_probe_of_this_generation() -> None:
    now = installed(NAMES, "v1beta1", [], NAMES, webhook=True)
    assert next_step(ALL, now, Seen()) == plan.Probe("v1")
    assert isinstance(next_step(ALL, now, Seen(converts=1)), plan.Change)
    assert next_step(ALL, {**now, "metadata": {"generation": 2}}, Seen(converts=1)) == plan.Probe("v1")


def test_a_definition_that_the_server_writes_in_another_way_is_not_changed_for_ever() -> None:
    now = installed(NAMES, "v1", [], NAMES, webhook=True)
    for version in now["spec"]["versions"]:
        version["deprecated"] = False
    assert isinstance(next_step(ALL, now), plan.Change)
    assert next_step(ALL, now, Seen(equal=1)) == plan.Finished()


def test_the_ca_bundle_that_rotation_wrote_stays() -> None:
    now = installed(NAMES, "v1", [], NAMES, webhook=True)
    config = {**SET_UP["clientConfig"], "caBundle": "Q0E="}
    now["spec"]["conversion"]["webhook"] = {**SET_UP, "clientConfig": config}
    assert next_step(ALL, now) == plan.Finished()


def test_a_version_of_a_later_release_that_is_not_stored_yet_stays() -> None:
    now = installed(NAMES, "v1beta1", [], NAMES, webhook=True)
    assert next_step(FIRST, now) == plan.Finished()


@pytest.mark.rule("definitions-refused")
def test_functions_without_a_webhook_are_refused() -> None:
    wanted = wanted_definition([Shop, ShopBeta])
    for now in (None, installed(["v1"], "v1", [], [], webhook=False)):
        step = next_step(wanted, now)
        assert isinstance(step, plan.Refused)
        assert "serve webhooks, or keep one version" in step.problem


@pytest.mark.parametrize(
    ("before", "after", "field"),
    [
        ({"properties": {"a": {}}}, {"properties": {"a": {}}}, ""),
        ({"properties": {"a": {}, "b": {}}}, {"properties": {"a": {}}}, ".b"),
        ({"properties": {"a": {"properties": {"b": {}}}}}, {"properties": {"a": {"properties": {}}}}, ".a.b"),
        ({"items": {"properties": {"b": {}}}}, {"items": {}}, "[].b"),
        ({"additionalProperties": {"type": "string"}}, {}, ".*"),
        ({"additionalProperties": {"type": "string"}}, {"additionalProperties": True}, ""),
        ({"x-kubernetes-preserve-unknown-fields": True}, {"properties": {}}, ".*"),
        ({"properties": {"a": {}}}, {"x-kubernetes-preserve-unknown-fields": True}, ""),
        ({"properties": {"a": {}}}, {"additionalProperties": {"type": "string"}}, ""),
    ],
)
def test_the_first_field_that_a_schema_would_lose_is_named(
    before: dict[str, Any], after: dict[str, Any], field: str
) -> None:
    assert lost_field(before, after) == field
