"""`reconcile logs`, as it is typed: files, pipes, filters, and bad input."""

import datetime
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from reconcile.commands.logs_command import logs, oldest_of
from reconcile.commands.main import reconcile
from reconcile.commands.problems import Problem
from tests.commands.helpers import complaint

NOW = datetime.datetime(2026, 11, 23, 12, 0, tzinfo=datetime.UTC)
APPLY = "apply configmaps default/web: .data.size -> version 12"


def line(second: int, event: str = "reconciled", level: str = "info", **fields: Any) -> str:
    whole = {
        "controller": "site",
        "key": "default/web",
        **fields,
        "event": event,
        "timestamp": f"2026-11-23T12:00:{second:02}.000Z",
        "level": level,
        "logger": "reconcile.site",
    }
    return json.dumps(whole)


LOG = [
    line(
        1,
        woken_by=["sites default/web added at version 41"],
        wrote=[APPLY],
        result="success",
        reconcile_id="1f0c55aa",
    ),
    line(
        2, "failed", "warning", error="OSError: no disk", exception="Traceback\n  File x\nOSError", key="a/b"
    ),
    line(3, key="default/api", reconcile_id="2abc55aa"),
    "some other program",
    line(4, "leading", controller=None, key=None),
    line(5, "failed for good", "error", reconcile_id="1f0c77aa")[:-9],
]


def shown(*arguments: str, text: str = "\n".join(LOG)) -> Result:
    return CliRunner().invoke(logs, arguments, input=text)


def test_a_log_is_shown_for_people_with_the_words_of_explain() -> None:
    first, failed, *traceback, third, foreign, leading, half = shown().stdout.splitlines()
    assert first == (
        "2026-11-23T12:00:01.000Z info     1f0c55aa site default/web: reconciled  "
        f"woken by: sites default/web added at version 41  wrote: {APPLY}  result: success"
    )
    assert failed == "2026-11-23T12:00:02.000Z warning  site a/b: failed  error: OSError: no disk"
    assert traceback == ["    Traceback", "      File x", "    OSError"]
    assert third == "2026-11-23T12:00:03.000Z info     2abc55aa site default/api: reconciled"
    assert foreign == "some other program"
    assert leading == "2026-11-23T12:00:04.000Z info     reconcile.site: leading"
    assert half.startswith('{"controller": "site"')
    assert shown().stderr == ""


@pytest.mark.rule("log-read")
@pytest.mark.parametrize(
    ("arguments", "seconds"),
    [
        (("Site", "default/web"), [1]),
        (("sites",), [1, 2, 3]),
        (("--controller", "site"), [1, 2, 3]),
        (("--id", "2abc"), [3]),
        (("--level", "warning"), [2]),
        (("--since", "2026-11-23T12:00:03Z"), [3, 4]),
        (("Site", "default/web", "--level", "error"), []),
    ],
)
def test_filters_choose_lines_and_json_leaves_them_unchanged(
    arguments: tuple[str, ...], seconds: list[int]
) -> None:
    chosen = shown(*arguments, "--json")
    assert chosen.exit_code == 0
    whole = [one for one in LOG if one.endswith("}")]
    assert chosen.stdout.splitlines() == [
        one for one in whole if json.loads(one)["timestamp"][17:19] in {f"{second:02}" for second in seconds}
    ]
    assert "2 of 6 lines are not JSON of a manager and were left out" in chosen.stderr
    assert ("none of 6 lines matches" in chosen.stderr) is (not seconds)


def test_a_kind_that_no_controller_is_named_for_leads_to_the_controllers_of_the_key() -> None:
    told = shown("Gadget", "default/web").stderr.splitlines()[-1]
    assert told == "none of 6 lines matches; the controllers with lines of that key: site"


def test_several_files_are_one_log_by_time(tmp_path: Path) -> None:
    one, other = tmp_path / "a.log", tmp_path / "b.log"
    one.write_text(f"{line(1)}\n{line(5)}\nbehind 5\n{line(7)}\n")
    other.write_text(f"before all\n{line(3)}\n{line(6)}\n")
    rows = shown("--file", str(one), "--file", str(other), text="").stdout.splitlines()
    assert [row if row[:4] != "2026" else int(row[17:19]) for row in rows] == [
        "before all", 1, 3, 5, "behind 5", 6, 7,
    ]  # fmt: skip


def test_control_characters_of_a_log_do_not_reach_the_terminal() -> None:
    hostile = "\x1b[2J\u202eroot\x9b31m"
    told = shown(text=f"{line(1, key=hostile)}\n{hostile}\n{json.dumps({hostile: 1})}\n")
    assert told.exit_code == 0
    assert all(row.isprintable() for row in told.stdout.splitlines())
    assert told.stdout.count(r"\x1b[2J\u202eroot\x9b31m") == 2


def test_an_empty_log_is_shown_as_nothing() -> None:
    told = shown(text="\n\n")
    assert (told.exit_code, told.output) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "error", "step"),
    [
        (("Site", "a/b/c"), "'a/b/c' does not name an object", "NAMESPACE/NAME"),
        (("--since", "yesterday"), "'yesterday' is not a time", "10m"),
        (("--follow",), "these options are about the pods of an operator", "--name"),
        (("--previous", "--file", "x"), "these options are about the pods of an operator", "--name"),
        (
            ("--name", "sites", "-f", "--previous"),
            "--follow and --previous were both given",
            "writes no more",
        ),
        (("--name", "sites", "--file", "x"), "--file and --name are two logs", "leave one"),
        (("--file", "/nowhere"), "cannot read /nowhere", "No such file"),
        (("--file", "/"), "cannot read /", "directory"),
        (("--name", "sites", "--kubeconfig", "/nowhere"), "/nowhere", "--kubeconfig"),
    ],
)
def test_bad_input_is_one_line_with_the_next_step(
    arguments: tuple[str, ...], error: str, step: str, capsys: pytest.CaptureFixture[str]
) -> None:
    told = complaint(capsys, "logs", *arguments)
    assert error in told
    assert step in told


def test_a_level_that_is_none_is_answered_with_all_levels() -> None:
    told = CliRunner().invoke(reconcile, ["logs", "--level", "loud"])
    assert told.exit_code == 2
    assert "'warning'" in told.output


@pytest.mark.parametrize(
    ("text", "oldest"),
    [
        ("90s", NOW - datetime.timedelta(seconds=90)),
        ("10m", NOW - datetime.timedelta(minutes=10)),
        ("2h", NOW - datetime.timedelta(hours=2)),
        ("1d", NOW - datetime.timedelta(days=1)),
        ("999999999d", datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)),
        ("2026-11-23T12:00:00Z", NOW),
        ("2026-11-23T13:00:00+01:00", NOW),
        ("2026-11-23", NOW.replace(hour=0)),
    ],
)
def test_since_takes_a_time_span_or_a_time(text: str, oldest: datetime.datetime) -> None:
    assert oldest_of(text, NOW) == oldest


@pytest.mark.parametrize("text", ["", "10", "m", "-5m", "10 m", "1e3s", "25:00"])
def test_since_refuses_what_is_neither(text: str) -> None:
    with pytest.raises(Problem):
        oldest_of(text, NOW)
