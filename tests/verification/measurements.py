"""What the tools found on the zoo when it was measured last, and the page that shows it."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import median

from tests.verification.tools import TOOLS, Finding, find, plays
from tests.verification.zoo.all_bugs import ZOO
from tests.verification.zoo.patterns import BugPattern, Tool
from tests.verification.zoo.sieve_reports import SIEVE, not_re_created, short_name

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/reference/bug-patterns.md"
STORE = Path(__file__).parent / "measured.json"
BEGIN, END = "<!-- the table begins -->\n", "<!-- the table ends -->\n"

Seconds = float | None
"""CPU seconds to find a bug; None if it was not found."""
Measured = Mapping[str, Mapping[Tool, Seconds]]


class FalseAlarm(AssertionError):
    """A tool reports a twin that has no bug."""


def measure(bug: BugPattern, tool: Tool) -> Seconds:
    """How long a tool takes to find a bug. Raises FalseAlarm if it reports the twin."""
    twin = find(tool, bug.mended)
    if twin:
        raise FalseAlarm(f"{tool} reports the twin of {bug.name}: {', '.join(sorted(twin.rules))}")
    return _seconds(find(tool, bug.broken))


def _seconds(finding: Finding) -> Seconds:
    return round(finding.seconds, 2) if finding else None


def stored() -> Measured:
    """The last measurements."""
    measured: Measured = json.loads(STORE.read_text())
    return measured


def store(measured: Measured) -> None:
    """Keep measurements, without bugs and tools that there are no more."""
    kept = {
        bug.name: {tool: taken for tool, taken in measured[bug.name].items() if plays(bug, tool)}
        for bug in ZOO
        if bug.name in measured
    }
    STORE.write_text(json.dumps(kept, indent=1) + "\n")


# --- the page -------------------------------------------------------------------------------------


def page_with(text: str, measured: Measured) -> str:
    """The page with the present table in place of the one that it has."""
    return replaced_between(text, BEGIN, END, table(measured))


def replaced_between(text: str, begin: str, end: str, table: str) -> str:
    """The text with a table in place of what stands between two marks."""
    before, _, rest = text.partition(begin)
    _, _, after = rest.partition(end)
    return f"{before}{begin}\n{table}\n{end}{after}"


def table(measured: Measured) -> str:
    """All bugs by family, what each tool takes to find them, and which reports they stand for."""
    return "\n".join([*_summary(measured), "", *_families(measured), *_reports()])


def _summary(measured: Measured) -> Iterator[str]:
    yield f"There are {len(ZOO)} bugs."
    yield ""
    yield "| tool | finds | median | longest |"
    yield "|---|---|---|---|"
    for tool in TOOLS:
        tried = [bug for bug in ZOO if plays(bug, tool)]
        times = [taken for bug in tried if (taken := measured[bug.name].get(tool)) is not None]
        figures = f"{_text(median(times))} | {_text(max(times))}" if times else "- | -"
        yield f"| {tool} | {len(times)} of {len(tried)} | {figures} |"


def _families(measured: Measured) -> Iterator[str]:
    for family in dict.fromkeys(bug.family for bug in ZOO):
        yield f"### {family.capitalize()}"
        yield ""
        bugs = [bug for bug in ZOO if bug.family == family]
        tools = [tool for tool in TOOLS if any(plays(bug, tool) for bug in bugs)]
        yield f"| bug | what goes wrong | {' | '.join(tools)} |"
        yield f"|{'---|' * (2 + len(tools))}"
        for bug in bugs:
            cells = [_text(measured[bug.name].get(tool)) if plays(bug, tool) else "" for tool in tools]
            yield f"| `{bug.name}` | {bug.bug} | {' | '.join(cells)} |"
        yield ""


def _reports() -> Iterator[str]:
    yield "### Where they are from"
    yield ""
    for bug in ZOO:
        if bug.sources:
            yield f"- `{bug.name}`: {', '.join(map(_link, bug.sources))}"
    missing = not_re_created(source for bug in ZOO for source in bug.sources)
    yield ""
    yield (
        f"Of the {len(SIEVE)} bugs that Sieve reports, these stand for {len(SIEVE) - len(missing)}. "
        f"The others are not re-created: {', '.join(map(_link, missing))}."
    )


def _link(source: str) -> str:
    return f"[{short_name(source)}]({source})"


def _text(seconds: Seconds) -> str:
    return "-" if seconds is None else f"{seconds:.1f} s"
