"""Laws of what is printed."""

from hypothesis import given
from hypothesis import strategies as st

from reconcile.doctor.findings import MOST, Finding, Report, at_most, printable


@given(st.text())
def test_what_is_printed_is_one_line_without_control_characters(text: str) -> None:
    line = Finding("leases", "error", text, text, text).line()
    assert line.isprintable()
    assert len(line.splitlines()) == 1


@given(st.text().filter(str.isprintable))
def test_what_a_terminal_shows_as_it_is_stays_as_it_is(text: str) -> None:
    assert printable(text) == text


@given(st.lists(st.sampled_from(["error", "warning", "unknown"]), max_size=3 * MOST))
def test_findings_left_out_are_the_least_bad_and_they_are_counted(levels: list[str]) -> None:
    findings = [Finding("leases", level, str(n), "", "") for n, level in enumerate(levels)]  # type: ignore[arg-type]
    shown = at_most(findings)
    assert len(shown) == min(len(findings), MOST)
    assert ("error" in levels) == Report(("leases",), shown).failed
    if len(findings) > MOST:
        assert shown[-1].subject == f"{len(findings) - MOST + 1} more"


def test_the_summary_counts_each_severity() -> None:
    levels = ("error", "error", "warning", "unknown")
    findings = [Finding("leases", level, "", "", "") for level in levels]  # type: ignore[arg-type]
    assert Report(("a", "b"), findings).summary() == "checked 2 things: 2 errors, 1 warning, 1 not known"
    assert Report(("a",), ()).summary() == "checked 1 thing: nothing found"
