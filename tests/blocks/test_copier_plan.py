"""Which copies are written and which are deleted, and whose a copy is."""

import base64
from collections.abc import Sequence
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from reconcile import Condition, Key, ObjectMeta
from reconcile.blocks import Content, Copy, CopyStatus, Unusable, as_it_is
from reconcile.blocks.copier.copies import CopyOwner, label_value, owners_in
from reconcile.blocks.copier.copy_plan import CopyPlan, CopyState, checked, difference, plan_copies
from reconcile.kinds import ConfigMap, Ingress, Namespace, Secret
from reconcile.kinds.core import NamespaceStatus

PASSWORD = "s3cr3t-pass"
OWNER = CopyOwner("tenants", "Tenant.example.com", "teams", "shop", "owner-uid")
SOURCE = Key("shared", "login")
PLACES = [Key("test", "login"), Key("prod", "login")]
COPIES = [Copy(place, SOURCE) for place in PLACES]


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def source(version: str = "7", **data: str) -> Secret:
    held = data or {"password": b64(PASSWORD)}
    metadata = ObjectMeta("login", "shared", uid="source-uid", resource_version=version)
    return Secret(metadata=metadata, type="Opaque", data=held)


def space(name: str, **metadata: Any) -> Namespace:
    return Namespace(metadata=ObjectMeta(name, uid=f"uid-of-{name}", **metadata))


SPACES = [space("test"), space("prod")]


def stored(plan: CopyPlan) -> list[Secret]:
    """The Secrets that a plan writes, as they are then stored."""
    return [
        Secret(
            metadata=ObjectMeta(
                write.to.name,
                write.to.namespace,
                uid=f"uid-of-{write.to}",
                labels=OWNER.labels(),
                annotations={"reconcile-runtime/source-version": write.source_version or ""},
            ),
            type=write.content.type,
            data=write.content.data,
        )
        for write in plan.write
    ]


def changed(secret: Secret, metadata: dict[str, Any] | None = None, **changes: Any) -> Secret:
    return secret.replace(metadata=evolve(secret.metadata, **(metadata or {})), **changes)


def planned(
    copies: Sequence[Copy] = COPIES,
    origin: Secret | None = None,
    existing: Sequence[Secret] = (),
    spaces: Sequence[Namespace] = SPACES,
    owner: CopyOwner = OWNER,
    missing: bool = False,
    **options: Any,
) -> CopyPlan:
    secrets = {Key(*secret.key): secret for secret in existing}
    if not missing:
        secrets[SOURCE] = origin or source()
    labelled = [secret for secret in existing if owner.owns(secret.metadata.labels)]
    found = CopyState(secrets, {one.name: one for one in spaces}, labelled, options.pop("made", ()))
    found = evolve(found, needed=options.pop("needed", lambda name: False))
    return plan_copies(owner, copies, options.pop("namespaces", ()), found, **options)


def is_idle(plan: CopyPlan) -> bool:
    return not (plan.namespaces or plan.delete or plan.write or plan.delete_namespaces)


def after(plan: CopyPlan, existing: Sequence[Secret]) -> list[Secret]:
    """The Secrets once the plan is carried out."""
    wrote = {write.to for write in plan.write}
    deleted = {secret.uid for secret in plan.delete}
    kept = [one for one in existing if Key(*one.key) not in wrote and one.uid not in deleted]
    return [*kept, *stored(plan)]


def copied(origin: Secret | None = None) -> list[Secret]:
    return stored(planned(origin=origin))


def verdict(plan: CopyPlan, kind: str) -> Condition:
    (found,) = [one for one in plan.verdicts() if one.type == kind]
    return found


def written(plan: CopyPlan) -> list[tuple[str, Key]]:
    return [(write.verb, write.to) for write in plan.write]


def test_every_missing_copy_is_created_from_its_source() -> None:
    plan = planned()
    assert written(plan) == [("create", place) for place in PLACES]
    assert plan.write[0].content == Content({"password": b64(PASSWORD)})
    assert plan.held == tuple(CopyStatus(*place, "7") for place in PLACES)
    assert [(one.type, one.status) for one in plan.verdicts()] == [
        ("Ready", "True"),
        ("SourceFound", "True"),
        ("Conflict", "False"),
    ]


