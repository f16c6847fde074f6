"""Which registry-secret copies are written and deleted. Numbered rows are those of systems.md, list 5d."""

import base64
import json
from collections.abc import Sequence
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from controllers.registrysecrets import original
from controllers.registrysecrets.copies import DOCKER_CONFIG_KEY, DOCKER_CONFIG_TYPE, SecretCopy
from controllers.registrysecrets.plan import (
    ConditionValue,
    Conflict,
    CopyPlan,
    CopyStatus,
    PlanCopies,
    Waiting,
    plan_copies,
)
from controllers.registrysecrets.views import (
    NamespaceView,
    PipelineView,
    SecretView,
    is_owned,
    ownership_labels,
)

PASSWORD = "s3cr3t-pass"
SPACES = [NamespaceView("shop-test"), NamespaceView("shop-production")]
PIPELINE = PipelineView(
    name="shop",
    namespace="kubero",
    uid="pipeline-uid",
    prefix="shop",
    mode="copy",
    host="registry.example.com",
    phases=("test", "production"),
)


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def docker_config(**auths: Any) -> str:
    return b64(json.dumps({"auths": auths or {"registry.example.com": login()}}))


def login(password: str = PASSWORD) -> dict[str, str]:
    return {"username": "robot", "password": password, "auth": b64(f"robot:{password}")}


def source(config: str | None = None, version: str = "7", **data: str) -> SecretView:
    held = {DOCKER_CONFIG_KEY: config or docker_config(), **data}
    return SecretView("registry-login", "kubero", "source-uid", version, DOCKER_CONFIG_TYPE, held)


def stored(copy: SecretCopy, **changes: Any) -> SecretView:
    view = SecretView(
        name=copy.name,
        namespace=copy.namespace,
        uid=f"uid-of-{copy.namespace}/{copy.name}",
        type=copy.type,
        data=copy.data,
        labels=copy.labels,
    )
    return evolve(view, **changes)


def after(plan: CopyPlan, existing: Sequence[SecretView]) -> list[SecretView]:
    """The Secrets once the plan is carried out."""
    written = {(write.copy.namespace, write.copy.name) for write in plan.write}
    deleted = {secret.uid for secret in plan.delete}
    kept = [one for one in existing if (one.namespace, one.name) not in written and one.uid not in deleted]
    return [*kept, *(stored(write.copy) for write in plan.write)]


def copied(pipeline: PipelineView = PIPELINE, origin: SecretView | None = None) -> list[SecretView]:
    """What stands in the namespaces after the first pass."""
    return after(plan_copies(pipeline, origin or source(), SPACES, []), [])


def condition(plan: CopyPlan, kind: str) -> ConditionValue:
    (found,) = [one for one in plan.conditions if one.type == kind]
    return found


def written(plan: CopyPlan) -> list[tuple[str, str, str]]:
    return [(write.verb, write.copy.namespace, write.copy.name) for write in plan.write]


ALL_COPIES = [
    ("shop-test", "kubero-pull-secret"),
    ("shop-test", "registry-credentials"),
    ("shop-production", "kubero-pull-secret"),
    ("shop-production", "registry-credentials"),
]


@pytest.mark.rule("kubero-5d-12")
def test_each_enabled_phase_gets_both_secrets() -> None:
    plan = plan_copies(PIPELINE, source(), SPACES, [])
    assert written(plan) == [("create", *where) for where in ALL_COPIES]
    pull, credentials = plan.write[0].copy, plan.write[1].copy
    assert (pull.type, dict(pull.data)) == (DOCKER_CONFIG_TYPE, {DOCKER_CONFIG_KEY: docker_config()})
    assert (credentials.type, dict(credentials.data)) == (
        "Opaque",
        {"username": b64("robot"), "password": b64(PASSWORD)},
    )
    assert pull.labels == {
        "app.kubernetes.io/managed-by": "reconcile-runtime",
        "reconcile-runtime/pipeline-namespace": "kubero",
        "reconcile-runtime/pipeline-name": "shop",
        "reconcile-runtime/pipeline-uid": "pipeline-uid",
    }
    assert plan.copies == tuple(CopyStatus(*where, source_resource_version="7") for where in ALL_COPIES)
    assert [(one.type, one.status) for one in plan.conditions] == [
        ("Ready", "True"),
        ("SourceFound", "True"),
        ("Conflict", "False"),
    ]


