"""The life of one object, as the page, the export and traces show it: from managers in virtual time."""

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any

import anyio
import msgspec
import pytest
from attrs import evolve, frozen

from informers import HttpRequest
from reconcile import (
    Client,
    Condition,
    Context,
    Controller,
    Intent,
    Object,
    ObjectMeta,
    Result,
    field,
    resource,
)
from reconcile.client.redaction import forms_of
from reconcile.embedded import InProcessTransport
from reconcile.kinds import ConfigMap, Secret
from reconcile.models import definition_of, kind_of
from reconcile.runs.run_request import Request
from reconcile.status import life_secrets
from reconcile.status.life_form import read_life
from reconcile.status.object_health import HEALTHS
from reconcile.status.object_life import ERROR_FORGOTTEN
from tests.helpers.lives import lived
from tests.helpers.managers import Toy, World, idle, played


async def keep_child(ctx: Context[Toy]) -> None:
    await ctx.apply(Intent(ConfigMap, metadata=ObjectMeta("child"), data={"size": str(ctx.object.spec.size)}))
    ctx.status(size=ctx.object.spec.size)


def toys(reconcile: Any = keep_child, **more: Any) -> Controller[Toy]:
    return Controller(Toy, reconcile, owns=[ConfigMap], **more)


async def resize(client: Client, size: int = 2) -> None:
    await client.modify(Toy, "a", "default", lambda toy: toy.replace(spec=evolve(toy.spec, size=size)))


@pytest.mark.parametrize(("year", "shown"), [("2026", True), ("9999", False), ("1901", False)])
def test_a_life_can_be_read_whatever_times_its_conditions_have(year: str, shown: bool) -> None:
    told = {"type": "Ready", "status": "True", "reason": "Told", "message": ""}
    told["lastTransitionTime"] = f"{year}-12-31T23:59:59-23:00"
    path = kind_of(Toy).resource.path("default", "a", "status")
    headers = {"Content-Type": "application/merge-patch+json"}
    patch = HttpRequest("PATCH", path, {}, headers, msgspec.json.encode({"status": {"conditions": [told]}}))

    async def scenario(world: World) -> None:
        async with lived(world, Controller(Toy, idle)) as (_, lives):
            await world.make()
            assert (await InProcessTransport(world.server).request(patch)).status == 200
            await anyio.sleep(5)
            life = read_life(msgspec.json.encode(lives.life_of("toy", "default/a")))
        assert [one.since is not None for one in life.conditions] == [shown]

    played(scenario)


def only(values: Any) -> Any:
    (value,) = values
    return value


