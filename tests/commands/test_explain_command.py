"""`reconcile explain`, `top`, `trigger`, `pause` and `resume`, against a manager that runs."""

import http.client
import json
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from attrs import define, field
from hypothesis import given
from hypothesis import strategies as st

from reconcile import Context, Controller, Intent, Manager, ObjectMeta
from reconcile.commands import main
from reconcile.commands.explain_command import chain, gap, head
from reconcile.commands.top_command import rate, summary
from reconcile.controller.run_ends import Slots, count_end, ends_of_last_minute
from reconcile.kinds import ConfigMap
from reconcile.ops.page_routes import is_local_name
from reconcile.status.why_not_now import KeyFacts, why_not_now
from reconcile.testing import FakeClient
from tests.helpers.managers import Toy, ToySpec
from tests.helpers.otlp import read_spans


@define
class Ran:
    """How a command ended, and what it said."""

    status: int
    said: str
    complaint: str


@define
class Operator:
    """A manager with one controller and one object, and commands that are run against it."""

    client: FakeClient
    capsys: pytest.CaptureFixture[str]
    runs: int = 0
    address: str = ""
    error: str = ""
    news: anyio.Event = field(factory=anyio.Event)

    async def keep(self, ctx: Context[Toy]) -> None:
        self.runs += 1
        if self.error:
            raise ValueError(self.error)
        await ctx.apply(
            Intent(ConfigMap, metadata=ObjectMeta("child"), data={"size": str(ctx.object.spec.size)})
        )

    async def command(self, *arguments: str) -> Ran:
        given = [*arguments, "--manager", f"http://{self.address}"]
        status = await anyio.to_thread.run_sync(partial(main, given))
        said = self.capsys.readouterr()
        return Ran(status, said.out, said.err)

    async def until(self, runs: int) -> None:
        with anyio.fail_after(10):
            while self.runs < runs:
                await anyio.sleep(0.01)
            await anyio.sleep(0.05)


@pytest.fixture
async def operator(capsys: pytest.CaptureFixture[str]) -> AsyncIterator[Operator]:
    client = FakeClient(Toy(metadata=ObjectMeta("a", "default"), spec=ToySpec(size=3)))
    operator = Operator(client, capsys)
    controller = Controller(Toy, operator.keep, owns=[ConfigMap])
    manager = Manager(
        controller, transport=client.transport, serve="127.0.0.1:0", environ={}, clock=client.clock
    )
    async with manager:
        operator.address = manager.address
        await operator.until(2)
        yield operator


@pytest.mark.rule("storm-explain")
async def test_explain_shows_the_chain_of_the_last_runs(operator: Operator) -> None:
    ran = await operator.command("explain", "Toy", "default/a")
    assert ran.status == 0
    assert "Toy default/a, controller toy: resting\n" in ran.said
    first, second = ran.said.split("    woken by")[1:]
    assert "toys.toys.example.com default/a added" in first or "toys default/a added" in first
    assert "apply configmaps default/child" in first
    assert "result    success in" in first
    assert "configmaps default/child added at" in second
    assert "by this key" in second
    assert "wrote     nothing" in second


async def test_explain_prints_json(operator: Operator) -> None:
    ran = await operator.command("explain", "toys", "default/a", "--json")
    told = json.loads(ran.said)["controllers"][0]
    assert (told["controller"], told["kind"], told["key"]) == ("toy", "Toy", "default/a")
    assert [len(run["wrote"]) for run in told["runs"]] == [1, 0]


async def test_what_a_run_raised_does_not_control_the_terminal(operator: Operator) -> None:
    operator.error = "\x1b[2Jgone\u202e\nsecond line"
    await operator.command("trigger", "Toy", "default/a")
    await operator.until(3)
    ran = await operator.command("explain", "Toy", "default/a")
    assert all(line.isprintable() for line in ran.said.splitlines())
    assert r"ValueError: \x1b[2Jgone\u202e" in ran.said