@pytest.mark.rule("kubero-5d-01")
def test_an_unchanged_pipeline_writes_nothing_however_often_it_is_planned() -> None:
    existing = copied()
    plans = [plan_copies(PIPELINE, source(), SPACES, existing) for _ in range(100)]
    assert all(plan.is_idle for plan in plans)
    assert len({plan.conditions for plan in plans}) == 1


@pytest.mark.rule("kubero-5d-02")
def test_copies_appear_once_the_source_does() -> None:
    without = plan_copies(PIPELINE, None, SPACES, [])
    assert without.is_idle
    assert condition(without, "SourceFound").reason == "NotFound"
    assert len(plan_copies(PIPELINE, source(), SPACES, []).write) == 4


@pytest.mark.rule("kubero-5d-03")
def test_a_rotated_source_is_written_into_each_copy_once() -> None:
    rotated = source(docker_config(**{"registry.example.com": login("n3w")}), version="8")
    plan = plan_copies(PIPELINE, rotated, SPACES, copied())
    assert written(plan) == [("update", *where) for where in ALL_COPIES]
    assert {entry.source_resource_version for entry in plan.copies} == {"8"}
    assert plan_copies(PIPELINE, rotated, SPACES, after(plan, copied())).is_idle


@pytest.mark.rule("kubero-5d-04")
def test_copies_are_kept_when_the_source_is_gone() -> None:
    plan = plan_copies(PIPELINE, None, SPACES, copied())
    assert plan.is_idle
    assert condition(plan, "SourceFound").status == "False"
    assert condition(plan, "Ready") == ConditionValue(
        "Ready",
        "False",
        "SourceNotFound",
        "there is no Secret kubero/registry-login; existing copies are kept",
    )


@pytest.mark.rule("kubero-5d-04")
@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ({}, "KeyMissing"),
        ({DOCKER_CONFIG_KEY: "ZW1wdHk="}, "NotADockerConfig"),
        ({DOCKER_CONFIG_KEY: "not base64!"}, "NotADockerConfig"),
        ({DOCKER_CONFIG_KEY: b64('{"auths": {"registry.example.com": 5}}')}, "NotADockerConfig"),
    ],
)
def test_an_unusable_source_is_never_copied(data: dict[str, str], reason: str) -> None:
    plan = plan_copies(PIPELINE, evolve(source(), data=data), SPACES, copied())
    assert plan.is_idle
    assert condition(plan, "SourceFound").reason == reason


@pytest.mark.rule("kubero-5d-05")
def test_a_disabled_phase_loses_its_copies_and_keeps_its_namespace() -> None:
    plan = plan_copies(evolve(PIPELINE, phases=("test",)), source(), SPACES, copied())
    assert [(one.namespace, one.name) for one in plan.delete] == ALL_COPIES[2:]
    assert plan.write == ()


def test_a_copy_that_is_going_already_is_not_deleted_again() -> None:
    going = [evolve(one, terminating=True) for one in copied()]
    assert plan_copies(evolve(PIPELINE, phases=()), source(), SPACES, going).is_idle


@pytest.mark.rule("kubero-5d-05")
def test_a_newly_enabled_phase_gets_its_namespace_and_copies() -> None:
    plan = plan_copies(PIPELINE, source(), SPACES[:1], [])
    (made,) = plan.namespaces
    assert made.manifest() == {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "shop-production", "labels": ownership_labels(PIPELINE)},
    }
    assert len(plan.write) == 4


@pytest.mark.rule("kubero-5d-06")
@pytest.mark.parametrize("mode", [None, "none"])
def test_without_a_mode_our_copies_go(mode: str | None) -> None:
    plan = plan_copies(evolve(PIPELINE, mode=mode), source(), SPACES, copied())
    assert {(one.namespace, one.name) for one in plan.delete} == set(ALL_COPIES)
    assert condition(plan, "Ready").reason == "NothingToCopy"


@pytest.mark.rule("kubero-5d-06")
@pytest.mark.parametrize("mode", ["create", "mirror"])
def test_a_mode_this_version_lacks_is_named_and_nothing_is_touched(mode: str) -> None:
    plan = plan_copies(evolve(PIPELINE, mode=mode), source(), SPACES, copied())
    assert plan.is_idle
    assert plan.unsupported is not None
    assert plan.unsupported.feature == f"spec.registry.createSecret {mode}"
    assert condition(plan, "Ready").reason == "ModeNotSupported"


