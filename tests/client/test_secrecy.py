"""What Secrets hold never comes out: not by logs, events, metrics, traces, causes, /debug/state or a life."""

import base64
import contextlib
import io
import json
import logging
from collections.abc import Iterator
from traceback import format_exception
from typing import Any
from urllib.parse import quote, quote_plus, unquote_plus

import anyio
import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import CollectorRegistry

from informers import APIResource
from informers.credentials import Proof
from informers.exec_plugin import Plugin
from reconcile import (
    Cause,
    Context,
    Controller,
    Intent,
    Manager,
    ObjectMeta,
    Watch,
)
from reconcile.client.redaction import HIDDEN, SecretValues, is_sensitive, redact_event, redacted, seen
from reconcile.kinds import ConfigMap, Event, Secret
from reconcile.ops.debug_actions import DebugActions
from reconcile.status.life_form import read_life
from reconcile.status.life_html import html_of
from reconcile.status.life_trace import trace_of
from tests.helpers.lives import lives_of
from tests.helpers.managers import Toy, World, idle, played
from tests.helpers.scenarios import in_world

PASSWORD = "correct-horse-battery"
NESTED = "staple-in-a-docker-config"
KEY_LINE = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC"
NEW = "made-up-by-the-reconciler"
SECRETS = APIResource("", "v1", "Secret", "secrets")


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


DOCKER = json.dumps({"auths": {"registry": {"password": NESTED}}})
PEM = f"-----BEGIN PRIVATE KEY-----\n{KEY_LINE}\n-----END PRIVATE KEY-----\n"
PLANTED = (PASSWORD, NESTED, KEY_LINE, NEW, *map(encoded, (PASSWORD, DOCKER, PEM, NEW)))


@pytest.mark.parametrize("cached", [True, False])
@in_world(played)
async def test_secrets_in_errors_causes_log_lines_and_events_are_shown_nowhere(
    world: World,
    cached: bool,
    everything_logged: io.StringIO,
    traced: tuple[InMemorySpanExporter, TracerProvider],
) -> None:
    managers: list[Manager] = []
    exporter, provider = traced

    async def leak(ctx: Context[Toy]) -> None:
        secret = await ctx.client.get(Secret, "planted", "default") if cached else None
        if secret is None:
            (secret,) = await ctx.client.list(Secret, "default", live=True)
        values = [base64.b64decode(value).decode() for value in secret.data.values()]
        ctx.event("Leaked", f"it is {values[0]}")
        ctx.log.info(f"read {values[0]}", one=values[1], all=values, secret=dict(secret.data), exc_info=False)
        if ctx.attempt == 0:
            managers[0].trigger("toy", ctx.object, f"because of {values[0]}")
            managers[0].trigger(
                "toy", ctx.object, Cause("triggered", note=f"and of {secret.data['tls.key']}")
            )
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
        managers.append(manager)
        await world.make("leaky")
        await anyio.sleep(10)
        state = msgspec.json.encode(manager.state()).decode()
        life = lives_of(manager, world).life_of("toy", "default/leaky")
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
    exports = (json.dumps(life), html_of(read_life(life)), json.dumps(trace_of(read_life(life))))
    assert all("ValueError" in export for export in exports)
    for place in (logs, state, metrics, *exports, *events, *spans):
        assert [planted for planted in PLANTED if planted in place] == []


def test_values_of_a_patch_and_of_string_data_are_hidden_and_short_ones_left_alone() -> None:
    values = SecretValues()
    values.add(SECRETS, b'{"metadata":{"name":"shown"},"stringData":{"a":"plain-text","b":"no"}}')
    values.add(SECRETS, b'[{"op":"add","path":"/data/a","value":"' + encoded("patched").encode() + b'"}]')
    text = f"plain-text {encoded('plain-text')} patched {encoded('patched')} shown no"
    assert values.redact(text) == " ".join([HIDDEN] * 4) + " shown no"


@pytest.mark.parametrize(
    "copy", ["kubectl.kubernetes.io/last-applied-configuration", "a.b/last-handled-configuration"]
)
def test_values_that_only_a_copy_in_an_annotation_still_has_are_hidden(copy: str) -> None:
    former = {"data": {"a": encoded("former")}, "metadata": {"labels": {"app": "shown"}}}
    annotations = {copy: json.dumps(former), "other": "visible"}
    values = SecretValues()
    values.add(SECRETS, json.dumps({"metadata": {"annotations": annotations}}).encode())
    assert values.redact(f"former {encoded('former')} visible shown") == f"{HIDDEN} {HIDDEN} visible shown"
    values.add(SECRETS, json.dumps({"metadata": {"annotations": {copy: "damaged"}}}).encode())
    assert values.redact("damaged") == HIDDEN


