"""Writes the tables of `docs/reference/kopf-names.md`; with `--check` it only compares."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from reconcile.adoption.kopf_counterparts import Counterpart
from reconcile.adoption.kopf_table import PAGE, sections

ROOT: Final = Path(__file__).parent.parent
FILE: Final = ROOT / PAGE
BEGIN: Final = "<!-- tables -->\n"


def tables() -> str:
    """The sections of the page in Markdown."""
    return "\n".join(
        line for section in sections() for line in _section(section.title, section.about, section.rows)
    )


def _section(title: str, about: str, rows: Sequence[Counterpart]) -> Iterator[str]:
    yield from ("", f"## {title}", "", about, "", "| on kopf | here | |", "|---|---|---|")
    for row in rows:
        name = f'<a id="{row.anchor}"></a>`{row.name}`'
        instead = row.instead.replace("|", "\\|")
        more = f"[more](../{row.page})" if row.page else ""
        yield f"| {name} | {row.here or 'none'} | {'. '.join(filter(None, [instead, more]))} |"


def written(page: str) -> str:
    """The page with its tables as they should be."""
    return f"{page.partition(BEGIN)[0]}{BEGIN}{tables()}\n"


def main() -> int:
    page = FILE.read_text(encoding="utf-8")
    if page == written(page):
        return 0
    if "--check" in sys.argv:
        print(f"{PAGE} is not up to date: python tools/kopf_names.py")
        return 1
    FILE.write_text(written(page), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