def test_correct_copies_are_left_alone_however_often_they_are_planned() -> None:
    plans = [planned(existing=copied()) for _ in range(100)]
    assert all(is_idle(plan) for plan in plans)
    assert len({plan.verdicts() for plan in plans}) == 1


def test_a_source_touched_without_a_content_change_leaves_the_copy_statuses_unchanged() -> None:
    plan = planned(origin=source(version="9"), existing=copied())
    assert is_idle(plan)
    assert {one.source_resource_version for one in plan.held} == {"7"}


def test_a_rotated_source_is_written_to_each_copy_once() -> None:
    rotated = source("8", password=b64("new"))
    plan = planned(origin=rotated, existing=copied())
    assert written(plan) == [("update", place) for place in PLACES]
    assert {one.source_resource_version for one in plan.held} == {"8"}
    assert is_idle(planned(origin=rotated, existing=after(plan, copied())))


def test_copies_are_kept_when_the_source_is_gone() -> None:
    plan = planned(existing=copied(), missing=True)
    assert is_idle(plan)
    message = "there is no Secret shared/login; existing copies are kept"
    assert verdict(plan, "SourceFound") == Condition("SourceFound", "False", "NotFound", message)
    assert verdict(plan, "Ready") == Condition("Ready", "False", "SourceNotFound", message)


def test_a_source_that_was_emptied_does_not_empty_its_copies() -> None:
    plan = planned(origin=source().replace(data={}), existing=copied())
    assert is_idle(plan)
    assert verdict(plan, "SourceFound").reason == "Empty"


def test_one_unusable_source_does_not_block_copies_of_another() -> None:
    plan = planned([Copy(PLACES[0], Key("shared", "other")), COPIES[1]])
    assert written(plan) == [("create", PLACES[1])]
    assert verdict(plan, "Ready").status == "False"


def test_a_copy_that_is_no_longer_desired_is_deleted_unless_it_is_to_be_kept() -> None:
    assert [secret.key for secret in planned(COPIES[:1], existing=copied()).delete] == [PLACES[1]]
    assert is_idle(planned(COPIES[:1], existing=copied(), removal="keep"))


def test_a_copy_that_is_already_being_deleted_is_not_deleted_again() -> None:
    going = [changed(one, {"deletion_timestamp": "now"}) for one in copied()]
    assert is_idle(planned((), existing=going))


def test_with_nothing_to_copy_no_condition_mentions_a_source() -> None:
    plan = planned(())
    assert [(one.type, one.reason) for one in plan.verdicts()] == [
        ("Ready", "NothingToCopy"),
        ("Conflict", "NoConflict"),
    ]


def test_a_missing_namespace_is_created_if_requested_and_otherwise_waited_for() -> None:
    plan = planned(spaces=SPACES[:1], namespaces=("test", "prod"))
    assert plan.namespaces == ("prod",)
    assert len(plan.write) == 2
    waiting = planned(spaces=SPACES[:1])
    assert written(waiting) == [("create", PLACES[0])]
    assert verdict(waiting, "Ready") == Condition("Ready", "False", "Waiting", "there is no Namespace prod")


@pytest.mark.parametrize(
    "ending",
    [
        space("test", deletion_timestamp="now"),
        space("test").replace(status=NamespaceStatus(phase="Terminating")),
    ],
)
def test_a_namespace_that_is_being_deleted_is_waited_for(ending: Namespace) -> None:
    plan = planned(spaces=[ending, SPACES[1]], namespaces=("test", "prod"))
    assert written(plan) == [("create", PLACES[1])]
    assert plan.namespaces == ()
    assert verdict(plan, "Ready").message == "Namespace test is being deleted"


def test_a_copy_that_is_being_deleted_is_waited_for() -> None:
    first, second = copied()
    plan = planned(existing=[changed(first, {"deletion_timestamp": "now"}), second])
    assert is_idle(plan)
    assert verdict(plan, "Ready").message == "Secret test/login is being deleted"