def test_bodies_of_other_kinds_are_not_kept() -> None:
    values = SecretValues()
    values.add(APIResource("", "v1", "ConfigMap", "configmaps"), b'{"data":{"a":"visible"}}')
    assert values.redact("visible") == "visible"


SERVICE_ACCOUNT = json.dumps(
    {"keys": [{"private_key": PEM, "note": 'quo"ted'}], "auth": encoded(PASSWORD)}, indent=1
)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("four", "four"),
        (f"{PASSWORD}\n", PASSWORD),
        (f"  {PASSWORD}\t", PASSWORD),
        (PEM, KEY_LINE),
        (PEM, repr(PEM)[1:-1]),
        ("tab\tand\\slash", repr("tab\tand\\slash")[1:-1]),
        ("esc\x1bape", "esc\\x1bape"),
        ('gr\u00fcn"blau', 'gr\u00fcn\\"blau'),
        ('quo"ted', json.dumps('quo"ted')[1:-1]),
        ("gr\u00fcn-blau", json.dumps("gr\u00fcn-blau")[1:-1]),
        ("gr\u00fcn-blau", repr("gr\u00fcn-blau".encode())[2:-1]),
        ("R&D <hunter2>", "R\\u0026D \\u003chunter2\\u003e"),
        ("R&D <hunter2>", "R\\\\u0026D \\\\u003chunter2\\\\u003e"),
        ("it's7secret", "it\\'s7secret"),
        (f"user:\n  password: {PASSWORD}", f"password: {PASSWORD}"),
        (SERVICE_ACCOUNT, KEY_LINE),
        (SERVICE_ACCOUNT, repr(PEM)[1:-1]),
        (SERVICE_ACCOUNT, json.dumps(json.loads(SERVICE_ACCOUNT)["keys"][0]["note"])[1:-1]),
        (SERVICE_ACCOUNT, PASSWORD),
        (f"\n {DOCKER}", NESTED),
        (f'["{NESTED}"]', NESTED),
        ('{"not": "json', '{"not": "json'),
        ("[" * 5000, "[" * 5000),
        (json.dumps(encoded(NESTED)), NESTED),
        (encoded(PASSWORD), encoded(encoded(PASSWORD))),
    ],
)
@pytest.mark.parametrize("how", ["base64", "text"])
def test_a_value_is_hidden_in_every_form_in_which_it_is_shown(how: str, value: str, shown: str) -> None:
    values = SecretValues()
    part = {"data": {"a": encoded(value)}} if how == "base64" else {"stringData": {"a": value}}
    values.add(SECRETS, json.dumps({"metadata": {"name": "of-no-interest"}, **part}).encode())
    assert values
    text = f"of-no-interest {shown} data {encoded(value)} {value}!"
    assert values.redact(text) == f"of-no-interest {HIDDEN} data {HIDDEN} {HIDDEN}!"


def test_no_part_is_decoded_of_a_value_that_is_not_base64_throughout() -> None:
    values = SecretValues()
    values.add(SECRETS, json.dumps({"stringData": {"a": f"!{encoded('innocent')}"}}).encode())
    assert values.redact("innocent") == "innocent"


def test_the_longest_value_is_hidden_first_so_that_no_part_of_it_remains() -> None:
    values = SecretValues()
    values.add(SECRETS, json.dumps({"stringData": {"a": "hors", "b": "horse-battery", "c": "tin"}}).encode())
    values.add(SECRETS, json.dumps({"stringData": {"a": "battery"}}).encode())
    assert values.redact("horse-battery, hors, battery, tin") == f"{HIDDEN}, {HIDDEN}, {HIDDEN}, tin"


@pytest.fixture
def a_run_that_saw() -> Iterator[SecretValues]:
    values = SecretValues()
    token = seen.set(values)
    yield values
    seen.reset(token)


def test_nothing_is_redacted_outside_of_runs_or_in_runs_that_read_no_secret(
    a_run_that_saw: SecretValues,
) -> None:
    event = {"event": PASSWORD, "exc_info": True}
    assert redacted(PASSWORD) == PASSWORD
    assert redact_event(None, "info", event) is event
    token = seen.set(None)
    assert redacted(PASSWORD) == PASSWORD
    assert redact_event(None, "info", event) is event
    seen.reset(token)
    a_run_that_saw.add(SECRETS, json.dumps({"data": {"a": encoded(PASSWORD)}}).encode())
    assert redacted(PASSWORD) == HIDDEN


