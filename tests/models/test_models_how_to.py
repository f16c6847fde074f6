"""The code of the how-to about models runs as it stands there."""

import re
from pathlib import Path
from typing import Any

import pytest

from reconcile.kinds import Pod
from reconcile.models import definition_of, encode, thaw
from reconcile.testing import FakeClient

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "models.md"


@pytest.fixture(scope="module")
def names() -> dict[str, Any]:
    """What the blocks of the page define, one after the other."""
    code = "\n".join(re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL))
    made: dict[str, Any] = {"__name__": "how_to_models"}
    exec(compile(code, str(PAGE), "exec"), made)
    return made


def test_the_kind_on_the_page_has_a_definition_and_passes_its_property_test(names: dict[str, Any]) -> None:
    assert definition_of(names["Site"])["metadata"]["name"] == "sites.example.com"
    names["test_every_site_survives_its_json"]()


async def test_the_three_forms_of_a_pod_are_equivalent(names: dict[str, Any]) -> None:
    stored = []
    for form in ("as_model", "as_mapping", "as_yaml"):
        client = FakeClient()
        await client.with_options(namespace="default").apply(names[form])
        body = encode(await client.get(Pod, "web", "default"))
        stored.append((body["metadata"]["labels"], thaw(body["spec"])))
    assert stored[0][1]["volumes"] == [{"name": "cache", "emptyDir": {}}]
    assert stored[0][1]["containers"][0]["readinessProbe"]["httpGet"] == {
        **names["READY"]["httpGet"],
        "scheme": "HTTP",
    }
    assert stored[0][1]["affinity"] == names["AFFINITY"]
    assert stored[0] == stored[1] == stored[2]