def fields_of(write: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    return {field["path"]: (field["old"], field["new"]) for field in write["fields"]}


def test_a_run_says_what_it_wrote_field_by_field_and_where_it_leads() -> None:
    async def scenario(world: World) -> None:
        async with lived(world, toys()) as (_, lives):
            await world.make(size=3)
            await anyio.sleep(5)
            life = lives.life_of("toy", "default/a")
        first = life["runs"][-1]
        child, status = first["writes"]
        assert (child["verb"], child["kind"], child["key"]) == ("apply", "ConfigMap", "default/child")
        assert fields_of(child)[".data.size"] == ("", '"3"')
        assert child["fields"][0]["pointer"] == "/data/size"
        assert (status["kind"], fields_of(status)[".status.size"]) == ("Toy", ("", "3"))
        assert first["woken_by"][0] | {"what": ""} == {
            "what": "",
            "at": None,
            "verb": "added",
            "kind": "Toy",
            "key": "default/a",
            "from": None,
        }
        assert first["started"] <= child["at"] <= first["ended"] <= life["now"]
        assert (life["health"], life["why"]["state"]) == ("healthy", "resting")
        assert (life["created"] or 0) == pytest.approx(life["now"] - 5, abs=2)

    played(scenario)


def test_a_life_has_the_form_in_which_exports_read_it() -> None:
    async def scenario(world: World) -> None:
        async with lived(world, toys()) as (_, lives):
            await world.make(size=3)
            await anyio.sleep(5)
            life = lives.life_of("toy", "default/a")
        text = json.dumps(life)
        assert missing_in(msgspec.json.decode(msgspec.json.encode(read_life(text))), json.loads(text)) == []
        assert any(run["writes"] for run in life["runs"])

    played(scenario)


def missing_in(form: Any, value: Any, place: str = "") -> list[str]:
    """Where a value has what a form of it has not."""
    if isinstance(value, dict):
        lost = [f"{place}.{name}" for name in value if name not in form]
        kept = [(name, inner) for name, inner in value.items() if name in form]
        return lost + [
            found for name, inner in kept for found in missing_in(form[name], inner, f"{place}.{name}")
        ]
    if isinstance(value, list):
        pairs = zip(form, value, strict=True)
        return [found for each, inner in pairs for found in missing_in(each, inner, f"{place}[]")]
    return [] if form == value else [place]


def test_a_run_has_the_words_of_its_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(world: World) -> None:
        async with lived(world, toys()) as (_, lives):
            await world.make(size=3)
            await anyio.sleep(5)
            first = lives.life_of("toy", "default/a")["runs"][-1]
        (line,) = (vars(one) for one in caplog.records if vars(one).get("reconcile_id") == first["id"])
        assert line["woken_by"] == [cause["what"] for cause in first["woken_by"]]
        assert line["wrote"] == [write["text"] for write in first["writes"]]
        assert line["result"] == first["result"]

    with caplog.at_level("INFO", "reconcile"):
        played(scenario)


@pytest.mark.rule("life-causes")
def test_a_run_that_its_own_write_woke_is_linked_to_the_run_that_wrote() -> None:
    async def scenario(world: World) -> None:
        async with lived(world, toys()) as (_, lives):
            await world.make(size=3)
            await anyio.sleep(5)
            last, first = lives.life_of("toy", "default/a")["runs"]
        (cause,) = (cause for cause in last["woken_by"] if cause["kind"] == "ConfigMap")
        assert cause["from"] == {"controller": "toy", "key": "default/a", "run": first["id"]}
        assert "by this key" in cause["what"]
        assert first["started"] <= cause["at"] <= last["started"]
        assert last["writes"] == []

    played(scenario)


@pytest.mark.rule("life-causes")
def test_a_run_that_another_controller_woke_is_linked_to_that_run() -> None:
    async def grow(ctx: Context[Toy]) -> None:
        if ctx.object.spec.size == 1:
            await resize(ctx.client)

    async def scenario(world: World) -> None:
        async with lived(world, Controller(Toy, grow, name="grower", writes=[Toy]), toys()) as (_, lives):
            await world.make(size=1)
            await anyio.sleep(5)
            toy, grower = (lives.life_of(name, "default/a") for name in ("toy", "grower"))
        origins = [cause["from"] for run in toy["runs"] for cause in run["woken_by"] if cause["from"]]
        wrote = next(run["id"] for run in grower["runs"] if run["writes"])
        assert {"controller": "grower", "key": "default/a", "run": wrote} in origins

    played(scenario)


def test_a_failed_run_says_why_and_when_it_is_tried_again() -> None:
    async def fail(ctx: Context[Toy]) -> None:
        raise ValueError("no bulb")

    async def scenario(world: World) -> None:
        async with lived(world, toys(fail)) as (manager, lives):
            await world.make()
            await anyio.sleep(30)
            life = lives.life_of("Toy", "default/a")
            due_in = only(manager._runners).queue.queued_key(Request("default", "a"))[1]
        newest, before = life["runs"][:2]
        assert (life["health"], life["reason"]) == ("failing", "ValueError: no bulb")
        assert life["why"]["state"] == "back-off"
        assert life["why"]["sentence"].startswith(f"failed {newest['attempt'] + 1} times in a row, last with")
        assert life["why"]["next_at"] == newest["next_at"] == pytest.approx(life["now"] + due_in, abs=0.01)
        assert before["next_at"] == newest["started"]
        assert only(newest["woken_by"])["from"]["run"] == before["id"]
        assert (newest["result"], newest["error"]) == ("error", "ValueError: no bulb")
        assert newest["at"].endswith(" in fail") or "test_object_life.py" in newest["at"]

    played(scenario)


def test_the_change_that_made_an_object_fail_is_shown_however_often_it_was_tried_again() -> None:
    async def fail(ctx: Context[Toy]) -> None:
        raise ValueError("no bulb")

    async def scenario(world: World) -> None:
        async with lived(world, toys(fail)) as (_, lives):
            await world.make()
            await anyio.sleep(1800)
            runs = lives.life_of("Toy", "default/a")["runs"]
        *retries, after_gap, first = runs
        assert only(first["woken_by"])["verb"] == "added"
        assert after_gap["attempt"] - first["attempt"] == after_gap["left_out"] + 1 > 5
        # The run that it follows from is not kept, and the next try of the first one neither.
        assert only(after_gap["woken_by"])["from"] is None
        assert first["next_at"] is None
        assert {run["left_out"] for run in retries} == {0}

    played(scenario)


def test_what_a_result_asked_for_is_the_next_try_even_where_a_change_came_first() -> None:
    async def later(ctx: Context[Toy]) -> Result:
        return Result(requeue_after=60)

    async def scenario(world: World) -> None:
        async with lived(world, toys(later)) as (manager, lives):
            await world.make()
            await anyio.sleep(20)
            manager.trigger("toy", "default/a")
            await anyio.sleep(1)
            newest, first = lives.life_of("toy", "default/a")["runs"]
            why = lives.life_of("toy", "default/a")["why"]
        assert first["next_at"] == pytest.approx(first["ended"] + 60, abs=0.01)
        assert newest["next_at"] == why["next_at"] == pytest.approx(newest["ended"] + 60, abs=0.01)
        assert [cause["verb"] for cause in newest["woken_by"]] == ["scheduled", "triggered"]
        assert why["state"] == "later"

    played(scenario)


def test_a_run_under_way_comes_first_and_says_where_it_waits() -> None:
    async def wait(ctx: Context[Toy]) -> None:
        await anyio.sleep(100)

    async def scenario(world: World) -> None:
        async with lived(world, toys(wait)) as (_, lives):
            await world.make()
            await anyio.sleep(30)
            life = lives.life_of("toy", "default/a")
        run = only(life["runs"])
        assert (run["result"], run["ended"], run["id"]) == ("running", None, "")
        assert run["at"].endswith(" in wait")
        assert life["why"]["sentence"].startswith("running for ")

    played(scenario)


def test_the_tree_shows_a_child_that_somebody_changed_and_one_that_is_gone() -> None:
    async def keep_two(ctx: Context[Toy]) -> None:
        for name in ("one", "two"):
            await ctx.apply(Intent(ConfigMap, metadata=ObjectMeta(name), data={"size": "1"}))

    async def scenario(world: World) -> None:
        async with lived(world, toys(keep_two)) as (manager, lives):
            await world.make()
            await anyio.sleep(5)
            same = lives.life_of("toy", "default/a")["tree"]
            only(manager._runners).rest(Request("default", "a"))
            await world.client.modify(
                ConfigMap, "one", "default", lambda config: config.replace(data={"size": "9"})
            )
            await world.client.delete(await world.client.get(ConfigMap, "two", "default"))
            await anyio.sleep(5)
            life = lives.life_of("toy", "default/a")
        assert [child["desired"] for child in same["children"]] == ["same", "same"]
        assert [child["health"] for child in same["children"]] == ["healthy", "healthy"]
        one, two = life["tree"]["children"]
        assert (one["desired"], two["desired"]) == ("differs", "missing")
        assert one["fields"] == [
            {"path": ".data.size", "pointer": "/data/size", "desired": '"1"', "live": '"9"'}
        ]
        assert life["why"] == {
            "state": "paused",
            "sentence": "paused by hand: resume it to have it run",
            "next_at": None,
        }

    played(scenario)


def test_of_an_object_that_is_gone_the_runs_are_left() -> None:
    async def scenario(world: World) -> None:
        async with lived(world, toys()) as (_, lives):
            await world.make()
            await anyio.sleep(5)
            await world.client.delete(await world.client.get(Toy, "a", "default"))
            await anyio.sleep(5)
            life = lives.life_of("toy", "default/a")
        assert (life["exists"], life["uid"], life["tree"], life["created"]) == (False, "", None, None)
        assert life["runs"]
        assert life["health"] in HEALTHS

    played(scenario)


SECRETS = ("hunter2-in-a-secret", "s3cret-of-the-spec", "pa55-in-an-error", "pa55-in-a-condition")


@pytest.mark.rule("life-secrets")
def test_secrets_are_in_no_life() -> None:
    async def leak(ctx: Context[Toy]) -> None:
        secret = await ctx.client.get(Secret, "db", "default")
        password = b64decode(secret.data["password"]).decode()
        await ctx.apply(
            Intent(
                ConfigMap,
                metadata=ObjectMeta("child", annotations={"seen": password}),
                data={
                    "url": f"postgres://root:{password}@db",
                    "copy": password,
                    "n": str(ctx.object.spec.size),
                },
            )
        )
        message = f"password={SECRETS[3]} and {password}"
        ctx.condition("Ready", False, reason="Leaky", message=message)
        ctx.status(note=password)
        if ctx.object.spec.size > 1:
            raise ValueError(f"cannot log in with {password} to https://root:{SECRETS[2]}@db")

    async def scenario(world: World) -> None:
        secret = Secret(
            metadata=ObjectMeta("db", "default"), data={"password": b64encode(SECRETS[0].encode()).decode()}
        )
        await world.client.create(secret)
        async with lived(world, toys(leak, reads=[Secret])) as (_, lives):
            await world.make(secret=SECRETS[1])
            await anyio.sleep(5)
            moments = [lives.life_of("toy", "default/a")]
            await resize(world.client)
            for _ in range(100):
                await anyio.sleep(0.01)
                moments.append(lives.life_of("toy", "default/a"))
        text = json.dumps(moments)
        assert [secret for secret in SECRETS if secret in text] == []
        # What would have shown them is there.
        assert "cannot log in with <secret> to" in text
        assert only(moments[-1]["conditions"])["message"] == "password=<hidden>"
        written = {write["key"] for life in moments for run in life["runs"] for write in run["writes"]}
        assert written == {"default/a", "default/child"}

    played(scenario)


@frozen
class SafeSpec:
    code: str = field(default="", secret=True)
    size: int = 1


@resource("safes.example.com/v1")
class Safe(Object):
    """Has a field that its class declares secret, whose name does not say so."""

    spec: SafeSpec = SafeSpec()


@pytest.mark.rule("life-secrets")
def test_what_a_class_declares_secret_is_hidden_in_errors_names_and_differences_too() -> None:
    async def fail(ctx: Context[Safe]) -> None:
        await ctx.client.modify(Safe, "a", "default", lambda safe: safe.replace(spec=SafeSpec("4711-8")))
        raise ValueError(f"the code {ctx.object.spec.code} does not open it")

    async def scenario(world: World) -> None:
        await world.client.apply(definition_of(Safe))
        async with lived(world, Controller(Safe, fail, writes=[Safe])) as (_, lives):
            await world.client.create(Safe(metadata=ObjectMeta("a", "default"), spec=SafeSpec("4711-9")))
            moments = []
            for _ in range(30):
                await anyio.sleep(0.05)
                moments.append(lives.life_of("safe", "default/a"))
        runs = [run for life in moments[10:] for run in life["runs"]]
        assert "ValueError: the code <secret> does not open it" in {run["error"] for run in runs}
        assert [code for code in ("4711-8", "4711-9") if code in json.dumps(moments)] == []

    played(scenario)


@pytest.mark.rule("life-secrets")
@pytest.mark.parametrize("listed", [False, True])
def test_the_values_of_a_secret_stay_hidden_once_only_runs_that_wrote_nothing_are_remembered(
    listed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched: list[bytes] = []
    monkeypatch.setattr(life_secrets, "forms_of", lambda body: searched.append(body) or forms_of(body))
    life_secrets._forms_of.cache_clear()

    async def read(ctx: Context[Toy]) -> None:
        if listed:
            await ctx.client.list(Secret, "default")
        else:
            await ctx.client.get(Secret, "db", "default")

    async def scenario(world: World) -> None:
        data = {"password": b64encode(SECRETS[0].encode()).decode()}
        await world.client.create(Secret(metadata=ObjectMeta("db", "default"), data=data))
        async with lived(world, Controller(Toy, read, reads=[Secret])) as (_, lives):
            await world.make()
            told = Condition("Ready", "True", "Fine", f"logged in as {SECRETS[0]}", world.clock.now())
            await world.client.modify(
                Toy,
                "a",
                "default",
                lambda toy: toy.replace(status=evolve(toy.status, conditions=(told,))),
                subresource="status",
            )
            await anyio.sleep(5)
            life = lives.life_of("toy", "default/a")
            lives.life_of("toy", "default/a")
        assert only(life["conditions"])["message"] == "logged in as <secret>"
        assert len(searched) == 1, "it takes time, and a page asks for the same object again and again"

    played(scenario)


def test_a_failure_whose_runs_are_forgotten_is_still_a_failure() -> None:
    async def fail(ctx: Context[Toy]) -> None:
        raise ValueError("no bulb")

    async def scenario(world: World) -> None:
        async with lived(world, toys(fail)) as (manager, lives):
            await world.make()
            await anyio.sleep(5)
            only(manager._runners).history._past.clear()
            life = lives.life_of("toy", "default/a")
        assert (life["health"], life["reason"], life["runs"]) == ("failing", ERROR_FORGOTTEN, [])

    played(scenario)


@pytest.mark.parametrize(
    ("controller", "key", "kind", "message"),
    [
        ("Gadget", "default/a", LookupError, "no controller here has the kind 'Gadget'; there are: Toy"),
        ("toy", "default/b", LookupError, "there is no toy default/b in the cache of this manager"),
        ("toy", "a/b/c", ValueError, "names no object"),
        ("Toy", "default/a", ValueError, "several controllers work on Toy default/a: name one of toy, other"),
    ],
)
def test_what_is_asked_for_wrongly_is_said_in_words(
    controller: str, key: str, kind: type[Exception], message: str
) -> None:
    async def scenario(world: World) -> None:
        async with lived(world, toys(), toys(name="other")) as (_, lives):
            await world.make()
            await anyio.sleep(5)
            with pytest.raises(kind, match=message):
                lives.life_of(controller, key)

    played(scenario)