def failing() -> Exception:
    try:
        raise LookupError(f"no {PASSWORD}")
    except LookupError as error:
        return error


def assert_veiled(error: BaseException) -> None:
    """It reads as the error did, with its traceback, and has no frames, whose variables hold secrets."""
    assert (type(error).__name__, str(error)) == ("LookupError", f"no {HIDDEN}")
    (note,) = error.__notes__
    assert note.startswith("Traceback (most recent call last):\n  File ")
    assert note.endswith(f"LookupError: no {HIDDEN}")
    assert (error.__traceback__, error.__cause__, error.__context__) == (None, None, None)
    text = "".join(format_exception(error))
    assert PASSWORD not in text
    assert "in failing\n" in text


@pytest.mark.rule("told-once")
@in_world(played)
async def test_the_recorded_error_of_a_failed_run_has_no_secret_not_even_in_local_variables(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    async def leak(ctx: Context[Toy]) -> None:
        secret = await ctx.client.get(Secret, "planted", "default")
        password = base64.b64decode(secret.data["password"]).decode()
        raise ValueError(f"no {password}")

    planted = Secret(metadata=ObjectMeta("planted", "default"), data={"password": encoded(PASSWORD)})
    await world.client.create(planted)
    async with world.running(Controller(Toy, leak, reads=[Secret])):
        await world.make("leaky")
        await anyio.sleep(2)
    record = next(one for one in caplog.records if vars(one)["event"] == "failed")
    assert record.exc_info is not None
    kind, error, trace = record.exc_info
    assert (kind.__name__ if kind else "", str(error), trace) == ("ValueError", f"no {HIDDEN}", None)
    text = logging.Formatter("%(message)s").format(record)
    assert "in leak\n" in text
    assert PASSWORD not in text
    assert encoded(PASSWORD) not in text


def test_a_log_line_is_redacted_in_text_values_and_traceback_and_other_values_keep_their_types(
    a_run_that_saw: SecretValues,
) -> None:
    a_run_that_saw.add(
        SECRETS, json.dumps({"stringData": {"a": PASSWORD, "b": "1234", "c": "None"}}).encode()
    )
    kept = {"number": 12345, "float": 0.1234, "yes": True, "nothing": None, "list": [1, "a"]}
    line = {"event": f"it is {PASSWORD}", "held": [PASSWORD], **kept}
    clean = {"event": f"it is {HIDDEN}", "held": f"['{HIDDEN}']", **kept}
    assert redact_event(None, "info", line) == clean
    error = failing()
    for form in (error, (type(error), error, error.__traceback__)):
        told = redact_event(None, "info", {**line, "exc_info": form})
        shown = told.pop("exc_info")
        assert told == clean
        assert_veiled(shown)
    for empty in (None, False, (None, None, None), True):
        assert redact_event(None, "info", {**line, "exc_info": empty}) == clean
    try:
        raise error
    except LookupError:
        now = redact_event(None, "info", {**line, "exc_info": True})
        assert redact_event(None, "info", {**line, "exc_info": False}) == clean
    assert_veiled(now["exc_info"])


def test_only_secrets_of_the_core_group_are_sensitive() -> None:
    assert is_sensitive(SECRETS)
    assert not is_sensitive(APIResource("", "v1", "ConfigMap", "configmaps"))
    assert not is_sensitive(APIResource("example.com", "v1", "Secret", "secrets"))


async def by_pages(ctx: Context[Toy]) -> str:
    async for page in ctx.client.pages(Secret, "default"):
        for secret in page:
            return base64.b64decode(secret.data["password"]).decode()
    raise AssertionError


async def by_watch(ctx: Context[Toy]) -> str:
    async with ctx.client.watch(Secret, "default") as events:
        async for event in events:
            assert event.object is not None
            return base64.b64decode(event.object.data["password"]).decode()
    raise AssertionError


@pytest.mark.parametrize("read", [by_pages, by_watch])
@in_world(played)
async def test_secrets_read_through_pages_and_watches_are_hidden_in_errors(
    world: World, read: Any, everything_logged: io.StringIO
) -> None:
    async def leak(ctx: Context[Toy]) -> None:
        raise ValueError(f"cannot log in with {await read(ctx)}")

    data = {"password": encoded(PASSWORD)}
    await world.client.create(Secret(metadata=ObjectMeta("planted", "default"), data=data))
    async with world.running(Controller(Toy, leak, writes=[Secret])):
        await world.make("leaky")
        await anyio.sleep(10)
    assert f"cannot log in with {HIDDEN}" in everything_logged.getvalue()
    assert PASSWORD not in everything_logged.getvalue()


@pytest.mark.parametrize(
    "form",
    [
        lambda secret: f"https://user:{quote(secret, safe='')}@host/",
        lambda secret: f"?password={quote_plus(secret)}",
        *(
            lambda secret, user=user: "Basic " + encoded(f"{user}:{secret}")  # type: ignore[misc]
            for user in ("a", "ab", "abc", "abcd")
        ),
        lambda secret: base64.urlsafe_b64encode(f"u:{secret}:more".encode()).decode(),
    ],
)
@given(secret=st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), min_size=8, max_size=40))
def test_a_secret_is_hidden_however_it_is_encoded(form: Any, secret: str) -> None:
    assume(secret not in HIDDEN)
    values = SecretValues()
    values.add(SECRETS, json.dumps({"data": {"password": encoded(secret)}}).encode())
    clean = values.redact(form(secret))
    assert HIDDEN in clean
    for piece in (clean, *clean.split(HIDDEN)):
        with contextlib.suppress(ValueError):
            assert secret not in base64.b64decode(piece.removeprefix("Basic ")).decode(errors="ignore")
    assert secret not in unquote_plus(clean)


