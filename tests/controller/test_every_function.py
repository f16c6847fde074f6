"""Every place that takes a function of an author, called with functions that misbehave in every way.

`PLACES` has a row for each; a field of Controller, Watch and the like that has none fails
`test_every_place_that_takes_a_function_has_a_row`.
"""

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

import anyio
import attrs
import pytest
from attrs import frozen

from reconcile import (
    Client,
    Context,
    Controller,
    Index,
    InformerOptions,
    Manager,
    ObjectMeta,
    Predicate,
    RawClient,
    Request,
    Source,
    SyncContext,
    Watch,
)
from reconcile.controller.object_background import Background
from reconcile.controller.sources import SourceContext
from reconcile.controller.tombstones import Deleted
from reconcile.kinds import ConfigMap, Secret
from reconcile.manager.option_list import OPTIONS
from reconcile.ops.health_checks import report, run_checks
from reconcile.testing import FakeClient
from reconcile.webhooks import Admission
from tests.helpers.managers import Toy, ToySpec, World, keep_size, played
from tests.helpers.scenarios import in_world

pytestmark = pytest.mark.rule("survival-functions")

# --- functions that misbehave ------------------------------------------------------------------------

MODES = ("raises", "unspeakable", "garbage", "cancelled", "exits", "never")


class Unspeakable(Exception):
    """An error whose text cannot be had."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


def misbehaving(mode: str) -> Any:
    """A plain function. One that never returns would hold the event loop: that is the watchdog's matter."""

    def misbehave(*_: Any) -> Any:
        match mode:
            case "raises":
                raise LookupError("of the author")
            case "unspeakable":
                raise Unspeakable
            case "cancelled":
                raise asyncio.CancelledError
            case "exits":
                raise SystemExit(3)
        return [object()]

    return misbehave


def misbehaving_async(mode: str) -> Any:
    plain = misbehaving(mode)

    async def misbehave(*_: Any) -> Any:
        if mode == "never":
            await anyio.sleep_forever()
        return plain()

    return misbehave


def misbehaving_stream(mode: str) -> Any:
    plain = misbehaving(mode)

    async def misbehave(_: SourceContext) -> AsyncIterator[Any]:
        yield "default/a"
        if mode == "never":
            await anyio.sleep_forever()
        plain()
        yield 5
        yield "default/b"
        await anyio.sleep_forever()

    return misbehave


class Seen:
    """When the controller of the row ran for `a`."""

    def __init__(self) -> None:
        self.runs: list[float] = []

    async def note(self, ctx: Context[Toy]) -> None:
        if ctx.object.name == "a":
            self.runs.append(anyio.current_time())


# --- the places --------------------------------------------------------------------------------------

Make = Callable[[Any, Seen], Controller[Any]]


@frozen
class Place:
    """How a function is given there: `make` has a controller of it. `kind` says which functions it takes.

    `wakes`: the function decides what wakes, so a change may not be lost. `silent` is how it may be given and
    not be named in the log, as what it returns is not used.
    """

    make: Make
    kind: str = "plain"
    wakes: bool = False
    silent: tuple[str, ...] = ()


def controller(**options: Any) -> Controller[Any]:
    return Controller(Toy, options.pop("reconcile", keep_size), name="row", timeout=2, **options)


PLACES: Mapping[str, Place] = {
    "Controller.reconcile": Place(lambda f, seen: controller(reconcile=f), "either"),
    "Controller.cleanup": Place(lambda f, seen: controller(cleanup=f), "either"),
    "Controller.on_terminating": Place(lambda f, seen: controller(on_terminating=f), "either"),
    "Controller.on_deleted": Place(lambda f, seen: controller(on_deleted=f), "async", silent=("garbage",)),
    "Controller.background": Place(
        lambda f, seen: controller(background=f), "async", silent=("garbage", "never")
    ),
    "Controller.wakes": Place(
        lambda f, seen: controller(reconcile=seen.note, wakes=f), wakes=True, silent=("garbage",)
    ),
    "Controller.sources": Place(
        lambda f, seen: controller(reconcile=seen.note, sources=[f]), "stream", silent=("never",)
    ),
    "Watch.by": Place(
        lambda f, seen: controller(reconcile=seen.note, watches=[Watch(Secret, by=f)]), wakes=True
    ),
    "Watch.by_labels": Place(
        lambda f, seen: controller(reconcile=seen.note, watches=[Watch(Secret, by_labels=f)]), wakes=True
    ),
    "Watch.to": Place(
        lambda f, seen: controller(reconcile=seen.note, watches=[Watch(Secret, to=f)]), wakes=True
    ),
    "Index.by": Place(
        lambda f, seen: controller(reads=[Secret], indexes={"it": Index(Secret, f)}), silent=("garbage",)
    ),
    "Watch.wakes": Place(
        lambda f, seen: controller(
            reconcile=seen.note, watches=[Watch(Secret, to=lambda s: [Request("default", "a")], wakes=f)]
        ),
        wakes=True,
        silent=("garbage",),
    ),
    "Predicate.test": Place(
        lambda f, seen: controller(reconcile=seen.note, wakes=Predicate(f)), wakes=True, silent=("garbage",)
    ),
    "Source.start": Place(
        lambda f, seen: controller(reconcile=seen.note, sources=[Source(f, "misbehave")]),
        "stream",
        silent=("never",),
    ),
}

