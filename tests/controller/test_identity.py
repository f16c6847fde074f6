"""The names that a controller has in a cluster: its own, and none of another operator."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from informers import Key
from reconcile import Context, Controller, Intent, Manager, Object, ObjectMeta, Write, resource
from reconcile.client.former_managers import has_applied, joined, renamed
from reconcile.errors import OwnedByOther
from reconcile.kinds import ConfigMap, Pod, Secret
from reconcile.models import encode, kind_of
from reconcile.testing import Apply, Delete, FakeClient, Scenario, run_once, sweep
from tests.helpers.managers import Toy, World, idle, played
from tests.helpers.scenarios import in_world

MAP = ConfigMap(metadata=ObjectMeta("map", "default"), data={"a": "1"})


class Cleanups:
    """Two operators, each of which cleans up after ConfigMaps; who did, in order."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def of(self, operator: str, **options: Any) -> Controller[ConfigMap]:
        async def cleanup(ctx: Context[ConfigMap]) -> None:
            self.done.append(operator)

        return Controller(ConfigMap, idle, cleanup=cleanup, operator=operator, **options)


async def stored(client: FakeClient) -> dict[str, Any]:
    return encode(await client.get(ConfigMap, "map", "default"))


# --- finalizers -----------------------------------------------------------------------------------


@pytest.mark.rule("identity-finalizer")
async def test_two_operators_on_one_kind_both_clean_up_before_an_object_is_removed() -> None:
    client, cleanups = FakeClient(MAP), Cleanups()
    operators = [cleanups.of("one.example.com"), cleanups.of("two.example.com")]
    for controller in operators:
        await run_once(controller, MAP, client)
    await client.delete(await client.get(ConfigMap, "map", "default"))
    for controller in operators:
        await run_once(controller, MAP, client)
    assert cleanups.done == ["one.example.com", "two.example.com"]
    assert await client.find(ConfigMap, "map", "default") is None


@pytest.mark.rule("identity-finalizer")
def test_default_names_are_those_of_the_operator_and_the_controller() -> None:
    toys = Controller(Toy, idle, cleanup=idle)
    assert (toys.operator, toys.finalizer, toys.field_manager) == (
        "toys.example.com",
        "toys.example.com/toy",
        "toys.example.com/toy",
    )
    own = Controller(Toy, idle, cleanup=idle, operator="shop.example.com", name="stock")
    assert (own.finalizer, own.field_manager) == ("shop.example.com/stock", "shop.example.com/stock")
    given = Controller(Pod, idle, cleanup=idle, finalizer="a.example.com/pods", field_manager="pods of a")
    assert (given.finalizer, given.field_manager) == ("a.example.com/pods", "pods of a")
    assert Controller(Toy, idle).finalizer == ""
    assert Controller(Pod, idle).field_manager == "pod"  # declares no write


@resource("gateway.networking.k8s.io/v1")
class Gateway(Object):
    """A kind of a group that many operators share."""