async def test_a_life_is_exported_from_a_manager_in_each_form(operator: Operator, tmp_path: Path) -> None:
    for name in ("a.json", "a.html", "a.otlp.json"):
        ran = await operator.command("explain", "Toy", "default/a", "--export", str(tmp_path / name))
        assert (ran.status, ran.said, ran.complaint) == (0, f"{tmp_path / name}\n", "")
    life = json.loads((tmp_path / "a.json").read_text())
    assert [run["result"] for run in life["runs"]] == ["success", "success"]
    assert life["runs"][1]["writes"][0]["fields"][0]["path"] == ".data.size"
    assert life["runs"][0]["woken_by"][0]["from"]["run"] == life["runs"][1]["id"]
    assert ".data.size" in (tmp_path / "a.html").read_text()
    _, first, _, second = read_spans((tmp_path / "a.otlp.json").read_text())
    assert second["links"][0]["traceId"] == first["traceId"]
    missing = await operator.command("explain", "Toy", "default/none", "--export", "-")
    assert missing.status == 2
    assert missing.complaint.startswith("error: there is no Toy default/none in the cache of this manager")


@pytest.mark.parametrize("form", [(), ("--json",)])
async def test_follow_shows_each_run_until_it_is_interrupted(
    form: tuple[str, ...], operator: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = 0

    def wait(seconds: float) -> None:
        nonlocal waits
        waits += 1
        if waits == 3:
            raise KeyboardInterrupt
        if waits == 1:
            main(["trigger", "Toy", "default/a", "--manager", f"http://{address}"])

    monkeypatch.setattr("reconcile.commands.explain_command.time.sleep", wait)
    address = operator.address
    ran = await operator.command("explain", "Toy", "default/a", "--follow", *form)
    assert ran.status == 130
    assert ran.said.count("by hand") == (1 if operator.runs == 3 else 0)
    assert ran.said.count("success") == operator.runs


@pytest.mark.rule("storm-explain")
async def test_a_key_is_triggered_paused_and_resumed(operator: Operator) -> None:
    assert (
        await operator.command("trigger", "Toy", "default/a")
    ).said == "Toy default/a will run (controller toy)\n"
    await operator.until(3)
    assert (await operator.command("pause", "Toy", "default/a")).status == 0
    await operator.command("trigger", "Toy", "default/a")
    await anyio.sleep(0.1)
    assert operator.runs == 3
    said = (await operator.command("explain", "Toy", "default/a")).said
    assert "controller toy: paused by hand: resume it to have it run\n" in said
    assert (await operator.command("resume", "Toy", "default/a")).status == 0
    await operator.until(4)
    ran = await operator.command("explain", "Toy", "default/a")
    assert "woken by  triggered: by hand" in ran.said
    again = await operator.command("resume", "Toy", "default/a")
    assert again.status == 2
    assert again.complaint.startswith("error: Toy default/a is not paused in controller toy")


async def test_top_shows_keys_queues_and_informers(operator: Operator) -> None:
    shown = await operator.command("top", "--once")
    told = json.loads((await operator.command("top", "--json")).said)
    for word in ("default/a", "toy", "configmaps", "RUNS A MINUTE", "STORMS"):
        assert word in shown.said
    assert told["keys"][0]["key"] == "default/a"
    assert told["controllers"][0]["runs"] == 2


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (
            ("explain", "Gadget", "default/a"),
            "error: no controller here has the kind 'Gadget'; there are: Toy",
        ),
        (("explain", "Toy", "default/b"), "error: there is no Toy default/b in the cache of this manager"),
        (("explain", "Toy", "a/b/c"), "error: 'a/b/c' does not name an object"),
        (("trigger", "Toy", "default/b"), "error: there is no Toy default/b"),
    ],
)
async def test_missing_objects_and_managers_are_reported_in_one_line(
    arguments: tuple[str, ...], complaint: str, operator: Operator
) -> None:
    ran = await operator.command(*arguments)
    assert ran.status == 2
    assert ran.complaint.startswith(complaint)
    assert ran.complaint.count("\n") == 1