def test_credentials_are_not_shown_in_a_repr() -> None:
    assert "hunter2" not in repr(Proof("Bearer hunter2", (b"hunter2", None, None)))
    assert "hunter2" not in repr(Plugin(["aws"], {"TOKEN": "hunter2"}))


def password_in(secret: Any) -> str:
    data = secret.data if isinstance(secret, Secret) else secret.to_dict()["data"]
    return base64.b64decode(data["password"]).decode()


def tell(*states: Any) -> Any:
    raise ValueError(f"cannot use {[password_in(state) for state in states if state is not None]}")


async def tell_of_gone(gone: Any) -> None:
    tell(gone.object)


@pytest.mark.parametrize(
    "controller",
    [
        lambda: Controller(Toy, idle, watches=[Watch(Secret, to=tell)]),
        lambda: Controller(Toy, idle, watches=[Watch(Secret, to=lambda _: [], wakes=tell)]),
        lambda: Controller(Secret, idle, wakes=tell),
        lambda: Controller(Secret, idle, watches=[Watch(Toy, by=tell)]),
        lambda: Controller(Secret, idle, on_deleted=tell_of_gone),
    ],
    ids=["to", "wakes of a watch", "wakes", "by", "on_deleted"],
)
@in_world(played)
async def test_secrets_in_errors_of_functions_outside_of_runs_are_hidden(
    world: World, controller: Any, everything_logged: io.StringIO
) -> None:
    data = {"password": encoded(PASSWORD)}
    async with world.running(controller()):
        await world.make("a")
        secret = await world.client.create(Secret(metadata=ObjectMeta("s", "default"), data=data))
        await anyio.sleep(5)
        secret = await world.client.raw.merge(secret, {"metadata": {"labels": {"a": "b"}}})
        await anyio.sleep(5)
        await world.client.delete(secret)
        await anyio.sleep(10)
    assert f"cannot use ['{HIDDEN}'" in everything_logged.getvalue()
    assert PASSWORD not in everything_logged.getvalue()


def test_objects_and_fields_that_are_named_by_a_value_are_shown_nowhere(
    everything_logged: io.StringIO,
) -> None:
    value = "tenant-4711-key"
    pad = "x" * 8

    async def name_by_it(ctx: Context[Toy]) -> None:
        secret = await ctx.client.get(Secret, "planted", "default")
        assert secret is not None
        name = base64.b64decode(secret.data["name"]).decode()
        await ctx.client.find(ConfigMap, f"{name}-{pad}", "default")
        await ctx.apply(Intent(ConfigMap, metadata=ObjectMeta(f"{name}-{pad}"), data={name: pad}))

    async def scenario(world: World) -> None:
        planted = Secret(metadata=ObjectMeta("planted", "default"), data={"name": encoded(value)})
        await world.client.create(planted)
        controller = Controller(Toy, name_by_it, owns=[ConfigMap], reads=[Secret])
        async with world.running(controller) as manager:
            await world.make("leaky")
            await anyio.sleep(10)
            explained = DebugActions(lambda: manager._runners).explain("toy", "default/leaky")
            shown = json.dumps([manager.state(), explained])
        assert f"apply configmaps default/{HIDDEN}-{pad}" in shown
        assert f"configmaps default/{HIDDEN}-{pad} added" in shown
        assert "secrets default/planted" in shown
        assert f"configmaps default/{HIDDEN}-{pad}" in json.dumps(
            explained["controllers"][0]["runs"][0]["read"]
        )
        assert value not in shown
        assert value not in everything_logged.getvalue()

    played(scenario)
