"""A resource with several versions, whose specs have the integers and the members that a test names."""

from typing import Any

from tests.embedded.api_client import definition

GROUP = "/apis/shop.example.com"


def version(name: str, *fields: str, members: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    integers = {field: {"type": "integer"} for field in fields}
    spec = {"type": "object", "properties": integers | (members or {})}
    status = {"type": "object", "properties": {"ready": {"type": "integer"}}}
    schema = {"type": "object", "properties": {"spec": spec, "status": status}}
    made = {"name": name, "served": True, "storage": name == "v1", "schema": {"openAPIV3Schema": schema}}
    return {**made, "subresources": {"status": {}}, **more}


def things(*versions: dict[str, Any], **names: Any) -> dict[str, Any]:
    return definition(
        group="shop.example.com",
        names={"kind": "Thing", "plural": "things", **names},
        versions=list(versions),
    )


def collection(name: str) -> str:
    return f"{GROUP}/{name}/namespaces/default/things"


def thing(api_version: str, /, name: str = "a", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": f"shop.example.com/{api_version}",
        "kind": "Thing",
        "metadata": {"name": name},
        "spec": spec,
    }