ASKED_ELSEWHERE: Mapping[str, str] = {
    "Admission.defaults": "test_a_defaults_function_that_breaks_its_promise_fails_the_call",
    "Admission.refuses": "test_an_error_of_a_function_says_nothing_of_the_object",
    "Manager.liveness": "test_a_misbehaving_health_check_fails_and_nothing_else",
    "Manager.readiness": "test_a_misbehaving_health_check_fails_and_nothing_else",
    "InformerOptions.transform": "test_an_object_whose_transform_fails_is_stored_whole_and_named_in_the_log",
    "Context.run_sync": "test_a_misbehaving_function_passed_on_by_a_run_fails_only_that_run",
    "Context.generate_once": "test_a_misbehaving_function_passed_on_by_a_run_fails_only_that_run",
    "Client.modify": "test_a_misbehaving_function_passed_on_by_a_run_fails_only_that_run",
    "Client.scale": "test_a_misbehaving_function_passed_on_by_a_run_fails_only_that_run",
    "SyncContext.run_sync": "test_a_misbehaving_function_passed_on_by_a_run_fails_only_that_run",
}

# What takes no function of an author's: values, and objects whose methods requests of a run call.
NO_FUNCTIONS = {
    "Controller": "kind _operator _finalizer _field_manager former_finalizers former_field_managers "
    "selector sharded owns watches indexes reads writes _name workers timeout clusters backoff every "
    "resync predecessor storms admission",
    "Admission": "kind rules operations labels namespaces conditions required timeout _operator",
    "Watch": "kind everywhere",
    "Index": "kind",
    "Source": "name initial",
    "Predicate": "",
    "InformerOptions": "namespaces labels fields shard metadata_only drop transformed compress",
    "Manager": "controllers environ namespace namespaces selector dry_run take_over "
    "freeze_predecessor name embedded clusters serve serve_certificates serve_review serve_metrics "
    "webhooks webhook_certificates webhook_service "
    "definitions ready_when leader_election sharding canary loops lease_seconds renew_seconds retry_seconds "
    "workers timeout threads debug undeclared client_qps client_burst sync_seconds stop_seconds "
    "record record_mb transport clock blocking metrics traces limiter informers",
}


def test_every_place_that_takes_a_function_has_a_row() -> None:
    options: dict[str, Sequence[str]] = {
        model.__name__: [field.name for field in attrs.fields(model)]
        for model in (Controller, Admission, Watch, Index, Source, Predicate, InformerOptions)
    }
    options["Manager"] = ["controllers", "environ", *OPTIONS]
    rows = {*PLACES, *ASKED_ELSEWHERE}
    for owner, names in options.items():
        with_row = {row.partition(".")[2] for row in rows if row.startswith(f"{owner}.")}
        assert set(names) == with_row | set(NO_FUNCTIONS[owner].split()), owner


def test_every_method_of_a_run_that_takes_a_function_has_a_row() -> None:
    found = {
        f"{owner.__name__}.{name}"
        for owner in (Context, Client, RawClient, SyncContext)
        for name, method in inspect.getmembers(owner, inspect.isfunction)
        if not name.startswith("_") and "Callable" in str(inspect.signature(method))
    }
    assert found - {"SyncContext.generate_once"} <= {*PLACES, *ASKED_ELSEWHERE}


CASES = [
    pytest.param(name, mode, kind, id=f"{name}-{mode}-{kind}")
    for name, place in PLACES.items()
    for mode in MODES
    for kind in (("async", "plain") if place.kind == "either" else (place.kind,))
    if not (mode == "never" and kind == "plain")
]


