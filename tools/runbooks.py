"""Fills the parts of the runbooks that follow from elsewhere: `python tools/runbooks.py`.

Each alert has a page `docs/runbooks/SLUG.md`. What people write stays as it is. Between `<!-- from ... -->`
and `<!-- end -->` stand the alert as it is declared, the rows of the index of errors that a page names, and
the planned faults that fire it.
`--check` writes nothing, prints the pages that are not up to date, and exits with 1 for them. The page of a
new alert is begun here and has to be written.
"""

import ast
import html
import itertools
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from reconcile.monitoring.alerts import ALERTS, Alert

ROOT: Final = Path(__file__).parent.parent
FOLDER: Final = ROOT / "docs" / "runbooks"
ERRORS: Final = ROOT / "docs" / "reference" / "errors.md"
FAULTS: Final = ROOT / "tests" / "monitoring"
END: Final = "<!-- end -->"
SECTIONS: Final = (
    "What it means",
    "What users notice",
    "How to look",
    "What to do",
    "When to escalate",
    "Likely causes",
    "How it is proved",
)
_PART = re.compile(
    r"(<!-- from (alert|alerts|errors|faults)(?:: (.*?))? -->\n)(.*?)(<!-- end -->)", re.DOTALL
)
_ROW = re.compile(r"^\| `(.+?)` \| (.*) \|$", re.MULTILINE)
_LABEL = re.compile(r"\{\{-? *(?:with +)?\$labels\.(\w+) *-?\}\}")


class RunbookError(Exception):
    """A page names what is not there; the message says what."""


def error_rows() -> Mapping[str, str]:
    """The rows of the index of errors by their first cells, with links that hold in docs/runbooks."""
    text = ERRORS.read_text()
    return {name: _moved(cells) for name, cells in _ROW.findall(text)}


def _moved(cells: str) -> str:
    """Links from docs/reference as they are from docs/runbooks."""
    return re.sub(r"\]\((?!\.\./|https?:|#)", "](../reference/", cells).replace(
        "](#", "](../reference/errors.md#"
    )


def filled(text: str, alert: Alert | None, rows: Mapping[str, str]) -> str:
    """A page whose generated parts are up to date. Raises RunbookError."""

    def fill(part: re.Match[str]) -> str:
        head, source, names, _, end = part.groups()
        return (
            f"{head}{''.join(f'{line}{chr(10)}' for line in _lines(source, names or '', alert, rows))}{end}"
        )

    return _PART.sub(fill, text)


def _lines(source: str, names: str, alert: Alert | None, rows: Mapping[str, str]) -> Iterator[str]:
    if source == "alerts":
        yield from _listed()
    elif source == "errors":
        yield from _causes(names, rows)
    elif source == "faults" and alert is not None:
        yield from _proved(alert)
    elif alert is not None:
        yield from _declared(alert)


def _declared(alert: Alert) -> Iterator[str]:
    urgency = "A page: look now." if alert.severity == "page" else "A ticket: look on the next working day."
    after = "at once" if alert.for_ == "0m" else f"after {alert.for_}"
    yield f"**{plain(alert.summary)}.** {plain(alert.description)}"
    yield f"{urgency} It fires {after}."
    yield ""
    # Folded, as nobody who is woken wants to read it first.
    rule = html.escape(alert.expr, quote=False)
    yield f"<details><summary>While this holds</summary><pre><code>{rule}</code></pre></details>"
    yield ""


def plain(template: str) -> str:
    """A text of Prometheus with the names of labels in place of their values."""
    text = re.sub(r"\{\{ *with.*?\}\}(.*?)\{\{ *end *\}\}", "", template)
    text = _LABEL.sub(lambda label: f"*{label[1]}*", text)
    return re.sub(r"\{\{ *\$value[^}]*\}\}", "*value*", text)


def _causes(names: str, rows: Mapping[str, str]) -> Iterator[str]:
    yield ""
    yield "| error or line of the log | cause | what to do |"
    yield "|---|---|---|"
    for name in re.findall('"(.+?)"', names):
        if name not in rows:
            raise RunbookError(f"there is no row {name!r} in {ERRORS.relative_to(ROOT)}")
        yield f"| `{name}` | {rows[name]} |"
    yield ""


def _proved(alert: Alert) -> Iterator[str]:
    named = " and by ".join(f"*{name.replace('_', ' ')}*" for name in faults_of(alert.name))
    yield f"In a simulated operator it is fired by {named}, and silent in healthy runs"
    yield f"(`{FAULTS.relative_to(ROOT)}`)."


def faults_of(alert: str) -> Sequence[str]:
    """The planned faults that must fire an alert. Raises RunbookError if there is none."""
    trees = [ast.parse(path.read_text()) for path in sorted(FAULTS.glob("*faults*.py"))]
    functions = [node for tree in trees for node in ast.walk(tree) if isinstance(node, _FUNCTIONS)]
    names = [one.name for one in functions for mark in one.decorator_list if alert in _fired(mark)]
    if not names:
        raise RunbookError(f"no planned fault in {FAULTS.relative_to(ROOT)} fires {alert}")
    return names


_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def _fired(mark: ast.expr) -> Iterator[str]:
    """The alerts that `@fires(...)` names; those which may fire too are not among them."""
    if not isinstance(mark, ast.Call) or ast.unparse(mark.func) != "fires":
        return
    given = [*mark.args, *(one.value for one in mark.keywords if one.arg == "lasting")]
    for node in itertools.chain.from_iterable(map(ast.walk, given)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def _listed() -> Iterator[str]:
    yield ""
    for severity, title in (("page", "Pages: look now"), ("ticket", "Tickets: look on the next working day")):
        yield f"## {title}"
        yield ""
        yield "| alert | |"
        yield "|---|---|"
        chosen = [alert for alert in ALERTS if alert.severity == severity]
        yield from (f"| [`{one.name}`]({one.slug}.md) | {plain(one.summary)} |" for one in chosen)
        yield ""


def begun(alert: Alert) -> str:
    """The page of a new alert, whose sections are to be written."""
    parts = [f"# {alert.name}", "<!-- from alert -->\n<!-- end -->"]
    for title in SECTIONS:
        parts.append(f"## {title}")
        if title == "How it is proved":
            parts.append("<!-- from faults -->\n<!-- end -->")
        if title == "Likely causes":
            parts.append('<!-- from errors: "failed" -->\n<!-- end -->')
    return "\n\n".join(parts) + "\n"


def pages() -> Iterator[tuple[Path, Alert | None]]:
    yield FOLDER / "index.md", None
    yield from ((FOLDER / f"{alert.slug}.md", alert) for alert in ALERTS)


def main(arguments: list[str]) -> int:
    rows, stale = error_rows(), []
    for path, alert in pages():
        text = path.read_text() if path.exists() else ""
        if not text and alert is not None:
            text = begun(alert)
        made = filled(text, alert, rows)
        if path.exists() and path.read_text() == made:
            continue
        stale.append(str(path.relative_to(ROOT)))
        if "--check" not in arguments:
            path.write_text(made)
    for name in stale:
        print(name)
    return 1 if stale and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