@pytest.mark.rule("kubero-5d-07")
def test_a_foreign_secret_of_the_same_name_is_a_conflict_and_stays() -> None:
    foreign = SecretView("kubero-pull-secret", "shop-test", "theirs", data={"k": b64("v")})
    plan = plan_copies(PIPELINE, source(), SPACES, [foreign])
    assert plan.conflicts == (Conflict("shop-test", "kubero-pull-secret"),)
    assert written(plan) == [("create", *where) for where in ALL_COPIES[1:]]
    assert plan.delete == ()
    assert condition(plan, "Conflict").status == "True"
    assert condition(plan, "Ready").reason == "ForeignSecret"
    assert ("shop-test", "kubero-pull-secret") not in {(e.namespace, e.secret) for e in plan.copies}


@pytest.mark.rule("kubero-5d-07")
def test_another_pipelines_copy_is_a_conflict_too() -> None:
    other = evolve(PIPELINE, namespace="elsewhere", uid="another")
    assert len(plan_copies(other, source(), SPACES, copied()).conflicts) == 4


@pytest.mark.rule("kubero-5d-08")
@pytest.mark.parametrize(
    "edit",
    [
        {"data": {DOCKER_CONFIG_KEY: b64("{}")}},
        {"data": {DOCKER_CONFIG_KEY: docker_config(), "extra": b64("x")}},
        {"labels": {**ownership_labels(PIPELINE), "reconcile-runtime/pipeline-uid": "old"}},
    ],
)
def test_a_copy_edited_by_hand_is_repaired_once(edit: dict[str, Any]) -> None:
    first, *rest = copied()
    existing = [evolve(first, **edit), *rest]
    plan = plan_copies(PIPELINE, source(), SPACES, existing)
    assert written(plan) == [("update", *ALL_COPIES[0])]
    assert plan_copies(PIPELINE, source(), SPACES, after(plan, existing)).is_idle


def test_labels_that_others_add_to_a_copy_are_no_change() -> None:
    existing = [evolve(one, labels={**one.labels, "team": "a"}) for one in copied()]
    assert plan_copies(PIPELINE, source(), SPACES, existing).is_idle


@pytest.mark.rule("kubero-5d-11")
def test_a_terminating_namespace_is_waited_for() -> None:
    spaces = [NamespaceView("shop-test", terminating=True), SPACES[1]]
    plan = plan_copies(PIPELINE, source(), spaces, [])
    assert plan.waiting == (Waiting("shop-test"),)
    assert written(plan) == [("create", *where) for where in ALL_COPIES[2:]]
    assert plan.namespaces == ()
    ready = condition(plan, "Ready")
    assert (ready.status, ready.reason, ready.message) == (
        "False",
        "WaitingForDeletion",
        "being deleted by others: shop-test",
    )


def test_a_terminating_copy_is_waited_for() -> None:
    first, *rest = copied()
    plan = plan_copies(PIPELINE, source(), SPACES, [evolve(first, terminating=True), *rest])
    assert plan.is_idle
    assert plan.waiting == (Waiting("shop-test", "kubero-pull-secret"),)


@pytest.mark.rule("kubero-5d-13")
def test_a_copy_of_another_type_is_replaced() -> None:
    first, *rest = copied()
    plan = plan_copies(PIPELINE, source(), SPACES, [evolve(first, type="Opaque"), *rest])
    assert written(plan) == [("replace", *ALL_COPIES[0])]
    assert plan.write[0].stands is not None
    assert plan.write[0].stands.uid == first.uid


def test_an_immutable_copy_with_other_data_is_replaced() -> None:
    first, *rest = copied()
    frozen = evolve(first, immutable=True, data={DOCKER_CONFIG_KEY: b64("{}")})
    assert written(plan_copies(PIPELINE, source(), SPACES, [frozen, *rest])) == [("replace", *ALL_COPIES[0])]


def test_a_restored_pipeline_takes_its_copies_back() -> None:
    restored = evolve(PIPELINE, uid="after-the-backup")
    plan = plan_copies(restored, source(), SPACES, copied())
    assert plan.conflicts == ()
    assert [verb for verb, *_ in written(plan)] == ["update"] * 4


# A source that serves one copy and not the other, and what is shown of it.


@pytest.mark.parametrize(
    ("auths", "host", "reason"),
    [
        ({"other.example.com": login()}, "registry.example.com", "LoginNotFound"),
        ({"a.example.com": login(), "b.example.com": login()}, "", "LoginNotFound"),
        ({"registry.example.com": {"auth": b64("token-only")}}, "registry.example.com", "LoginIncomplete"),
        ({"registry.example.com": {"identitytoken": PASSWORD}}, "registry.example.com", "LoginIncomplete"),
    ],
)
def test_without_a_login_the_pull_secret_is_copied_and_the_rest_reported(
    auths: dict[str, Any], host: str, reason: str
) -> None:
    plan = plan_copies(evolve(PIPELINE, host=host), source(docker_config(**auths)), SPACES, [])
    assert {write.copy.name for write in plan.write} == {"kubero-pull-secret"}
    assert condition(plan, "SourceFound").reason == reason
    assert condition(plan, "Ready").status == "False"


