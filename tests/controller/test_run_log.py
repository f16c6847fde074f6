"""The log lines of runs: one where something happened, none at rest, in the words of `reconcile explain`."""

import base64
import logging
from collections import Counter
from itertools import pairwise
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from informers import Key
from reconcile import Context, Controller, Intent, ObjectMeta, Result
from reconcile.commands.explain_command import chain
from reconcile.controller.run_history import PastRun
from reconcile.controller.run_log import WRITES_SHOWN, reasons_of, values_of
from reconcile.errors import TerminalError
from reconcile.kinds import ConfigMap, Secret
from reconcile.runs.run_request import BY_HAND, Cause
from reconcile.testing import simulate
from tests.helpers.managers import Toy, ToySpec, World, idle, keep_size

HOUR = 3600.0
SCHEDULED = Cause("scheduled")


def run(result: str = "success", *, attempt: int = 0, seconds: float = 0.01, **more: Any) -> PastRun:
    causes = more.pop("causes", (SCHEDULED,))
    return PastRun(100.0, 100.0 + seconds, causes, attempt, "1f0c55aa", result, "", **more)


@pytest.mark.rule("log-quiet")
@pytest.mark.parametrize(
    ("last", "before", "wrote", "reasons"),
    [
        (run(), run(), False, []),
        (run(), None, False, []),
        (run("requeue_after"), run("requeue_after"), False, []),
        (run("requeue", attempt=7), run("requeue", attempt=6), False, []),
        (run("requeue", attempt=7), None, False, []),
        (run(), run("cancelled"), False, []),
        (run(), run(), True, ["wrote"]),
        (run(attempt=3), run("error", attempt=2), False, ["result changed"]),
        (run(attempt=3), None, False, ["result changed"]),
        (run(), run("error"), True, ["wrote", "result changed"]),
        (run("requeue_after"), run(), False, ["result changed"]),
        (run(seconds=10.5), run(), False, ["long"]),
        (run(causes=(SCHEDULED, BY_HAND)), run(), False, ["by hand"]),
    ],
)
def test_a_run_has_a_line_for_what_it_wrote_a_new_result_its_length_and_a_person_who_asked(
    last: PastRun, before: PastRun | None, wrote: bool, reasons: list[str]
) -> None:
    assert reasons_of(last, before, wrote=wrote, long=10) == reasons


@pytest.mark.rule("log-quiet")
@given(
    st.lists(st.sampled_from(["success", "requeue", "requeue_after", "error"]), min_size=2, max_size=30),
    st.integers(2, 30),
)
def test_a_result_that_repeats_itself_has_one_line(results: list[str], times: int) -> None:
    runs = [run(result) for result in results for _ in range(times)]
    lines = [last.result for before, last in pairwise(runs) if reasons_of(last, before, wrote=False, long=10)]
    changes = [last for before, last in pairwise(results) if before != last]
    assert lines == changes


def test_a_line_has_the_words_of_explain() -> None:
    past = run(attempt=2, causes=(BY_HAND,), writes=("apply configmaps default/c: .data.x -> version 12",))
    values = values_of(past, 30.0)
    shown = "\n".join(
        chain(
            {
                "reconcile_id": past.reconcile_id,
                "ended_ago": 0.0,
                "seconds": past.seconds,
                "attempt": past.attempt,
                "causes": [str(cause) for cause in past.causes],
                "read": [],
                "wrote": list(past.writes),
                "result": past.result,
                "error": "",
            }
        )
    )
    assert f"woken by  {values['woken_by'][0]}" in shown
    assert f"wrote     {values['wrote'][0]}" in shown
    assert f"result    {values['result']} in" in shown
    assert (values["attempt"], values["next_try"]) == (2, "in 30 s")


def test_a_run_of_many_writes_names_the_first_and_counts_the_others() -> None:
    wrote = values_of(run(writes=tuple(map(str, range(WRITES_SHOWN + 2)))), None)["wrote"]
    assert wrote == [*map(str, range(WRITES_SHOWN)), "and 2 more"]
    assert values_of(run(writes=tuple(map(str, range(WRITES_SHOWN)))), None)["wrote"] == list(
        map(str, range(WRITES_SHOWN))
    )