@pytest.mark.parametrize(("name", "mode", "kind"), CASES)
@in_world(played)
async def test_no_user_function_ends_the_manager_or_loses_a_change(
    world: World, name: str, mode: str, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    place, seen = PLACES[name], Seen()
    make = {"async": misbehaving_async, "plain": misbehaving, "stream": misbehaving_stream}[kind]
    function = make(mode)

    await world.make("a", size=1)
    await world.make("b", size=2)
    await world.client.create(Secret(metadata=ObjectMeta("any", "default")))
    probe = Controller(ConfigMap, lambda ctx: None, name="probe")
    async with world.running(place.make(function, seen), probe) as manager:
        await anyio.sleep(20)
        if name == "Controller.on_deleted":
            await world.client.delete(await world.client.get(Toy, "a", "default"))
            await anyio.sleep(5)
        if name in ("Controller.cleanup", "Controller.on_terminating"):
            if name == "Controller.on_terminating":
                await world.client.apply(_held("a"), force=True)
            await world.client.delete(await world.client.get(Toy, "a", "default"))
            await anyio.sleep(5)
        before = anyio.current_time()
        if name.startswith("Watch."):
            await world.client.modify(Secret, "any", "default", touched)
        elif place.wakes:
            await world.client.modify(Toy, "a", "default", lambda toy: toy.replace(spec=ToySpec(size=9)))
        await anyio.sleep(10)
        if place.wakes:
            assert any(run > before for run in seen.runs)
        if kind == "stream":
            assert seen.runs
        await world.client.create(ConfigMap(metadata=ObjectMeta("later", "default")))
        await anyio.sleep(5)
        row, probing = manager.status().controllers
        assert (probing.runs, probing.failures) == (1, 0)
        assert row.queue.working <= 2
    said = " ".join(str(value) for record in caplog.records for value in vars(record).values())
    by_itself = {
        "raises": "LookupError: of the author",
        "unspeakable": "Unspeakable",
        "never": "took longer than 2 s",
    }
    named = "misbehave" in said or by_itself.get(mode, "misbehave") in said
    assert named or mode in place.silent, said
    assert "the manager has ended" not in said


def touched(secret: Secret) -> Secret:
    return secret.with_metadata(labels={"touched": "yes"})


def _held(name: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default", "finalizers": ["example.com/held"]}
    return {"apiVersion": "toys.example.com/v1", "kind": "Toy", "metadata": metadata}


@pytest.mark.parametrize("mode", ["raises", "cancelled", "exits"])
@in_world(played)
async def test_on_deleted_is_called_for_a_deleted_object_until_it_succeeds(world: World, mode: str) -> None:
    told: list[str] = []

    async def on_deleted(gone: Deleted[Toy]) -> None:
        told.append(gone.object.name)
        if len(told) < 4:
            misbehaving(mode)()

    toy = await world.make("a")
    async with world.running(controller(on_deleted=on_deleted)):
        await anyio.sleep(5)
        await world.client.delete(toy)
        await anyio.sleep(5)
    assert told == ["a"] * 4


@in_world(played)
async def test_requests_that_a_source_yields_after_garbage_are_accepted(world: World) -> None:
    seen: list[str] = []

    async def note(ctx: Context[Toy]) -> None:
        seen.extend(f"{ctx.object.name} {cause}" for cause in ctx.causes if cause.verb == "triggered")

    await world.make("a")
    await world.make("b")
    async with world.running(Controller(Toy, note, sources=[misbehaving_stream("garbage")])):
        await anyio.sleep(5)
    assert sorted(line.partition(" ")[0] for line in seen) == ["a", "b"]


@in_world(played)
async def test_a_background_task_that_ignores_cancellation_blocks_only_its_own_key(world: World) -> None:
    async def stubborn(given: Background[Toy]) -> None:
        with anyio.CancelScope(shield=True):
            await anyio.sleep(100)

    await world.make("a")
    async with world.running(controller(background=stubborn, cleanup=keep_size, workers=1)) as manager:
        await anyio.sleep(5)
        await world.client.delete(await world.client.get(Toy, "a", "default"))
        await anyio.sleep(1)
        await world.make("b", size=7)
        await anyio.sleep(10)
        assert (await world.client.get(Toy, "b", "default")).status.size == 7
        assert manager.status().controllers[0].failures > 0
        assert await world.client.find(Toy, "a", "default") is not None
        await anyio.sleep(120)
        assert await world.client.find(Toy, "a", "default") is None


@pytest.mark.parametrize("mode", ["raises", "cancelled", "exits", "false", "waits"])
def test_a_misbehaving_health_check_fails_and_nothing_else(mode: str) -> None:
    async def late() -> None:
        """Never awaited."""

    answers: dict[str, Any] = {"false": lambda: False, "waits": lambda: late()}
    check = answers.get(mode) or misbehaving(mode)
    manager = Manager(readiness={"odd": check, "fine": lambda: None}, transport=FakeClient().transport)
    health = report("readyz", run_checks("readyz", manager.options["readiness"]))
    assert health.status == 500
    assert "[-]odd failed" in health.text
    assert "[+]fine ok" in health.text


PASSED_ON: Mapping[str, Callable[[Context[Any], Any], Any]] = {
    "run_sync": lambda ctx, f: ctx.run_sync(f),
    "generate_once": lambda ctx, f: ctx.generate_once("n", f),
    "modify": lambda ctx, f: ctx.client.modify(Toy, "a", "default", f),
    "scale": lambda ctx, f: ctx.client.scale(ctx.object, f),
}


@pytest.mark.parametrize("mode", ["raises", "unspeakable", "garbage", "cancelled", "exits"])
@pytest.mark.parametrize("how", PASSED_ON)
@in_world(played)
async def test_a_misbehaving_function_passed_on_by_a_run_fails_only_that_run(
    world: World, how: str, mode: str
) -> None:
    async def pass_on(ctx: Context[Toy]) -> None:
        if ctx.object.name == "a":
            await PASSED_ON[how](ctx, misbehaving(mode))
        ctx.status(size=3)

    await world.make("a")
    await world.make("b")
    async with world.running(controller(reconcile=pass_on, writes=[Secret, Toy])) as manager:
        await anyio.sleep(5)
        assert (await world.client.get(Toy, "b", "default")).status.size == 3
        assert (manager.status().controllers[0].failures > 0) is ((how, mode) != ("run_sync", "garbage"))