@pytest.mark.parametrize("command", ["explain", "top", "trigger", "pause", "resume"])
def test_without_a_manager_the_next_step_is_reported(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    named = [] if command == "top" else ["Toy", "default/a"]
    assert main([command, *named, "--manager", "127.0.0.1:1"]) == 2
    complaint = capsys.readouterr().err
    assert complaint.startswith("error: no manager answers on http://127.0.0.1:1")
    assert "--manager" in complaint
    assert complaint.count("\n") == 1


def test_a_token_file_that_cannot_be_read_is_reported_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["top", "--token-file", str(tmp_path / "none")]) == 2
    assert "cannot read" in capsys.readouterr().err


# --- who may ---------------------------------------------------------------------------------------------


@pytest.mark.rule("storm-desk")
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"X-Reconcile": "1"}, 200),
        ({}, 403),
        ({"X-Reconcile": "1", "Origin": "http://example.com"}, 403),
        ({"X-Reconcile": "1", "Sec-Fetch-Site": "cross-site"}, 403),
        ({"X-Reconcile": "1", "Host": "rebound.example.com"}, 403),
    ],
)
async def test_a_web_page_cannot_start_an_action(
    headers: dict[str, str], status: int, operator: Operator
) -> None:
    def post(address: str) -> int:
        connection = http.client.HTTPConnection(address, timeout=5)
        connection.request("POST", "/debug/trigger?kind=Toy&key=default/a", headers=headers)
        answer = connection.getresponse().status
        connection.close()
        return answer

    assert await anyio.to_thread.run_sync(post, operator.address) == status


@pytest.mark.rule("storm-desk")
async def test_a_get_request_changes_nothing(operator: Operator) -> None:
    def get(address: str) -> int:
        connection = http.client.HTTPConnection(address, timeout=5)
        connection.request("GET", "/debug/trigger?kind=Toy&key=default/a", headers={"X-Reconcile": "1"})
        answer = connection.getresponse().status
        connection.close()
        return answer

    assert await anyio.to_thread.run_sync(get, operator.address) == 405
    await anyio.sleep(0.05)
    assert operator.runs == 2


@pytest.mark.rule("storm-desk")
@pytest.mark.parametrize(
    ("host", "local"),
    [
        ("localhost:8080", True),
        ("127.0.0.1", True),
        ("[::1]:8080", True),
        ("[::1]", True),
        ("example.com:80", False),
        ("10.0.0.1:8080", False),
        ("localhost.example.com", False),
    ],
)
def test_only_the_names_of_this_machine_are_local(host: str, local: bool) -> None:
    assert is_local_name(host) is local


# --- what is shown ---------------------------------------------------------------------------------------


def run(**more: Any) -> dict[str, Any]:
    return {
        "reconcile_id": "1a2b",
        "ended_ago": 2.0,
        "seconds": 0.012,
        "attempt": 0,
        "causes": ["its timer"],
        "read": [],
        "wrote": [],
        "result": "success",
        "error": "",
        **more,
    }


@pytest.mark.parametrize(("ago", "words"), [(2.04, "2.0 s"), (75.2, "75 s"), (1693.7, "28 min")])
def test_the_age_of_a_run_is_said_as_on_the_page(ago: float, words: str) -> None:
    assert next(chain(run(ended_ago=ago))) == f"  1a2b  {words} ago"


def test_a_run_after_a_single_try_says_so() -> None:
    assert list(chain(run(attempt=1)))[-1] == "    result    success in 12.0 ms, after 1 try"


def test_a_failed_run_shows_its_error_and_how_often_it_failed_before() -> None:
    lines = list(chain(run(result="error", error="ValueError: no", attempt=2)))
    assert lines[-1] == "    result    error in 12.0 ms, after 2 tries: ValueError: no"


@pytest.mark.rule("told-place")
def test_a_failed_run_shows_where_it_failed() -> None:
    lines = list(chain(run(result="error", error="ValueError: no", at="sites.py:12")))
    assert lines[-1] == "    at        sites.py:12"


