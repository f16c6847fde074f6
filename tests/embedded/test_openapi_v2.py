"""The OpenAPI v2 document in JSON."""

import re

import msgspec
import pytest

from tests.embedded.api_client import Api


@pytest.fixture
def document(api: Api) -> dict[str, object]:
    found: dict[str, object] = api.ok("GET", "/openapi/v2")
    return found


def test_every_reference_leads_to_a_definition(document: dict[str, dict[str, object]]) -> None:
    references = set(re.findall(r'"\$ref":"([^"]+)"', msgspec.json.encode(document).decode()))
    assert references
    assert references <= {f"#/definitions/{name}" for name in document["definitions"]}


def test_it_has_no_word_of_version_3(document: dict[str, object]) -> None:
    text = msgspec.json.encode(document).decode()
    assert not re.findall(r'"(requestBody|components|oneOf|nullable)":[{\[t]', text)


def test_a_write_takes_its_object_in_the_body(api: Api, document: dict[str, dict[str, dict]]) -> None:  # type: ignore[type-arg]
    post = document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments"]["post"]
    (body,) = [one for one in post["parameters"] if one["in"] == "body"]
    assert body["schema"] == {"$ref": "#/definitions/io.k8s.api.apps.v1.Deployment"}
    assert {"name": "dryRun", "in": "query", "type": "string", "uniqueItems": True} in post["parameters"]