@pytest.mark.parametrize(
    "config",
    [
        docker_config(),
        b64(f'{{"auths": {{"registry.example.com": "{PASSWORD}"}}}}'),
        b64(f"{PASSWORD} is no JSON"),
        docker_config(**{"registry.example.com": {"auth": PASSWORD}}),
    ],
)
def test_no_secret_value_is_in_what_a_plan_shows(config: str) -> None:
    written_anew = plan_copies(PIPELINE, source(config), SPACES, [])
    removed = plan_copies(evolve(PIPELINE, mode="none"), source(config), SPACES, copied())
    shown = repr((written_anew, removed))
    assert "kubero-pull-secret" in shown
    for value in (PASSWORD, b64(PASSWORD), b64("robot"), config):
        assert value not in shown


# Laws.

COPIES = copied()
ANY_EXISTING = st.lists(
    st.builds(
        lambda secret, changes: evolve(secret, **changes),
        st.sampled_from(COPIES),
        st.fixed_dictionaries(
            {},
            optional={
                "labels": st.sampled_from([{}, {"team": "a"}]),
                "type": st.just("Opaque"),
                "data": st.just({}),
                "immutable": st.booleans(),
                "terminating": st.booleans(),
            },
        ),
    ),
    max_size=4,
    unique_by=lambda secret: (secret.namespace, secret.name),
)
PIPELINES = st.builds(
    lambda phases, mode: evolve(PIPELINE, phases=tuple(phases), mode=mode),
    st.lists(st.sampled_from(["test", "production"]), unique=True),
    st.sampled_from(["copy", "none", "create", None]),
)


@given(PIPELINES, st.none() | st.just(source()), ANY_EXISTING)
def test_a_plan_carried_out_leaves_nothing_to_do(
    pipeline: PipelineView, origin: SecretView | None, existing: list[SecretView]
) -> None:
    plan = plan_copies(pipeline, origin, SPACES, existing)
    assert plan_copies(pipeline, origin, SPACES, after(plan, existing)).is_idle


@given(PIPELINES, st.none() | st.just(source()), ANY_EXISTING)
def test_what_is_not_ours_is_neither_written_nor_deleted(
    pipeline: PipelineView, origin: SecretView | None, existing: list[SecretView]
) -> None:
    plan = plan_copies(pipeline, origin, SPACES, existing)
    touched = [*plan.delete, *(write.stands for write in plan.write if write.stands is not None)]
    assert all(is_owned(pipeline, secret.labels) for secret in touched)


# The incident: nothing changes, yet every pass writes.


def writes_of(planner: PlanCopies, passes: int) -> tuple[int, list[SecretView]]:
    """How many Secrets so many passes write after the first, and what stands at the end."""
    existing = after(planner(PIPELINE, source(), SPACES, []), [])
    count = 0
    for _ in range(passes):
        plan = planner(PIPELINE, source(), SPACES, existing)
        count += len(plan.write)
        existing = after(plan, existing)
    return count, existing


@pytest.mark.rule("kubero-5d-10")
def test_passes_after_the_first_write_nothing() -> None:
    assert writes_of(plan_copies, passes=20)[0] == 0


def test_the_original_writes_the_copies_and_a_release_in_every_pass() -> None:
    count, existing = writes_of(original.plan_copies, passes=20)
    assert count == 20 * 5
    releases = sorted(int(one.name.rpartition(".v")[2]) for one in existing if one.namespace == "kubero")
    assert releases == list(range(12, 22))


def test_the_originals_release_lies_in_the_pipelines_namespace_and_names_it() -> None:
    release = original.plan_copies(PIPELINE, source(), SPACES, []).write[-1].copy
    assert (release.namespace, release.name) == ("kubero", "sh.helm.release.v1.shop.v1")
    assert release.type == "helm.sh/release.v1"
    assert is_owned(PIPELINE, release.labels)


def test_the_original_overwrites_copies_with_a_default_when_the_source_is_gone() -> None:
    plan = original.plan_copies(PIPELINE, None, SPACES, copied())
    assert plan.write[0].copy.data == {DOCKER_CONFIG_KEY: "ZW1wdHk="}
