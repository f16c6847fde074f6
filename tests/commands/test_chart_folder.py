"""`reconcile manifests --helm`: what people changed in a chart is never lost."""

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from reconcile.commands.main import reconcile
from reconcile.commands.problems import Problem
from reconcile.shipping.chart import RECORD
from tests.commands.helpers import complaint


def generate(folder: Path, *options: str) -> Result:
    return CliRunner().invoke(
        reconcile, ["manifests", "sites", "--helm", str(folder), *options], standalone_mode=False
    )


def generated(folder: Path, *options: str) -> list[str]:
    """The files that it says it wrote, in the folder."""
    result = generate(folder, *options)
    assert result.exception is None, result.exception
    return [str(Path(line).relative_to(folder)) for line in result.stdout.splitlines()]


def texts(folder: Path) -> Mapping[str, str]:
    files = [file for file in folder.rglob("*") if file.is_file()]
    return {str(file.relative_to(folder)): file.read_text() for file in files}


def replace(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


@pytest.fixture
def chart(tmp_path: Path) -> Path:
    generated(tmp_path / "chart")
    return tmp_path / "chart"


def test_a_chart_that_is_as_it_was_generated_is_generated_again(chart: Path) -> None:
    before = texts(chart)
    assert {"Chart.yaml", "values.yaml", "values.schema.json", ".helmignore", RECORD} <= set(before)
    assert generated(chart) == []
    assert texts(chart) == before
    assert generated(chart, "--replicas", "9") == ["values.yaml"]
    assert "replicas: 9" in (chart / "values.yaml").read_text()


def test_files_that_a_person_changed_are_not_overwritten(
    chart: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (chart / "templates/NOTES.txt").write_text("mine")
    replace(chart / "values.yaml", "replicas: 2", "replicas: 3")
    before = texts(chart)
    said = complaint(capsys, "manifests", "sites", "--helm", str(chart), "--replicas", "9")
    assert "templates/NOTES.txt, values.yaml" in said
    assert "--diff" in said
    assert "--merge" in said
    assert texts(chart) == before


def test_a_file_that_a_person_added_is_left_alone(chart: Path) -> None:
    (chart / "templates/mine.yaml").write_text("mine")
    assert generated(chart, "--replicas", "9") == ["values.yaml"]
    assert (chart / "templates/mine.yaml").read_text() == "mine"


def test_a_diff_is_what_a_merge_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # paths in a diff are as the folder was given
    chart = Path("chart")
    generated(chart)
    replace(chart / "values.yaml", "cpu: 10m", "cpu: 20m")
    before = texts(chart)
    result = generate(chart, "--diff", "--replicas", "9", "--sharding", "sites")
    assert result.return_value == 1
    assert texts(chart) == before
    generated(chart, "--merge", "--replicas", "9", "--sharding", "sites")
    after = texts(chart)
    for path, text in before.items():
        (chart / path).write_text(text)
    subprocess.run(["git", "apply", "-p0"], input=result.stdout, text=True, check=True)
    patched = texts(chart)
    assert {**patched, RECORD: ""} == {**after, RECORD: ""}
    assert "cpu: 20m" in patched["values.yaml"]
    assert "replicas: 9" in patched["values.yaml"]


def test_a_diff_of_nothing_is_empty_with_status_0(chart: Path) -> None:
    replace(chart / "values.yaml", "replicas: 2", "replicas: 3")
    result = generate(chart, "--diff")
    assert (result.return_value or 0, result.output) == (0, "")


def test_a_merge_keeps_what_the_author_changed_and_tells_where_both_did(chart: Path) -> None:
    replace(chart / "values.yaml", "replicas: 2", "replicas: 3")
    replace(chart / "values.yaml", "cpu: 10m", "cpu: 20m")
    result = generate(chart, "--merge", "--replicas", "9", "--image", "example.com/sites:2")
    values = (chart / "values.yaml").read_text()
    assert "replicas: 3" in values
    assert "cpu: 20m" in values
    assert "repository: example.com/sites" in values
    number = values.splitlines().index("replicas: 3") + 1
    assert f"values.yaml:{number}: you changed it, and generated is 'replicas: 9'" in result.stderr
    again = generate(chart, "--merge", "--replicas", "9", "--image", "example.com/sites:2")
    assert again.output == ""
    assert (chart / "values.yaml").read_text() == values


def test_a_deleted_file_stays_deleted(chart: Path) -> None:
    (chart / "templates/NOTES.txt").unlink()
    assert isinstance(generate(chart).exception, Problem)
    assert generated(chart, "--merge", "--replicas", "9") == ["values.yaml"]
    result = generate(chart, "--merge", "--name", "other")
    assert "NOTES.txt: you deleted it, and it is generated differently now" in result.stderr
    assert not (chart / "templates/NOTES.txt").exists()


def test_a_file_that_is_not_generated_any_more_goes_unless_it_was_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, chart = "tests.shipping.doors:manager", tmp_path / "chart"

    def of(target: str, *options: str) -> Result:
        arguments = ["manifests", target, "--name", "x", "--helm", str(chart), *options]
        return CliRunner().invoke(reconcile, arguments, standalone_mode=False)

    assert of(target).exception is None
    gone, changed = chart / "templates/policies.yaml", chart / "templates/webhooks.yaml"
    changed.write_text(f"{changed.read_text()}# mine\n")
    result = of("sites", "--merge")
    assert result.exception is None
    assert not gone.exists()
    assert str(gone) in result.stdout
    assert changed.exists()
    assert "webhooks.yaml: you changed it, and it is not generated any more" in result.stderr


def test_a_folder_with_a_chart_from_elsewhere_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "Chart.yaml").write_text("mine")
    assert isinstance(generate(tmp_path).exception, Problem)
    assert texts(tmp_path) == {"Chart.yaml": "mine"}
    result = generate(tmp_path, "--merge")
    assert "Chart.yaml: it is not from here, and a file of this name is generated" in result.stderr
    assert (tmp_path / "Chart.yaml").read_text() == "mine"
    assert (tmp_path / "values.yaml").exists()


# --- interruptions and hostile folders ------------------------------------------------------------------


class Killed(BaseException):
    pass


def test_a_run_that_is_killed_at_any_of_its_writes_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever it leaves, each file is whole and edits are there, and the next run completes it."""
    edit = ("cpu: 10m", "cpu: 20m")
    options = ("--merge", "--sharding", "sites", "--image", "example.com/sites:2")
    whole = tmp_path / "whole"
    generated(whole)
    replace(whole / "values.yaml", *edit)
    old = texts(whole)
    written = len(generated(whole, *options)) + 1
    new = texts(whole)
    assert written > 2
    rename = Path.replace
    for last in range(written):
        for after in (False, True):
            chart = tmp_path / f"{last}-{after}"
            generated(chart)
            replace(chart / "values.yaml", *edit)
            left = [last]

            def dying(self: Path, target: Path, after: bool = after, left: list[int] = left) -> Path:
                if left[0] == 0 and not after:
                    raise Killed
                done = rename(self, target)
                if left[0] == 0:
                    raise Killed
                left[0] -= 1
                return done

            with monkeypatch.context() as patch:
                patch.setattr(Path, "replace", dying)
                with pytest.raises(Killed):
                    generate(chart, *options)
            found = {path: text for path, text in texts(chart).items() if not path.endswith(".tmp")}
            assert all(text in (old[path], new[path]) for path, text in found.items())
            assert set(found) == set(new)
            generated(chart, *options)
            found = {path: text for path, text in texts(chart).items() if not path.endswith(".tmp")}
            assert found == new


def test_a_folder_inside_that_leads_elsewhere_is_not_written_to(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    chart = tmp_path / "chart"
    chart.mkdir()
    (chart / "templates").symlink_to(outside)
    problem = generate(chart).exception
    assert isinstance(problem, Problem)
    assert "leads out of" in problem.message
    assert list(outside.iterdir()) == []


def test_a_draft_that_leads_elsewhere_is_not_written_through(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("mine")
    chart = tmp_path / "chart"
    chart.mkdir()
    (chart / ".values.yaml.tmp").symlink_to(other)
    generated(chart)
    assert other.read_text() == "mine"
    assert not (chart / "values.yaml").is_symlink()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"files": []}',
        '{"files": {"values.yaml": 1}}',
        '{"files": {"values.yaml": [1]}}',
        '{"files": {"../outside": ["x"]}}',
        '{"files": {"/etc/passwd": ["x"]}}',
        "[" * 100_000,
    ],
)
def test_a_record_that_is_damaged_is_refused(chart: Path, text: str) -> None:
    (chart / RECORD).write_text(text)
    before = texts(chart)
    problem = generate(chart, "--merge").exception
    assert isinstance(problem, Problem)
    assert "is damaged" in problem.message
    assert problem.hint
    assert texts(chart) == before


def test_the_record_can_be_read_line_by_line(chart: Path) -> None:
    files = json.loads((chart / RECORD).read_text())["files"]
    assert "\n".join(files["values.yaml"]) == (chart / "values.yaml").read_text()


def test_a_file_that_is_no_text_is_reported(chart: Path) -> None:
    (chart / "values.yaml").write_bytes(b"\xff\xfe")
    problem = generate(chart, "--merge").exception
    assert isinstance(problem, Problem)
    assert "values.yaml is not text in UTF-8" in problem.message


def test_a_folder_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    problem = generate(tmp_path / "file" / "chart").exception
    assert isinstance(problem, Problem)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--diff",), "--diff and --merge are for a chart"),
        (("--merge",), "--diff and --merge are for a chart"),
        (("--helm", "c", "--json"), "--helm writes a chart and prints nothing"),
        (("--helm", "c", "--out", "b"), "--helm writes a chart and prints nothing"),
        (("--helm", "c", "--explain-admission"), "--helm writes a chart and prints nothing"),
        (("--helm", "c", "--diff", "--merge"), "--diff and --merge were both given"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    options: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(reconcile, ["manifests", "sites", *options], standalone_mode=False)
    assert isinstance(result.exception, Problem)
    assert said in result.exception.message
    assert list(tmp_path.iterdir()) == []
