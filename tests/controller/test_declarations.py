"""What a controller writes without declaring it: refused in tests, one warning elsewhere."""

import logging
from typing import Any

import anyio
import pytest

from informers import APIResource, get_logger
from reconcile import Context, Controller, Object, ObjectMeta, Request, Write, kind_of
from reconcile.blocks import Autoscaler, Copier
from reconcile.controller.declared_writes import DeclaredWrites
from reconcile.errors import UndeclaredWrite
from reconcile.kinds import ConfigMap, Deployment, Pod, Secret
from reconcile.manager.manager import Manager
from reconcile.manager.option_list import ConfigurationError, refuses_undeclared
from reconcile.testing import FakeClient, VirtualClock, assert_deterministic, run_once
from tests.helpers.managers import idle
from tests.helpers.scenarios import simulated

SOURCE = ConfigMap(metadata=ObjectMeta("source", "default"))
SCALE = ', subresource="scale"'
SCALES = [Write(Deployment, subresource="scale")]
PATCHES_ANY_SCALE = [Write(Object, "patch", subresource="scale")]
SECRET = Secret(metadata=ObjectMeta("made", "default"))


async def make_secret(ctx: Context[ConfigMap]) -> None:
    await ctx.client.create(SECRET)


def asked(controller: Controller[Any], *, refuse: bool = True) -> DeclaredWrites:
    return DeclaredWrites(controller, get_logger("reconcile.toy"), refuse)


def resource(kind: type[Object]) -> APIResource:
    return kind_of(kind).resource


# --- in tests --------------------------------------------------------------------------------------------


@pytest.mark.rule("declared-refused")
async def test_an_undeclared_write_fails_the_run_with_the_line_to_add_and_sends_nothing() -> None:
    client = FakeClient(SOURCE)
    done = await run_once(Controller(ConfigMap, make_secret, name="toy"), SOURCE, client)
    error = done.error
    assert isinstance(error, UndeclaredWrite)
    assert error.declare == 'Write(Secret, ("create",))'
    assert error.rule == '{apiGroups: [""], resources: ["secrets"], verbs: ["create"]}'
    assert str(error) == (
        "controller toy does not declare that it may create secrets: "
        f"add {error.declare} to its writes= (its children belong in owns=); the RBAC rule is {error.rule}"
    )
    assert done.undeclared == [error.declare]
    assert not done.retry
    assert client.transport.writes == []


@pytest.mark.rule("declared-refused")
async def test_a_declared_write_is_sent() -> None:
    controller = Controller(
        ConfigMap, make_secret, name="toy", writes=[Write(Secret, "create")], operator="example.com"
    )
    done = await run_once(controller, SOURCE, FakeClient(SOURCE))
    assert done.error is None
    assert done.writes == ["create secrets default/made"]
    assert done.undeclared == []


@pytest.mark.rule("declared-refused")
def test_a_manager_refuses_undeclared_writes_under_a_virtual_clock_and_warns_under_the_real_one() -> None:
    def refuses(**options: Any) -> bool:
        manager = Manager(environ=options.pop("environ", {}), **options)
        manager.configure()
        return refuses_undeclared(manager.options)

    assert refuses(clock=VirtualClock(0))
    assert not refuses()
    assert refuses(undeclared="refuse")
    assert not refuses(clock=VirtualClock(0), undeclared="warn")
    assert refuses(environ={"RECONCILE_UNDECLARED": "refuse"})
    with pytest.raises(ConfigurationError, match="expected one of warn, refuse, got 'allow'"):
        refuses(environ={"RECONCILE_UNDECLARED": "allow"})


@pytest.mark.rule("declared-refused")
async def test_assert_deterministic_refuses_undeclared_writes_too() -> None:
    with pytest.raises(UndeclaredWrite):
        await assert_deterministic(Controller(ConfigMap, make_secret), SOURCE, FakeClient(SOURCE))


# --- in a cluster -------------------------------------------------------------------------------------------


