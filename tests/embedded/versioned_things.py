"""A resource with several versions, whose specs have the integers that a test names."""

from typing import Any

from tests.embedded.api_client import definition

GROUP = "/apis/shop.example.com"


def version(name: str, *fields: str, **more: Any) -> dict[str, Any]:
    spec = {"type": "object", "properties": {field: {"type": "integer"} for field in fields}}
    status = {"type": "object", "properties": {"ready": {"type": "integer"}}}
    schema = {"type": "object", "properties": {"spec": spec, "status": status}}
    made = {"name": name, "served": True, "storage": name == "v1", "schema": {"openAPIV3Schema": schema}}
    return {**made, "subresources": {"status": {}}, **more}


def things(*versions: dict[str, Any]) -> dict[str, Any]:
    made = definition(
        group="shop.example.com", names={"kind": "Thing", "plural": "things"}, versions=list(versions)
    )
    made["metadata"]["name"] = "things.shop.example.com"
    return made


def collection(name: str) -> str:
    return f"{GROUP}/{name}/namespaces/default/things"


def thing(api_version: str, /, **spec: int) -> dict[str, Any]:
    return {
        "apiVersion": f"shop.example.com/{api_version}",
        "kind": "Thing",
        "metadata": {"name": "a"},
        "spec": spec,
    }
