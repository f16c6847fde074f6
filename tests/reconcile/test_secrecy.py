"""What Secrets hold never comes out: not by logs, events, metrics, traces, causes or /debug/state."""

import base64
import contextlib
import io
import json
import logging
from typing import Any

import anyio
import msgspec
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import CollectorRegistry

from informers import Resource
from reconcile import Cause, Context, Controller, ObjectMeta
from reconcile.commands.logs import configure_logs
from reconcile.kinds import Event, Secret
from reconcile.redaction import HIDDEN, SecretValues
from tests.reconcile.test_manager import Toy, World, played

PASSWORD = "correct-horse-battery"
NESTED = "staple-in-a-docker-config"
KEY_LINE = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC"
NEW = "made-up-by-the-reconciler"
SECRETS = Resource("", "v1", "Secret", "secrets")


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


DOCKER = json.dumps({"auths": {"registry": {"password": NESTED}}})
PEM = f"-----BEGIN PRIVATE KEY-----\n{KEY_LINE}\n-----END PRIVATE KEY-----\n"
PLANTED = (PASSWORD, NESTED, KEY_LINE, NEW, *map(encoded, (PASSWORD, DOCKER, PEM, NEW)))


@pytest.fixture
def everything_logged() -> Any:
    root, stream = logging.getLogger(), io.StringIO()
    handlers, level = list(root.handlers), root.level
    configure_logs(stream, pretty=False, verbose=True)
    yield stream
    root.handlers[:] = handlers
    root.setLevel(level)
    for name in ("reconcile", "informers", "workqueue", "asyncio", "aiohttp.access"):
        logging.getLogger(name).setLevel(logging.NOTSET)


@pytest.mark.parametrize("cached", [True, False])
def test_secrets_that_end_up_in_errors_causes_lines_and_events_are_shown_nowhere(
    cached: bool, everything_logged: io.StringIO
) -> None:
    controller: Controller[Any]
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))

    async def leak(ctx: Context[Toy]) -> None:
        secret = await ctx.client.get(Secret, "planted", "default") if cached else None
        if secret is None:
            (secret,) = await ctx.client.list(Secret, "default", live=True)
        values = [base64.b64decode(value).decode() for value in secret.data.values()]
        ctx.event("Leaked", f"it is {values[0]}")
        ctx.log.info(f"read {values[0]}", one=values[1], all=values, secret=dict(secret.data), exc_info=False)
        if ctx.attempt == 0:
            controller.trigger(ctx.object, f"because of {values[0]}")
            controller.trigger(ctx.object, Cause("triggered", note=f"and of {secret.data['tls.key']}"))
        await ctx.run_sync(lambda: ctx.log.info("in a thread", value=values[2]))
        with contextlib.suppress(LookupError):
            await tell_and_fail(ctx, values)
        try:
            made = Secret(metadata=ObjectMeta("Not A Name", "default"), data={"new": encoded(NEW)})
            await ctx.client.create(made)
        except Exception as refusal:
            raise ValueError(f"{values} {dict(secret.data)} {PEM} {NEW} {encoded(NEW)}") from refusal

    async def tell_and_fail(ctx: Context[Toy], values: list[str]) -> None:
        try:
            raise LookupError(f"no {values[0]} in {values}")
        except LookupError:
            ctx.log.exception("not found")
            raise

    async def scenario(world: World) -> None:
        nonlocal controller
        controller = Controller(Toy, leak, owns=[Secret] if cached else [], writes=[Secret])
        data = {"password": PASSWORD, ".dockerconfigjson": DOCKER, "tls.key": PEM}
        await world.client.create(
            Secret(
                metadata=ObjectMeta("planted", "default"),
                data={name: encoded(value) for name, value in data.items()},
            )
        )
        registry = CollectorRegistry()
        async with world.running(controller, metrics=registry, traces=provider) as manager:
            await world.make("leaky")
            await anyio.sleep(10)
            state = msgspec.json.encode(manager.state()).decode()
            events = [event.message for event in await world.client.list(Event, "default")]
            metrics = repr(list(registry.collect()))
        spans = [span.to_json() for span in exporter.get_finished_spans()]
        logs = everything_logged.getvalue()
        assert "ValueError" in logs
        assert "Traceback" in logs
        assert HIDDEN in logs
        assert f"it is {HIDDEN}" in events
        assert "ValueError" in state
        assert HIDDEN in state
        assert f"because of {HIDDEN}" in state + "".join(spans)
        assert any("reconcile toy" in span and HIDDEN in span for span in spans)
        assert '"event": "in a thread"' in logs
        for place in (logs, state, metrics, *events, *spans):
            assert [planted for planted in PLANTED if planted in place] == []

    played(scenario)


def test_values_of_a_patch_and_of_string_data_are_known_and_short_ones_left_alone() -> None:
    values = SecretValues()
    values.saw(SECRETS, b'{"metadata":{"name":"shown"},"stringData":{"a":"plain-text","b":"no"}}')
    values.saw(SECRETS, b'[{"op":"add","path":"/data/a","value":"' + encoded("patched").encode() + b'"}]')
    text = f"plain-text {encoded('plain-text')} patched {encoded('patched')} shown no"
    assert values.redact(text) == " ".join([HIDDEN] * 4) + " shown no"


def test_bodies_of_other_kinds_are_not_kept() -> None:
    values = SecretValues()
    values.saw(Resource("", "v1", "ConfigMap", "configmaps"), b'{"data":{"a":"visible"}}')
    assert values.redact("visible") == "visible"