@pytest.mark.rule("declared-warned")
@simulated
async def test_a_manager_in_a_cluster_sends_an_undeclared_write_and_warns_once_per_kind_and_verb(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)

    async def churn(ctx: Context[ConfigMap]) -> None:
        secret = await ctx.client.create(SECRET)
        await ctx.client.raw.merge(secret, {"metadata": {"labels": {"a": "b"}}})
        await ctx.client.delete(secret)

    client = FakeClient(SOURCE)
    toys = Controller(ConfigMap, churn, name="toy")

    manager = Manager(toys, transport=client.transport, clock=client.clock, undeclared="warn", environ={})
    async with manager:
        await anyio.sleep(5)
        manager.trigger(toys, Request("default", "source"))
        await anyio.sleep(5)
    assert len(client.transport.writes) == 6
    told = [one for one in caplog.records if vars(one)["event"] == "a write is not declared"]
    assert [(one.verb, one.resource, one.declare) for one in told] == [  # type: ignore[attr-defined]
        ("create", "secrets", 'Write(Secret, ("create",))'),
        ("patch", "secrets", 'Write(Secret, ("patch",))'),
        ("delete", "secrets", 'Write(Secret, ("delete",))'),
    ]
    assert told[0].rule == '{apiGroups: [""], resources: ["secrets"], verbs: ["create"]}'  # type: ignore[attr-defined]


# --- what declares what -----------------------------------------------------------------------------------


@pytest.mark.rule("declared-refused")
@pytest.mark.parametrize(
    ("options", "method", "kind", "part", "lacking"),
    [
        ({}, "PATCH", ConfigMap, "", 'Write(ConfigMap, ("patch",))'),
        ({"cleanup": idle}, "PATCH", ConfigMap, "", ""),
        ({"owns": [Secret]}, "DELETE", Secret, "", ""),
        ({"owns": [Deployment]}, "PATCH", Deployment, "scale", f'Write(Deployment, ("patch",){SCALE})'),
        ({"writes": SCALES}, "PATCH", Deployment, "scale", ""),
        ({"writes": SCALES}, "PUT", Deployment, "", 'Write(Deployment, ("update",))'),
        ({"writes": PATCHES_ANY_SCALE}, "PATCH", Deployment, "scale", ""),
        ({"writes": PATCHES_ANY_SCALE}, "PUT", Deployment, "scale", f'Write(Deployment, ("update",){SCALE})'),
        ({"writes": PATCHES_ANY_SCALE}, "PATCH", Deployment, "", 'Write(Deployment, ("patch",))'),
        ({"writes": [Write(Pod, "create", subresource="eviction")]}, "POST", Pod, "eviction", ""),
    ],
)
def test_each_verb_and_subresource_must_be_declared_separately(
    options: dict[str, Any], method: str, kind: type[Object], part: str, lacking: str
) -> None:
    declarations = asked(Controller(ConfigMap, idle, operator="example.com", **options), refuse=False)
    declarations.check(method, resource(kind), part)
    assert declarations.missing == ([lacking] if lacking else [])


@pytest.mark.rule("declared-refused")
def test_events_need_no_declaration() -> None:
    events = APIResource("events.k8s.io", "v1", "Event", "events")
    for method in ("POST", "PATCH"):
        asked(Controller(ConfigMap, idle)).check(method, events, "")


def test_object_may_stand_for_any_kind_only_with_a_subresource() -> None:
    with pytest.raises(TypeError, match="Object is not a kind"):
        Write(Object)


def test_blocks_list_the_writes_to_declare_for_them() -> None:
    assert [write.kind for write in Copier(ConfigMap, lambda one: ()).writes] == [Secret]
    making = Copier(ConfigMap, lambda one: (), namespaces=lambda one: ["a"], removal=lambda one: "namespaces")
    assert making.writes[1].verbs == ("create", "delete")
    (scale,) = Autoscaler(lambda one: None).writes  # type: ignore[arg-type, return-value, var-annotated]
    assert (scale.kind, scale.subresource) == (Object, "scale")