@pytest.mark.rule("identity-finalizer")
@pytest.mark.parametrize("kind", [ConfigMap, Gateway])
@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"cleanup": idle}, "finalizer"),
        ({"owns": [Secret]}, "field manager"),
        ({"writes": [Write(Secret)]}, "field manager"),
        ({"cleanup": idle, "field_manager": "me"}, "finalizer"),
        ({"cleanup": idle, "finalizer": "me.example.com/a"}, "field manager"),
    ],
)
def test_a_controller_of_a_kind_without_an_operators_domain_must_name_its_operator(
    kind: type[Any], options: dict[str, Any], what: str
) -> None:
    expected = (
        rf"Controller\({kind.__name__}, name='.*'\): .* the same {what}: give operator=, a domain of yours"
    )
    with pytest.raises(ValueError, match=expected):
        Controller(kind, idle, **options)
    Controller(kind, idle, **options, operator="shop.example.com")


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"name": "a/b"}, "name='a/b' of a controller: expected at most 63 letters"),
        ({"name": "a" * 64}, "expected at most 63 letters"),
        ({"name": "-a"}, "a letter or a digit first and last"),
        ({"operator": "shop"}, "operator='shop': expected a domain"),
        ({"operator": "Shop.example.com"}, "in lower case"),
        ({"operator": "shop..example.com"}, "expected a domain"),
        ({"operator": "a." * 127 + "com"}, "expected a domain"),
        ({"finalizer": "site"}, "finalizer='site': expected a domain, '/' and a name"),
        ({"finalizer": "a.com/b/c"}, "expected a domain, '/' and a name"),
        ({"finalizer": "a.com/" + "b" * 64}, "at most 63 letters"),
        ({"finalizer": "a.com/b\n"}, "expected a domain, '/' and a name"),
        ({"field_manager": "a" * 122}, "expected at most 121 characters, got 122"),
        ({"field_manager": "a\nb"}, r"field manager 'a\\nb': expected 1 to 128 printable characters"),
        ({"operator": "a." * 60 + "com"}, "expected at most 121 characters, got 127"),
        ({"former_field_managers": "a" * 129}, "expected 1 to 128 printable characters, got 129"),
        ({"former_field_managers": [""]}, "expected 1 to 128 printable characters, got 0"),
        ({"former_finalizers": "foregroundDeletion"}, "'foregroundDeletion' belongs to Kubernetes"),
        ({"former_finalizers": ["a b"]}, "'a b' is not the name of a finalizer"),
        ({"former_finalizers": ["toys.example.com/toy"]}, "'toys.example.com/toy' is the present name"),
        ({"former_field_managers": ["toys.example.com/toy"]}, "'toys.example.com/toy' is the present name"),
    ],
)
def test_names_that_a_server_would_refuse_are_refused_on_construction(
    options: dict[str, Any], fault: str
) -> None:
    with pytest.raises(ValueError, match=fault):
        Controller(Toy, idle, cleanup=idle, **options)


def test_a_finalizer_without_a_cleanup_is_a_mistake() -> None:
    with pytest.raises(TypeError, match="finalizer= names what cleanup= adds"):
        Controller(Toy, idle, finalizer="toys.example.com/a")


def test_field_managers_of_clients_and_managers_are_checked_too() -> None:
    with pytest.raises(ValueError, match="expected 1 to 128 printable characters"):
        Manager(name="a\tb")
    with pytest.raises(ValueError, match="expected 1 to 128 printable characters"):
        FakeClient().with_options(field_manager="")
    with pytest.raises(ValueError, match="RECONCILE_NAME: field manager"):
        Manager(environ={"RECONCILE_NAME": "a" * 200}).configure()


@pytest.mark.parametrize(
    ("first", "second", "fault"),
    [
        ({"name": "a"}, {"name": "a"}, "two controllers are named 'a'"),
        (
            {"name": "a", "field_manager": "x"},
            {"name": "b", "field_manager": "x"},
            "controllers a and b have the field manager 'x'",
        ),
        (
            {"name": "a"},
            {"name": "b", "former_field_managers": "toys.example.com/a"},
            "controllers a and b have the field manager 'toys.example.com/a'",
        ),
        (
            {"name": "a", "finalizer": "x.com/a", "cleanup": idle},
            {"name": "b", "finalizer": "x.com/a", "cleanup": idle},
            "controllers a and b have the finalizer 'x.com/a' on toys",
        ),
        (
            {"name": "a", "cleanup": idle},
            {"name": "b", "former_finalizers": "toys.example.com/a"},
            "controllers a and b have the finalizer 'toys.example.com/a'",
        ),
    ],
)
@in_world(played)
async def test_the_controllers_of_a_manager_have_distinct_names(
    world: World, first: dict[str, Any], second: dict[str, Any], fault: str
) -> None:
    with pytest.raises(ValueError, match=fault):
        Manager(Controller(Toy, idle, **first), Controller(Toy, idle, **second))
    async with world.running(Controller(Toy, idle, **first)) as manager:
        with pytest.raises(ValueError, match=fault):
            await manager.add(Controller(Toy, idle, **second))


# --- former finalizers ----------------------------------------------------------------------------

HELD = MAP.with_metadata(finalizers=("core/configmap", "other.example.com/x"))


