"""The code of the how-to about models runs as it stands there."""

import re
from pathlib import Path
from typing import Any

from reconcile import definition_of, encode

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "models.md"


def test_the_code_of_the_page_runs_and_its_kind_has_a_definition() -> None:
    code = "\n".join(re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL))
    names: dict[str, Any] = {"__name__": "how_to_models"}
    exec(compile(code, str(PAGE), "exec"), names)
    assert definition_of(names["Site"])["metadata"]["name"] == "sites.example.com"
    assert encode(names["deployment"])["spec"]["template"]["spec"] == names["POD"]
    assert names["sidecar"]["spec"]["volumes"] == names["POD"]["volumes"]
