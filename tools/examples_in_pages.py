"""For the site: an example's page shows the files that it links to. On GitHub the links are enough."""

import re
from pathlib import Path

from mkdocs.structure.pages import Page

LINK = re.compile(r"\]\((\w+\.py)\)")


def on_page_markdown(markdown: str, *, page: Page, **_: object) -> str:
    """The page with each file at its end, and with links that point there."""
    source = Path(str(page.file.abs_src_path))
    if not page.file.src_uri.startswith("examples/"):
        return markdown
    files = dict.fromkeys(LINK.findall(markdown))
    shown = [f"## {name}\n\n```python\n{(source.parent / name).read_text()}```\n" for name in files]
    linked = LINK.sub(lambda match: f"](#{match[1].replace('.', '')})", markdown)
    return "\n".join([linked, *shown])
