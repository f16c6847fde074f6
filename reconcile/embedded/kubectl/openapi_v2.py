"""The OpenAPI v2 document, for tools that do not read version 3 (Terraform's provider, validators in CI)."""

from collections.abc import Iterable, Mapping
from typing import Any

Document = dict[str, Any]

# Version 2 has no word for these; a real server leaves them out of the schemas of definitions, too.
_ONLY_IN_V3 = frozenset({"allOf", "anyOf", "nullable", "not", "oneOf", "writeOnly"})


def swagger(version: str, documents: Iterable[Document]) -> Document:
    """One document of all group versions, made of their OpenAPI v3 documents."""
    paths: Document = {}
    definitions: Document = {}
    for document in documents:
        paths |= {path: _path_item(item) for path, item in document["paths"].items()}
        definitions |= {name: _schema(schema) for name, schema in document["components"]["schemas"].items()}
    return {
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": version},
        "paths": paths,
        "definitions": definitions,
    }


def _path_item(item: Mapping[str, Any]) -> Document:
    return {
        method: [_parameter(one) for one in operation] if method == "parameters" else _operation(operation)
        for method, operation in item.items()
    }


def _operation(operation: Mapping[str, Any]) -> Document:
    made = {key: value for key, value in operation.items() if key not in ("requestBody", "responses")}
    parameters = [_parameter(one) for one in operation.get("parameters", ())]
    body = operation.get("requestBody")
    if body is not None:
        made["consumes"] = list(body["content"])
        schema = next(iter(body["content"].values()))["schema"]
        parameters.append({"name": "body", "in": "body", "required": True, "schema": _schema(schema)})
    if parameters:
        made["parameters"] = parameters
    made["responses"] = {code: _response(response) for code, response in operation["responses"].items()}
    return made


def _parameter(parameter: Mapping[str, Any]) -> Document:
    return {**{key: value for key, value in parameter.items() if key != "schema"}, **parameter["schema"]}


def _response(response: Mapping[str, Any]) -> Document:
    made = {key: value for key, value in response.items() if key != "content"}
    for content in response.get("content", {}).values():
        made["schema"] = _schema(content["schema"])
    return made


def _schema(schema: Mapping[str, Any]) -> Document:
    if "$ref" in schema:
        place: str = schema["$ref"]
        return {"$ref": place.replace("#/components/schemas/", "#/definitions/")}
    made: Document = {}
    for keyword, value in schema.items():
        if keyword in ("items", "additionalProperties") and isinstance(value, Mapping):
            made[keyword] = _schema(value)
        elif keyword == "properties":
            made[keyword] = {name: _schema(member) for name, member in value.items()}
        elif keyword == "allOf" and len(value) == 1 and "$ref" in value[0]:
            made |= _schema(value[0])  # a reference with a description beside it
        elif keyword not in _ONLY_IN_V3:
            made[keyword] = value
    if schema.get("format") == "int-or-string":
        made["type"] = "string"
    return made
