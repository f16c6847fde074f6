"""The page of kopf's names is the table that the command uses, and the guide names nothing that it lacks."""

import re
from pathlib import Path

from reconcile.adoption.kopf_table import PAGE, counterparts
from tools.kopf_names import written

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_has_the_table_as_it_is() -> None:
    page = (DOCS.parent / PAGE).read_text()
    assert page == written(page), "python tools/kopf_names.py"


def test_each_row_has_a_place_of_its_own_and_leads_to_pages_that_exist() -> None:
    rows = counterparts().values()
    page = (DOCS.parent / PAGE).read_text()
    anchors = re.findall(r'<a id="([^"]+)">', page)
    assert len(anchors) == len(set(anchors)) >= len(rows)
    assert {row.anchor for row in rows} <= set(anchors)
    assert [row.page for row in rows if row.page and not (DOCS / row.page).is_file()] == []


def test_what_the_guide_names_of_kopf_has_a_row() -> None:
    guide = (DOCS / "how-to" / "move-from-kopf.md").read_text()
    cells = [line.split("|")[1] for line in guide.splitlines() if line.startswith("| ")]
    names = {name for cell in cells for name in re.findall(r"`(kopf\.[\w.]+)", cell)}
    rows = {row.removeprefix("@") for row in counterparts()}
    assert names - rows - {"kopf.on.register", "kopf.zalando.org"} == set()
    assert len(names) > 20