def test_a_namespace_is_deleted_only_if_the_copier_created_it_and_nothing_needs_it() -> None:
    made = [space(name, labels=OWNER.labels()) for name in ("test", "prod", "old", "gone", "shared-too")]
    plan = planned(existing=copied(), made=made, needed={"shared-too"}.__contains__, removal="namespaces")
    assert [one.name for one in plan.delete_namespaces] == ["gone", "old"]
    assert is_idle(planned(existing=copied(), made=made))


def test_a_foreign_secret_at_the_target_is_a_conflict_and_stays() -> None:
    theirs = Secret(metadata=ObjectMeta("login", "test", uid="theirs"), data={"k": b64("v")})
    plan = planned(existing=[theirs])
    assert plan.conflicts == (PLACES[0],)
    assert written(plan) == [("create", PLACES[1])]
    assert plan.delete == ()
    assert verdict(plan, "Conflict").status == "True"
    assert verdict(plan, "Ready").reason == "ForeignSecret"
    assert [one.namespace for one in plan.held] == ["prod"]


@pytest.mark.parametrize(
    "other", [evolve(OWNER, namespace="else"), evolve(OWNER, kind="Else.x"), evolve(OWNER, copier="else")]
)
def test_the_copy_of_another_owner_is_a_conflict_too(other: CopyOwner) -> None:
    plan = planned(existing=copied(), owner=other)
    assert (len(plan.conflicts), is_idle(plan)) == (2, True)


def test_a_foreign_secret_is_taken_over_if_configured() -> None:
    theirs = [changed(one, {"labels": {"helm": "yes"}}) for one in copied()]
    plan = planned(existing=theirs, adopts=lambda secret: secret.metadata.labels == {"helm": "yes"})
    assert written(plan) == [("update", place) for place in PLACES]
    assert all(write.adopted for write in plan.write)
    assert is_idle(planned(missing=True, existing=theirs, adopts=lambda secret: True))


@pytest.mark.parametrize(
    "edit",
    [
        {"data": {"password": b64("x")}},
        {"data": {"password": b64(PASSWORD), "extra": b64("x")}},
        {"metadata": {"labels": {**OWNER.labels(), "reconcile-runtime/owner-uid": "old"}}},
    ],
)
def test_a_copy_edited_by_hand_is_repaired_once(edit: dict[str, Any]) -> None:
    first, second = copied()
    existing = [changed(first, **edit), second]
    plan = planned(existing=existing)
    assert written(plan) == [("update", PLACES[0])]
    assert is_idle(planned(existing=after(plan, existing)))


def test_labels_that_others_add_to_a_copy_cause_no_write() -> None:
    existing = [changed(one, {"labels": {**one.metadata.labels, "team": "a"}}) for one in copied()]
    assert is_idle(planned(existing=existing))


@pytest.mark.parametrize("edit", [{"type": "kubernetes.io/tls"}, {"immutable": True, "data": {}}])
def test_a_copy_that_cannot_be_changed_is_replaced(edit: dict[str, Any]) -> None:
    first, second = copied()
    plan = planned(existing=[changed(first, **edit), second])
    assert written(plan) == [("replace", PLACES[0])]
    assert plan.write[0].stands is not None


def test_an_owner_restored_from_a_backup_takes_its_copies_back() -> None:
    plan = planned(existing=copied(), owner=evolve(OWNER, uid="after-the-backup"))
    assert (plan.conflicts, [verb for verb, _ in written(plan)]) == ((), ["update", "update"])


def test_two_copies_to_the_same_place_are_refused() -> None:
    with pytest.raises(Unusable, match=r"^more than one copy is asked for as Secret test/login$") as raised:
        checked([COPIES[0], Copy(PLACES[0], content=Content({}))])
    assert raised.value.reason == "SamePlaceTwice"
    assert checked(iter(COPIES)) == tuple(COPIES)


# --- what is said -------------------------------------------------------------------------------------------

