"""What models declare secret never comes out: not by logs, events, traces, /debug/state or a life."""

import io
import json
from collections.abc import Mapping
from typing import Annotated

import anyio
import msgspec
import pytest
from attrs import frozen
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import CollectorRegistry

from informers import APIResource
from reconcile import Background, Context, Controller, Object, ObjectMeta, field, resource
from reconcile.client.redaction import HIDDEN, SecretValues
from reconcile.kinds import Event
from reconcile.models import Schema, definition_of
from tests.helpers.lives import lives_of
from tests.helpers.managers import World, idle, played
from tests.helpers.scenarios import in_world

COPY = "kubectl.kubernetes.io/last-applied-configuration"


@frozen
class Member:
    name: str = ""
    password: str = field(default="", secret=True)


@frozen
class AccountSpec:
    code: Annotated[str, Schema(pattern="^[a-z-]*$")] = field(default="", secret=True)
    members: Mapping[str, Member] = field(factory=dict)


@resource("accounts.example.com/v1")
class Account(Object):
    """Has fields that its class declares secret, whose values the server quotes where they do not fit."""

    spec: AccountSpec = AccountSpec()


@in_world(played)
async def test_fields_that_a_class_declares_secret_are_shown_nowhere_although_the_server_quotes_them(
    world: World,
    everything_logged: io.StringIO,
    traced: tuple[InMemorySpanExporter, TracerProvider],
) -> None:
    exporter, provider = traced
    code, member, refused = "the-code", "of-a-member", "Refused By The Server"

    async def leak(ctx: Context[Account]) -> None:
        spec = ctx.object.spec
        ctx.event("Leaked", f"it is {spec.code}")
        ctx.log.info("read", code=spec.code, members=dict(spec.members))
        if not ctx.attempt:
            raise ValueError(f"{spec.code} does not fit {spec.members['one'].password}")
        await ctx.client.raw.merge(ctx.object, {"spec": {"code": refused}})

    controller = Controller(Account, leak, writes=[Account])
    registry = CollectorRegistry()
    await world.client.apply(definition_of(Account))
    async with world.running(controller, metrics=registry, traces=provider) as manager:
        spec = AccountSpec(code, {"one": Member("first", member)})
        await world.client.create(Account(metadata=ObjectMeta("leaky", "default"), spec=spec))
        await anyio.sleep(10)
        state = msgspec.json.encode(manager.state()).decode()
        life = json.dumps(lives_of(manager, world).life_of("account", "default/leaky"))
        events = [event.message for event in await world.client.list(Event, "default")]
        metrics = repr(list(registry.collect()))
    spans = [span.to_json() for span in exporter.get_finished_spans()]
    logs = everything_logged.getvalue()
    assert f"ValueError: {HIDDEN} does not fit {HIDDEN}" in logs
    assert f'Invalid value: "{HIDDEN}"' in logs.replace("\\", "")
    assert f"it is {HIDDEN}" in events
    for place in (logs, state, metrics, life, *events, *spans):
        assert [planted for planted in (code, member, refused) if planted in place] == []


ACCOUNTS = APIResource("accounts.example.com", "v1", "Account", "accounts")
DECLARED = {
    ACCOUNTS: [("spec", "code"), ("spec", "members", "password"), ("spec", "members", "*", "password")]
}


@pytest.mark.parametrize(
    ("body", "hidden"),
    [
        ({"spec": {"code": "secret-code", "other": "shown"}}, {"secret-code"}),
        ({"spec": {"members": {"one": {"name": "shown", "password": "of-one"}}}}, {"of-one"}),
        ({"spec": {"members": [{"name": "shown", "password": "of-one"}]}}, {"of-one"}),
        ({"spec": {"code": {"nested": ["in-a-list", 17]}}}, {"in-a-list"}),
        ({"spec": "no object"}, set()),
        ([{"op": "replace", "path": "/spec/code", "value": "patched"}], {"patched"}),
        ([{"op": "add", "path": "/spec/members/one/password", "value": "patched"}], {"patched"}),
        ([{"op": "add", "path": "/spec", "value": {"code": "patched", "other": "shown"}}], {"patched"}),
        ([{"op": "add", "path": "/metadata/finalizers", "value": ["shown.example.com/a"]}], set()),
        ([{"op": "remove", "path": "/spec/code"}, "no step"], set()),
        ([{"op": "add", "path": "no pointer", "value": {"spec": {"code": "patched"}}}], {"patched"}),
        ({"metadata": {"annotations": {COPY: '{"spec":{"code":"former"}}', "a": "shown"}}}, {"former"}),
        ({"metadata": {"annotations": {COPY: "damaged"}}}, set()),
    ],
)
def test_values_of_declared_fields_are_found_in_objects_patches_and_copies(
    body: object, hidden: set[str]
) -> None:
    values = SecretValues(DECLARED)
    values.add(ACCOUNTS, json.dumps(body).encode())
    values.add(APIResource("", "v1", "ConfigMap", "configmaps"), json.dumps(body).encode())
    assert values.plain() == hidden
    assert bool(values) == bool(hidden)


def test_an_object_that_is_read_again_is_remembered_once_and_one_nested_too_deeply_not_at_all() -> None:
    values = SecretValues(DECLARED)
    for _ in range(3):
        values.add(ACCOUNTS, b'{"spec":{"code":"secret-code"}}')
    assert len(values.bodies) == 1
    values.add(ACCOUNTS, b'{"spec":' + b"[" * 100_000 + b"]" * 100_000 + b"}")
    assert len(values.bodies) == 1


@in_world(played)
async def test_background_tasks_hide_the_values_of_their_objects(
    world: World, everything_logged: io.StringIO
) -> None:
    async def follow(given: Background[Account]) -> None:
        account = given.object
        assert account is not None
        given.log.info(f"connecting as {account.spec.code}")
        await anyio.sleep(1)
        raise ConnectionError(f"postgres://u:{account.spec.code}@db")

    await world.client.apply(definition_of(Account))
    async with world.running(Controller(Account, idle, background=follow)):
        await world.client.create(
            Account(metadata=ObjectMeta("a", "default"), spec=AccountSpec("open-sesame"))
        )
        await anyio.sleep(5)
    logs = everything_logged.getvalue()
    assert f"connecting as {HIDDEN}" in logs
    assert f"postgres://u:{HIDDEN}@db" in logs
    assert "open-sesame" not in logs