@pytest.mark.rule("identity-former-finalizer")
async def test_a_live_object_gets_the_new_finalizer_in_place_of_the_former_in_one_write() -> None:
    client, cleanups = FakeClient(HELD), Cleanups()
    controller = cleanups.of("one.example.com", former_finalizers="core/configmap")
    assert (await run_once(controller, HELD, client)).writes == ["patch configmaps default/map"]
    finalizers = (await stored(client))["metadata"]["finalizers"]
    assert finalizers == ["other.example.com/x", "one.example.com/configmap"]
    assert (await run_once(controller, HELD, client)).writes == []


@pytest.mark.rule("identity-former-finalizer")
async def test_an_object_held_by_a_former_finalizer_is_cleaned_up_and_released() -> None:
    client, cleanups = FakeClient(HELD), Cleanups()
    await client.delete(await client.get(ConfigMap, "map", "default"))
    controller = cleanups.of("one.example.com", former_finalizers="core/configmap")
    await run_once(controller, HELD, client)
    assert cleanups.done == ["one.example.com"]
    assert (await stored(client))["metadata"]["finalizers"] == ["other.example.com/x"]
    await run_once(controller, HELD, client)
    assert cleanups.done == ["one.example.com"]


@pytest.mark.rule("identity-former-finalizer")
@pytest.mark.parametrize("going", [False, True])
@pytest.mark.parametrize("options", [{}, {"on_terminating": idle}], ids=["plain", "on_terminating"])
async def test_a_controller_without_cleanup_releases_the_objects_that_it_held(
    going: bool, options: dict[str, Any]
) -> None:
    client = FakeClient(HELD)
    if going:
        await client.delete(await client.get(ConfigMap, "map", "default"))
    controller = Controller(ConfigMap, idle, former_finalizers="core/configmap", **options)
    done = await run_once(controller, HELD, client)
    assert (done.writes, done.undeclared) == (["patch configmaps default/map"], [])
    assert (await stored(client))["metadata"]["finalizers"] == ["other.example.com/x"]
    assert (await run_once(controller, HELD, client)).writes == []


@pytest.mark.rule("identity-former-finalizer")
def test_an_upgrade_of_a_finalizer_survives_every_fault() -> None:
    held = {
        **encode(MAP),
        "metadata": {"name": "map", "namespace": "default", "finalizers": ["core/configmap"]},
    }

    def controllers() -> Controller[ConfigMap]:
        return Cleanups().of("one.example.com", former_finalizers="core/configmap")

    sweep(Scenario(controllers=controllers, steps=[Apply(held), Delete(MAP)]))


# --- field managers -------------------------------------------------------------------------------


async def applied(client: FakeClient, controller: Controller[Toy], toy: Toy) -> Mapping[str, Any]:
    done = await run_once(controller, toy, client)
    assert done.error is None
    found = await client.get(ConfigMap, "shared", "default")
    return found.data


TOY = Toy(metadata=ObjectMeta("toy", "default"))


def keeping(
    operator: str, former: str = "", *, unforced: tuple[str, ...] = (), **data: str
) -> Controller[Toy]:
    """Applies these data to a ConfigMap under that field manager."""

    async def keep(ctx: Context[Toy]) -> None:
        child = Intent(ConfigMap, metadata=ObjectMeta("shared"), data=data)
        await ctx.apply(child, unforced=unforced)

    given = {"former_field_managers": former} if former else {}
    return Controller(Toy, keep, owns=[ConfigMap], operator=operator, **given)


@pytest.mark.rule("identity-field-manager")
async def test_two_operators_with_controllers_of_one_name_drop_none_of_each_others_fields() -> None:
    client = FakeClient(TOY)
    one, two = keeping("one.example.com", a="1"), keeping("two.example.com", b="2")
    await run_once(one, TOY, client)
    await run_once(two, TOY, client)
    assert await applied(client, keeping("one.example.com", a="3"), TOY) == {"a": "3", "b": "2"}


@pytest.mark.rule("identity-former-manager")
@pytest.mark.parametrize("unforced", [(), (".data.a",), (".data.b",)])
async def test_fields_applied_under_a_former_name_can_be_dropped_under_the_new_one(
    unforced: tuple[str, ...],
) -> None:
    client = FakeClient(TOY)
    await run_once(keeping("old.example.com", a="1", b="2"), TOY, client)
    now = keeping("new.example.com", "old.example.com/toy", unforced=unforced, a="3")
    assert await applied(client, now, TOY) == {"a": "3"}
    entries = await client.raw.managed_fields(kind_of(ConfigMap).resource, Key("default", "shared"))
    assert [(one["manager"], one["operation"]) for one in entries] == [("new.example.com/toy", "Apply")]
    assert (await run_once(now, TOY, client)).error is None