@pytest.mark.parametrize(
    ("left_out", "lines"), [(0, []), (1, ["  … 1 run is not kept"]), (7, ["  … 7 runs are not kept"])]
)
def test_runs_that_are_missing_between_others_are_said(left_out: int, lines: list[str]) -> None:
    assert list(gap(run(left_out=left_out))) == lines
    assert list(gap(run())) == []


def test_a_storm_is_shown_before_the_runs() -> None:
    storm = {"since": 5.0, "message": "woken by its own writes", "interval": 60.0}
    why = {"state": "throttled", "sentence": "slowed down, next run in 40 s: woken by its own writes"}
    now = {"kind": "Toy", "key": "default/a", "controller": "toy", "runs": [], "why": why}
    assert list(head({**now, "storm": storm})) == [
        "Toy default/a, controller toy: slowed down, next run in 40 s: woken by its own writes",
        "  in a storm for 5 s, slowed to one run every 60 s",
        "  no run has ended yet",
    ]


def test_the_line_on_the_page_is_what_the_command_prints() -> None:
    page = (Path(__file__).parents[2] / "docs/how-to/find-what-is-wrong.md").read_text()
    shown = page.partition("$ reconcile explain Site default/shop\n")[2].splitlines()[0]
    facts = KeyFacts(due_in=300.0, due_for="retry", failures=3, error="ValueError: no bulb")
    state, sentence, _ = why_not_now(facts)
    one = {"kind": "Site", "key": "default/shop", "controller": "site", "storm": None, "runs": []}
    assert next(head({**one, "why": {"state": state, "sentence": sentence}})) == shown


def test_the_rate_of_a_key_counts_the_last_minute_or_else_the_remembered_runs() -> None:
    assert rate([run(ended_ago=4.0), run(ended_ago=3.0), run(ended_ago=2.0)], 180) == 180.0
    assert rate([run(ended_ago=310.0), run(ended_ago=10.0)], 1) == 1.0
    assert rate([run(ended_ago=390.0), run(ended_ago=90.0)], 0) == 0.2
    assert rate([run()], 1) == 1.0
    assert rate([run(ended_ago=100.0)]) == 0.0


def test_a_key_that_is_idle_after_a_burst_is_not_shown_as_busy() -> None:
    burst = [run(ended_ago=1.4 + 0.01 * number) for number in reversed(range(5))]
    assert rate(burst, 5) == 5.0
    assert rate([{**one, "ended_ago": one["ended_ago"] + 3600} for one in burst], 0) <= 0.1


@given(st.lists(st.floats(0, 300, allow_nan=False), max_size=60))
def test_the_runs_of_the_last_minute_are_counted_to_within_five_seconds(ends: list[float]) -> None:
    slots: Slots = {}
    for end in sorted(ends):
        count_end(slots, end)
    now = max(ends, default=0.0)
    counted = ends_of_last_minute(slots, now)
    assert sum(end > now - 55 for end in ends) <= counted <= sum(end >= now - 60 for end in ends)
    assert len(slots) <= 12
    assert ends_of_last_minute(slots, now + 60) == 0


def test_the_busiest_key_comes_first() -> None:
    def controller(*recent: tuple[str, float]) -> dict[str, Any]:
        queue = {"depths": {"0": 2}}
        runs = {key: [run(ended_ago=apart), run(ended_ago=0.0)] for key, apart in recent}
        counts = {key: int(60 / apart) for key, apart in recent}
        more = {"runs": 4, "failures": 0, "workers": 1, "running": [], "resting": [], "storms": {"d/b": {}}}
        return {"queue": queue, "recent": runs, "runs_last_minute": counts, **more}

    state = {
        "server": "s",
        "leading": True,
        "informers": [],
        "controllers": {"c": controller(("d/a", 9.0), ("d/b", 1.0))},
    }
    told = summary(state)
    assert [(one["key"], one["storm"]) for one in told["keys"]] == [("d/b", True), ("d/a", False)]
    assert told["controllers"][0]["waiting"] == 2