# --- in a manager -----------------------------------------------------------------------------------------


def lines_of(
    scenario: Any, caplog: pytest.LogCaptureFixture, level: int = logging.INFO, limit: float = HOUR
) -> list[dict[str, Any]]:
    """The attributes of the records that a scenario has left, of all loggers of the library."""
    world = World()

    async def play() -> None:
        await world.define()
        await scenario(world)

    with (
        caplog.at_level(level, "reconcile"),
        caplog.at_level(level, "informers"),
        caplog.at_level(level, "workqueue"),
    ):
        simulate(play, limit_seconds=limit)
    return [vars(record) for record in caplog.records]


def of_runs(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [line for line in lines if line["event"] == "reconciled"]


@pytest.mark.rule("log-quiet")
def test_a_thousand_objects_at_rest_write_less_than_a_line_a_minute_although_they_run(
    caplog: pytest.LogCaptureFixture,
) -> None:
    runs = 0

    async def keep(ctx: Context[Toy]) -> None:
        nonlocal runs
        runs += 1
        await keep_size(ctx)

    async def scenario(world: World) -> None:
        async with world.running(Controller(Toy, keep, name="toys", every=600)):
            for number in range(1000):
                await world.make(f"a{number}")
            await anyio.sleep(60)
            assert len({line["key"] for line in of_runs([vars(one) for one in caplog.records])}) == 1000
            caplog.clear()
            before = runs
            await anyio.sleep(HOUR)
            assert runs - before >= 5000
            assert len(caplog.records) <= 60, Counter(vars(one)["event"] for one in caplog.records)
            assert of_runs([vars(one) for one in caplog.records]) == []

    lines_of(scenario, caplog, limit=3 * HOUR)


async def keep_child(ctx: Context[Toy]) -> None:
    size = str(ctx.object.spec.size)
    await ctx.apply(Intent(ConfigMap, metadata=ObjectMeta(ctx.object.name), data={"size": size}))
    ctx.status(size=ctx.object.spec.size)


@pytest.mark.rule("log-quiet")
def test_each_write_of_a_changing_world_is_in_a_line_and_no_other(caplog: pytest.LogCaptureFixture) -> None:
    sent: Counter[tuple[str, Key]] = Counter()

    async def scenario(world: World) -> None:
        async with world.running(Controller(Toy, keep_child, name="toys", owns=[ConfigMap])):
            for number in range(20):
                await world.make(f"a{number}")
            for size in (2, 3, 4):
                await anyio.sleep(60)
                for number in range(0, 20, size):
                    toy = await world.client.get(Toy, f"a{number}", "default")
                    await world.client.raw.merge(toy, {"spec": {"size": size}}, guard={})
            await anyio.sleep(60)
        for request in world.transport.writes:
            place = request.target
            if place.resource in ("toys", "configmaps") and request.status in (200, 201):
                what = f"{place.resource}/{place.subresource}" if place.subresource else place.resource
                sent[what, Key(place.namespace, place.name)] += 1

    lines = of_runs(lines_of(scenario, caplog))
    words = [write.split(":")[0].split()[:3] for line in lines for write in line["wrote"]]
    assert sent == Counter((what, Key(*key.split("/"))) for _, what, key in words)
    assert sum(sent.values()) > 80
    for line in lines:
        assert line["because"] == "wrote"
        assert line["result"] == "success"
        assert line["key"] in line["wrote"][0]
        assert any(f"toys.example.com {line['key']} " in cause for cause in line["woken_by"])
        assert len(line["reconcile_id"]) == 8


@pytest.mark.rule("log-quiet")
def test_a_recovery_a_long_run_and_one_by_hand_have_a_line_without_a_write(
    caplog: pytest.LogCaptureFixture,
) -> None:
    runs = 0

    async def recover(ctx: Context[Toy]) -> None:
        nonlocal runs
        runs += 1
        if runs <= 2:
            raise OSError("no disk")
        if runs == 4:
            await anyio.sleep(12)

    async def scenario(world: World) -> None:
        async with world.running(Controller(Toy, recover, name="toys")) as manager:
            await world.make()
            await anyio.sleep(10)
            for cause in (Cause("triggered", note="a source"), BY_HAND, Cause("triggered", note="a source")):
                manager.trigger("toys", "default/a", cause)
                await anyio.sleep(30)

    lines = lines_of(scenario, caplog)
    failed = [line for line in lines if line["event"] == "failed"]
    assert [(line["result"], line["next_try"]) for line in failed] == [
        ("error", "in 0.005 s"),
        ("error", "in 0.01 s"),
    ]
    assert [(line["because"], line["levelname"]) for line in of_runs(lines)] == [
        ("result changed", "INFO"),
        ("long", "INFO"),
        ("by hand", "INFO"),
    ]
    assert [line["attempt"] for line in of_runs(lines) if "attempt" in line] == [2]
    assert runs == 6


@pytest.mark.rule("log-quiet")
def test_runs_at_rest_are_lines_at_level_debug(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(world: World) -> None:
        async with world.running(Controller(Toy, idle, name="toys", every=60)):
            await world.make()
            await anyio.sleep(200)

    quiet = of_runs(lines_of(scenario, caplog, logging.DEBUG))
    assert len(quiet) == 4
    assert {(line["levelname"], "because" in line, "wrote" in line) for line in quiet} == {
        ("DEBUG", False, False)
    }
    assert all(line["next_try"].startswith("in 6") for line in quiet)


def test_a_failed_run_says_what_it_wrote_and_when_it_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    async def write_and_fail(ctx: Context[Toy]) -> None:
        await keep_child(ctx)
        raise TerminalError("the spec asks for what is not there")

    async def scenario(world: World) -> None:
        async with world.running(Controller(Toy, write_and_fail, name="toys", owns=[ConfigMap])):
            await world.make()
            await anyio.sleep(10)

    first = next(line for line in lines_of(scenario, caplog) if line["event"] == "failed for good")
    assert first["wrote"][0].startswith("apply configmaps default/a")
    assert first["result"] == "error"
    assert "next_try" not in first


def test_the_next_try_of_a_run_is_in_its_line(caplog: pytest.LogCaptureFixture) -> None:
    async def ask_again(ctx: Context[Toy]) -> Result:
        await keep_size(ctx)
        return Result(requeue_after=30)

    async def scenario(world: World) -> None:
        async with world.running(Controller(Toy, ask_again, name="toys", every=600)):
            await world.make()
            await anyio.sleep(10)

    (line,) = of_runs(lines_of(scenario, caplog))
    assert (line["result"], line["next_try"]) == ("requeue_after", "in 30 s")


@pytest.mark.rule("log-quiet")
def test_what_a_run_read_of_a_secret_is_not_in_its_line(caplog: pytest.LogCaptureFixture) -> None:
    async def name_a_child_so(ctx: Context[Toy]) -> None:
        secret = await ctx.client.get(Secret, "s", "default")
        password = base64.b64decode(secret.data["password"]).decode()
        await ctx.apply(Intent(ConfigMap, metadata=ObjectMeta(password), data={}))

    async def scenario(world: World) -> None:
        password = base64.b64encode(b"hunter2-secret").decode()
        await world.client.create(Secret(metadata=ObjectMeta("s", "default"), data={"password": password}))
        controller = Controller(Toy, name_a_child_so, name="toys", owns=[ConfigMap], reads=[Secret])
        async with world.running(controller):
            await world.client.create(Toy(metadata=ObjectMeta("a", "default"), spec=ToySpec()))
            await anyio.sleep(10)

    lines = of_runs(lines_of(scenario, caplog))
    assert any("<secret>" in write for line in lines for write in line["wrote"])
    assert "hunter2" not in "".join(record.getMessage() for record in caplog.records)
