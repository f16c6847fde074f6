"""The code of the how-to pages about controllers and managers runs as it stands there."""

import re
from pathlib import Path
from typing import Any

import pytest

PAGES = Path(__file__).parents[2] / "docs" / "how-to"


@pytest.mark.parametrize(
    "page",
    [
        "admission",
        "blocking-code",
        "name-an-operator",
        "several-clusters",
        "share-objects-among-replicas",
        "two-versions-in-production",
    ],
)
def test_the_code_on_the_page_runs(page: str) -> None:
    path = PAGES / f"{page}.md"
    code = "\n".join(re.findall(r"```python\n(.*?)```", path.read_text(), re.DOTALL))
    names: dict[str, Any] = {"__name__": page.replace("-", "_")}
    exec(compile(code, str(path), "exec"), names)