FOUND = Condition("SourceFound", "True", "CopyState")
ALONE = Condition("Conflict", "False", "NoConflict")
PROBLEMS = (Unusable("NotFound", "one"), Unusable("Empty", "other"), Unusable("NotFound", "one"))
THEIRS = "not written, as these Secrets belong to someone else: test/login, prod/login; delete or rename them"


@pytest.mark.parametrize(
    ("plan", "verdicts"),
    [
        (CopyPlan(), [Condition("Ready", "True", "Copied"), FOUND, ALONE]),
        (CopyPlan(nothing_wanted=True), [Condition("Ready", "True", "NothingToCopy"), ALONE]),
        (
            CopyPlan(waiting=("one", "other")),
            [Condition("Ready", "False", "Waiting", "one; other"), FOUND, ALONE],
        ),
        (
            CopyPlan(waiting=("one",), conflicts=tuple(PLACES)),
            [
                Condition("Ready", "False", "ForeignSecret", THEIRS),
                FOUND,
                Condition("Conflict", "True", "ForeignSecret", THEIRS),
            ],
        ),
        (
            CopyPlan(waiting=("one",), conflicts=tuple(PLACES), problems=PROBLEMS),
            [
                Condition("Ready", "False", "SourceNotFound", "one; other"),
                Condition("SourceFound", "False", "NotFound", "one; other"),
                Condition("Conflict", "True", "ForeignSecret", THEIRS),
            ],
        ),
    ],
)
def test_a_plan_reports_source_problems_first_then_conflicts_then_what_it_waits_for(
    plan: CopyPlan, verdicts: list[Condition]
) -> None:
    assert list(plan.verdicts()) == verdicts


def test_a_copy_that_turns_out_to_be_waiting_is_no_longer_held() -> None:
    held = tuple(CopyStatus(*place, "7") for place in PLACES)
    plan = CopyPlan(held=held, waiting=("one",)).held_up({PLACES[0]: "other", Key("else", "x"): "one"})
    assert plan == CopyPlan(held=held[1:], waiting=("one", "other"))


def test_the_deletion_of_a_namespace_is_waited_for_even_if_nothing_is_copied() -> None:
    plan = planned((), spaces=[space("test", deletion_timestamp="now")], namespaces=("test",))
    assert plan.waiting == ("Namespace test is being deleted",)


def test_a_difference_is_the_patch_that_corrects_the_copy() -> None:
    wanted = Content({"same": b64("1"), "other": b64("2"), "new": b64("3")}, "kubernetes.io/tls")
    labels = {**OWNER.labels(), "team": "a", "reconcile-runtime/owner-uid": "old"}
    stands = Secret(
        metadata=ObjectMeta("login", "test", labels=labels),
        data={"same": b64("1"), "other": b64("1"), "old": b64("1")},
    )
    assert difference(OWNER, wanted, stands) == {
        "data": {"other": b64("2"), "new": b64("3"), "old": None},
        "metadata": {"labels": {"reconcile-runtime/owner-uid": "owner-uid"}},
        "type": "kubernetes.io/tls",
    }


@pytest.mark.parametrize("kind", [None, "", "Opaque"])
def test_a_secret_without_a_type_is_opaque(kind: str | None) -> None:
    assert as_it_is(source().replace(type=kind)) == Content({"password": b64(PASSWORD)}, "Opaque")
    assert is_idle(planned(existing=[changed(one, type=kind) for one in copied()]))
    edited = [changed(one, type=kind, data={}) for one in copied()]
    assert [verb for verb, _ in written(planned(existing=edited))] == ["update", "update"]


def test_a_copy_has_the_type_of_its_source_or_of_its_content() -> None:
    assert as_it_is(source().replace(type="kubernetes.io/tls")).type == "kubernetes.io/tls"
    made = Content.of_text("kubernetes.io/basic-auth", username="robot")
    assert made == Content({"username": b64("robot")}, "kubernetes.io/basic-auth")