@pytest.mark.rule("identity-former-manager")
async def test_fields_of_others_keep_their_owner_when_a_field_manager_is_renamed() -> None:
    client = FakeClient(TOY)
    await run_once(keeping("old.example.com", a="1", b="2"), TOY, client)
    other = client.with_options(field_manager="other")
    child = ObjectMeta("shared", "default")
    await other.apply(Intent(ConfigMap, metadata=child, data={"c": "9"}))
    now = keeping("new.example.com", "old.example.com/toy", a="1")
    assert await applied(client, now, TOY) == {"a": "1", "c": "9"}
    with pytest.raises(OwnedByOther):
        await other.apply(Intent(ConfigMap, metadata=child, data={"a": "9"}), force=False)


@pytest.mark.rule("identity-former-manager")
async def test_a_rename_costs_one_read_and_two_writes_for_each_object_once() -> None:
    client = FakeClient(TOY)
    await run_once(keeping("old.example.com", a="1", b="2"), TOY, client)
    now = keeping("new.example.com", "old.example.com/toy", a="1")
    apply, patch = "apply configmaps default/shared", "patch configmaps default/shared"
    assert (await run_once(now, TOY, client)).writes == [apply, patch, apply]
    assert (await run_once(now, TOY, client)).writes in ([], [apply])


def test_a_rename_survives_every_fault() -> None:
    def controllers() -> Controller[Toy]:
        return keeping("new.example.com", "old.example.com/toy", a="1")

    sweep(Scenario(controllers=controllers, steps=[Apply(TOY)]))


FIELDS = st.recursive(
    st.just({}),
    lambda inner: st.dictionaries(st.sampled_from(["f:a", "f:b", ".", "k:{}"]), inner, max_size=3),
)
ENTRIES = st.lists(
    st.fixed_dictionaries(
        {
            "manager": st.sampled_from(["old", "older", "new", "other"]),
            "operation": st.sampled_from(["Apply", "Update"]),
            "apiVersion": st.sampled_from(["v1", "v2"]),
            "subresource": st.sampled_from(["", "status"]),
            "fieldsV1": FIELDS,
        }
    ),
    unique_by=lambda entry: (
        entry["manager"],
        entry["operation"],
        entry["subresource"],
        entry["apiVersion"] if entry["operation"] == "Update" else "",
    ),
)


def paths(fields: Mapping[str, Any], above: tuple[str, ...] = ()) -> set[tuple[str, ...]]:
    return {above}.union(*(paths(inner, (*above, name)) for name, inner in fields.items()))


def owned(entries: Sequence[Any], part: tuple[str, str], *managers: str) -> set[tuple[str, ...]]:
    """The fields that these managers own by that operation in that subresource."""
    found: set[tuple[str, ...]] = set()
    for entry in entries:
        if entry["manager"] in managers and (entry["operation"], entry["subresource"]) == part:
            found |= paths(entry["fieldsV1"])
    return found


@given(ENTRIES)
def test_a_rename_loses_no_field_and_touches_no_other_manager(entries: list[dict[str, Any]]) -> None:
    after = renamed(entries, ("old", "older"), "new")
    assert {entry["manager"] for entry in after} <= {"new", "other"}
    assert not has_applied(after, ("old", "older"), "")
    for part in itertools.product(("Apply", "Update"), ("", "status")):
        assert owned(after, part, "new") == owned(entries, part, "old", "older", "new")
        assert owned(after, part, "other") == owned(entries, part, "other")
    appliers = [(one["manager"], one["subresource"]) for one in after if one["operation"] == "Apply"]
    assert len(appliers) == len(set(appliers))
    assert renamed(after, ("old", "older"), "new") == after


@given(FIELDS, FIELDS)
def test_joined_field_sets_have_the_fields_of_both(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert paths(joined(one, other)) == paths(one) | paths(other)
