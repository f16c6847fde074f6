"""Owner references: set once, by whom they may be, and never over another controller's."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from informers import AlreadyExists, Invalid
from reconcile import Context, Controller, Intent, ObjectMeta, OwnerReference
from reconcile.kinds import ConfigMap, Namespace, Secret
from reconcile.owners import AlreadyOwned, can_own, controller_of, is_owned, with_owner, without_owner
from reconcile.testing import FakeClient, run_once
from tests.helpers.managers import Toy

OWNER = ConfigMap(metadata=ObjectMeta("owner", "default", uid="u1"))
CHILD = Secret(metadata=ObjectMeta("child", "default"))
WIDE = Namespace(metadata=ObjectMeta("wide", uid="u2"))

REFERENCES = st.lists(
    st.builds(
        OwnerReference,
        api_version=st.sampled_from(["v1", "v2", "apps/v1"]),
        kind=st.sampled_from(["ConfigMap", "Deployment"]),
        name=st.sampled_from(["owner", "other"]),
        uid=st.sampled_from(["u0", "u1", "u9"]),
    ),
    max_size=4,
).map(tuple)


def names_owner(one: OwnerReference) -> bool:
    return (one.api_version in ("v1", "v2"), one.kind, one.name) == (True, "ConfigMap", "owner")


@pytest.mark.rule("K8")
@given(REFERENCES, st.booleans())
def test_an_owner_is_set_once_and_references_of_others_are_untouched(
    present: tuple[OwnerReference, ...], controller: bool
) -> None:
    owned = with_owner(CHILD.with_metadata(owner_references=present), OWNER, controller=controller)
    assert with_owner(owned, OWNER, controller=controller) == owned
    mine = [one for one in owned.metadata.owner_references if names_owner(one)]
    assert [(one.uid, one.api_version) for one in mine] == [("u1", "v1")]
    assert is_owned(owned, OWNER)
    others = [one for one in dict.fromkeys(present) if not names_owner(one)]
    assert list(without_owner(owned, OWNER).metadata.owner_references) == others
    assert not is_owned(without_owner(CHILD, OWNER), OWNER)


@pytest.mark.rule("owner-1")
@pytest.mark.parametrize(
    ("owner", "child", "may"),
    [
        (OWNER, CHILD, True),
        (OWNER, CHILD.with_metadata(namespace="elsewhere"), False),
        (OWNER, Namespace(metadata=ObjectMeta("n")), False),
        (WIDE, CHILD, True),
        (WIDE, Namespace(metadata=ObjectMeta("n")), True),
    ],
)
def test_an_owner_of_another_namespace_is_refused(owner: ConfigMap, child: Secret, may: bool) -> None:
    assert can_own(owner, child) is may
    if may:
        assert is_owned(with_owner(child, owner), owner)
    else:
        said = re.escape(
            f"ConfigMap 'default/owner' cannot own {type(child).__name__} {str(child.key)!r}: "
            "owners with a namespace own objects of that namespace alone"
        )
        with pytest.raises(ValueError, match=f"^{said}$"):
            with_owner(child, owner)


@pytest.mark.rule("owner-1")
def test_an_owner_that_was_not_read_is_refused() -> None:
    with pytest.raises(ValueError, match="ConfigMap 'default/owner' was not read, so it cannot own anything"):
        with_owner(CHILD, OWNER.with_metadata(uid=""))


@pytest.mark.rule("owner-2")
def test_a_controller_reference_does_not_replace_another() -> None:
    first = with_owner(CHILD, OWNER, controller=True)
    assert controller_of(CHILD) is None
    assert controller_of(first) == first.metadata.owner_references[0]
    with pytest.raises(
        AlreadyOwned, match="Secret 'default/child' is controlled by ConfigMap 'owner' already"
    ) as refusal:
        with_owner(first, WIDE, controller=True)
    assert refusal.value.owner == controller_of(first)
    assert [one.controller for one in with_owner(first, WIDE).metadata.owner_references] == [True, None]


@pytest.mark.rule("K8")
def test_an_owner_of_the_same_name_in_another_group_is_a_different_owner() -> None:
    toy = Toy(metadata=ObjectMeta("owner", "default", uid="u1"))
    present = [
        OwnerReference(f"{group}/v2", "Toy", "owner", "u0")
        for group in ("toys.example.com", "toys.example.org")
    ]
    owned = with_owner(CHILD.with_metadata(owner_references=tuple(present)), toy)
    assert [one.api_version for one in owned.metadata.owner_references] == [
        "toys.example.com/v1",
        "toys.example.org/v2",
    ]
    assert without_owner(owned, toy).metadata.owner_references == (present[1],)


@pytest.mark.rule("owner-3")
def test_a_controlling_owner_blocks_foreground_deletion_and_any_other_owner_does_not() -> None:
    (reference,) = with_owner(CHILD, OWNER, controller=True).metadata.owner_references
    assert (reference.controller, reference.block_owner_deletion) == (True, True)
    (reference,) = with_owner(CHILD, OWNER).metadata.owner_references
    assert (reference.controller, reference.block_owner_deletion) == (None, None)


@pytest.mark.rule("owner-3")
def test_a_recreated_owner_owns_nothing_of_its_predecessor() -> None:
    assert not is_owned(with_owner(CHILD, OWNER), OWNER.with_metadata(uid="another"))
    assert not is_owned(CHILD, OWNER.with_metadata(uid=""))


@pytest.mark.rule("owner-2")
async def test_a_child_of_another_controller_is_taken_over_neither_by_intent_nor_by_force() -> None:
    other = ConfigMap(metadata=ObjectMeta("other", "default"))
    toy = Toy(metadata=ObjectMeta("toy", "default"))
    client = FakeClient(toy, other)
    theirs = with_owner(CHILD, await client.get(ConfigMap, "other", "default"), controller=True)
    client.add(theirs)

    async def steal(ctx: Context[Toy]) -> None:
        with pytest.raises(AlreadyOwned):
            await ctx.apply(Intent(Secret, metadata=theirs.metadata))
        with pytest.raises(Invalid, match="Only one reference can have Controller set to true"):
            await ctx.apply(Intent(Secret, metadata=ObjectMeta("child")))

    assert (await run_once(Controller(Toy, steal, owns=[Secret]), toy, client)).error is None
    child = await client.get(Secret, "child", "default")
    owner = controller_of(child)
    assert owner is not None
    assert owner.name == "other"


def claiming(adopt: bool) -> Controller[Toy]:
    async def keep(ctx: Context[Toy]) -> None:
        await ctx.apply(
            Intent(ConfigMap, metadata=ObjectMeta("c"), data={"by": ctx.object.name}), adopt=adopt
        )

    return Controller(Toy, keep, owns=[ConfigMap])


@pytest.mark.rule("owner-4")
async def test_an_object_without_a_controller_is_adopted_unless_adoption_is_disabled() -> None:
    toy = Toy(metadata=ObjectMeta("a", "default"))
    client = FakeClient(toy, ConfigMap(metadata=ObjectMeta("c", "default"), data={"by": "somebody"}))
    done = await run_once(claiming(adopt=False), toy, client)
    assert isinstance(done.error, AlreadyExists)
    assert "ConfigMap 'default/c' is there, and is not controlled by Toy 'default/a'" in str(done.error)
    assert done.writes == []
    assert (await run_once(claiming(adopt=True), toy, client)).error is None
    assert (await client.get(ConfigMap, "c", "default")).data == {"by": "a"}


@pytest.mark.rule("owner-4")
async def test_without_adoption_an_own_child_is_created_and_kept() -> None:
    toy, other = (Toy(metadata=ObjectMeta(name, "default")) for name in "ab")
    client = FakeClient(toy, other)
    assert (await run_once(claiming(adopt=False), toy, client)).writes == ["apply configmaps default/c"]
    child = await client.get(ConfigMap, "c", "default")
    await client.raw.merge(child, {"data": {"by": "somebody"}})
    assert (await run_once(claiming(adopt=False), toy, client)).writes == ["apply configmaps default/c"]
    assert isinstance((await run_once(claiming(adopt=False), other, client)).error, AlreadyExists)


@pytest.mark.rule("owner-4")
async def test_adoption_cannot_be_disabled_for_an_object_that_cannot_be_owned() -> None:
    async def keep(ctx: Context[Toy]) -> None:
        await ctx.apply(Intent(ConfigMap, metadata=ObjectMeta("c", "kube-system"), data={}), adopt=False)

    toy = Toy(metadata=ObjectMeta("a", "default"))
    assert isinstance((await run_once(Controller(Toy, keep), toy, FakeClient(toy))).error, ValueError)