# --- whose it is --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("of", "kind"), [(ConfigMap, "ConfigMap"), (Ingress, "Ingress.networking.k8s.io")])
def test_an_owner_is_identified_by_its_kind_and_group(of: type[ConfigMap | Ingress], kind: str) -> None:
    obj = of(metadata=ObjectMeta("shop", "teams", uid="owner-uid"))
    assert CopyOwner.of("tenants", obj) == evolve(OWNER, kind=kind)


def test_an_object_is_indexed_only_if_it_has_all_labels_of_its_owner() -> None:
    def owners(labels: dict[str, str]) -> tuple[tuple[str, ...], ...]:
        return owners_in(Secret(metadata=ObjectMeta("login", "test", labels=labels)))

    cluster_wide = evolve(OWNER, namespace="")
    for owner in (OWNER, cluster_wide):
        assert owners({**owner.labels(), "team": "a"}) == (owner.index_value(),)
    assert OWNER.index_value() == ("tenants", "Tenant.example.com", "teams", "shop")
    for name in OWNER.selector():
        labels = {one: value for one, value in cluster_wide.labels().items() if one != name}
        assert owners(labels) == ()
        assert not cluster_wide.owns(labels)


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("a" * 63, "a" * 63),
        ("a" * 64, f"{'a' * 52}-ffe054fe7a"),  # stands in clusters: another one would lose their copies
    ],
)
def test_a_name_too_long_for_a_label_becomes_its_beginning_and_a_hash(name: str, label: str) -> None:
    assert label_value(name) == label


def test_a_copy_has_either_a_source_with_a_function_or_a_content() -> None:
    for wrong in ({"source": SOURCE, "content": Content({})}, {"content": as_it_is}, {}):
        with pytest.raises(TypeError, match="copy to test/login: content= is"):
            Copy(PLACES[0], **wrong)


def test_the_repr_of_a_plan_or_a_content_has_no_value() -> None:
    shown = repr((planned(), planned(existing=copied()), planned(()), Content.of_text(password=PASSWORD)))
    assert "login" in shown
    assert PASSWORD not in shown
    assert b64(PASSWORD) not in shown


@given(st.text("abc-.", min_size=1, max_size=253), st.text("abc-.", min_size=1, max_size=253))
def test_names_of_any_length_have_distinct_labels(one: str, other: str) -> None:
    first, second = evolve(OWNER, name=one), evolve(OWNER, name=other)
    assert len(label_value(one)) <= 63
    assert first.owns(second.labels()) is (one == other)
    assert first.selector().items() <= first.labels().items()


# Laws.

EXISTING = st.lists(
    st.builds(
        lambda secret, changes, labels, going: changed(
            secret, {**({} if labels is None else {"labels": labels}), "deletion_timestamp": going}, **changes
        ),
        st.sampled_from(copied()),
        st.fixed_dictionaries(
            {},
            optional={"type": st.just("kubernetes.io/tls"), "data": st.just({}), "immutable": st.booleans()},
        ),
        st.none() | st.sampled_from([{}, {"team": "a"}]),
        st.none() | st.just("now"),
    ),
    max_size=2,
    unique_by=lambda secret: secret.key,
)
WANTED = st.lists(st.sampled_from(COPIES), unique=True)


@given(WANTED, st.booleans(), EXISTING, st.sampled_from(["copies", "keep", "namespaces"]))
def test_a_plan_carried_out_leaves_nothing_to_do(
    copies: list[Copy], missing: bool, existing: list[Secret], removal: str
) -> None:
    plan = planned(copies, existing=existing, missing=missing, removal=removal)
    assert is_idle(planned(copies, existing=after(plan, existing), missing=missing, removal=removal))


@given(WANTED, st.booleans(), EXISTING)
def test_objects_of_others_are_neither_written_nor_deleted(
    copies: list[Copy], missing: bool, existing: list[Secret]
) -> None:
    plan = planned(copies, existing=existing, missing=missing)
    touched = [*plan.delete, *(write.stands for write in plan.write if write.stands is not None)]
    assert all(OWNER.owns(secret.metadata.labels) for secret in touched)
