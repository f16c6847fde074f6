"""Each alert has a runbook, and what a runbook says of alerts, errors, metrics and dashboards is so."""

import importlib.util
import re
import shlex
from contextlib import suppress
from pathlib import Path
from types import ModuleType

import click
import pytest

from reconcile.commands.main import reconcile
from reconcile.monitoring.alerts import ALERTS, Alert
from reconcile.monitoring.dashboards import Features, dashboards_of

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "runbooks"
UP_TO_DATE = "run: python tools/runbooks.py"


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("runbooks", ROOT / "tools" / "runbooks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


RUNBOOKS = generator()


def page_of(alert: Alert) -> str:
    return (FOLDER / f"{alert.slug}.md").read_text()


def sections_of(text: str) -> dict[str, str]:
    """The text below each title of a page, without what is generated."""
    written = re.sub(r"<!-- from .*?<!-- end -->", "", text, flags=re.DOTALL)
    parts = re.split(r"^## (.+)$", written, flags=re.MULTILINE)[1:]
    return {title: body.strip() for title, body in zip(parts[::2], parts[1::2], strict=True)}


@pytest.mark.rule("monitoring-runbooks")
def test_there_is_a_runbook_for_each_alert_and_no_other() -> None:
    names = {path.stem for path in FOLDER.glob("*.md")} - {"index"}
    assert names == {alert.slug for alert in ALERTS}


def test_the_site_leads_to_each_runbook() -> None:
    nav = (ROOT / "tools" / "mkdocs.yml").read_text()
    assert re.findall(r"runbooks/([\w-]+)\.md", nav) == ["index", *(alert.slug for alert in ALERTS)]


@pytest.mark.rule("monitoring-runbooks")
def test_what_runbooks_say_of_alerts_and_errors_is_up_to_date() -> None:
    rows = RUNBOOKS.error_rows()
    for path, alert in RUNBOOKS.pages():
        assert path.read_text() == RUNBOOKS.filled(path.read_text(), alert, rows), UP_TO_DATE


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.slug)
def test_a_runbook_says_what_it_means_what_users_notice_and_what_to_do(alert: Alert) -> None:
    text = page_of(alert)
    assert text.startswith(f"# {alert.name}\n\n<!-- from alert -->\n")
    sections = sections_of(text)
    assert tuple(sections) == RUNBOOKS.SECTIONS
    for title, body in sections.items():
        if title not in ("Likely causes", "How it is proved"):
            assert len(body.split()) >= 2, title
    assert '<!-- from errors: "' in text or sections["Likely causes"]
    assert re.match(r"1\. ", sections["What to do"])
    assert len(re.findall(r"^- ", sections["How to look"], re.MULTILINE)) >= 2


def test_panels_and_dashboards_that_runbooks_name_are_there() -> None:
    features = Features(sharding=True, webhooks=True, tls=True, migrations=True)
    made = [*dashboards_of(features), *dashboards_of(Features())]
    titles = {shown.title for one in made for shown in one.panels()} | {
        row.title for one in made for row in one.rows
    }
    short = (
        {title.partition(":")[0].partition(",")[0] for title in titles} | titles | {"Restarts", "Burn rate"}
    )
    boards = {one.title for one in made}
    named, boards_named = 0, 0
    for alert in ALERTS:
        text = " ".join(page_of(alert).split())
        for names in re.findall(
            r"\b[Pp]anels? ([A-Z].*?)(?: of the dashboard| shows?\b| says\b|:|\.| over the)", text
        ):
            for name in re.split(r", | and (?=[A-Z])", names):
                named += 1
                assert name in short, f"{alert.slug}: {name}"
        for name in re.findall(r"dashboard ([A-Z][\w ]*?)(?:[:.,)]|, | shows| over| and the)", text):
            boards_named += 1
            assert name in boards, f"{alert.slug}: {name}"
    assert named > 30
    assert boards_named > 20


def test_commands_that_runbooks_name_take_these_options() -> None:
    commands = {
        command
        for path in FOLDER.glob("*.md")
        for command in re.findall(r"`reconcile ([a-z]+ [^`]+)`", " ".join(path.read_text().split()))
    }
    assert len(commands) > 20
    for command in commands:
        name, *arguments = shlex.split(command)
        found = reconcile.get_command(click.Context(reconcile), name)
        assert found is not None, command
        with suppress(click.MissingParameter):  # such as the name of a command and an option alone
            found.make_context(name, arguments)


@pytest.mark.rule("monitoring-runbooks")
def test_a_runbook_names_the_fault_by_which_its_alert_is_proved() -> None:
    for alert in ALERTS:
        assert RUNBOOKS.faults_of(alert.name), alert.name
    with pytest.raises(RUNBOOKS.RunbookError, match="fires ReconcileNothing"):
        RUNBOOKS.faults_of("ReconcileNothing")


def test_a_row_that_is_not_in_the_index_of_errors_is_refused() -> None:
    page = '<!-- from errors: "no such error" -->\n<!-- end -->'
    with pytest.raises(RUNBOOKS.RunbookError, match="there is no row 'no such error'"):
        RUNBOOKS.filled(page, None, RUNBOOKS.error_rows())


def test_links_in_rows_lead_to_the_same_pages_from_a_runbook() -> None:
    for text in RUNBOOKS.error_rows().values():
        for link in re.findall(r"\]\(([^)#]*)", text):
            assert link.startswith("http") or (FOLDER / link).exists(), link


def test_a_new_alert_gets_a_page_with_all_sections_to_be_written() -> None:
    alert = ALERTS[0]
    text = RUNBOOKS.filled(RUNBOOKS.begun(alert), alert, RUNBOOKS.error_rows())
    assert tuple(sections_of(text)) == RUNBOOKS.SECTIONS
    assert "| `failed` |" in text
    assert RUNBOOKS.filled(text, alert, RUNBOOKS.error_rows()) == text


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{{ $labels.controller }} waits", "*controller* waits"),
        ("waits {{ $value | humanizeDuration }} now", "waits *value* now"),
        ("The server{{ with $labels.cluster }} of {{ . }}{{ end }} is gone", "The server is gone"),
    ],
)
def test_templates_of_alerts_are_shown_with_the_names_of_their_labels(template: str, text: str) -> None:
    assert RUNBOOKS.plain(template) == text
