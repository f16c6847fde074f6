"""A first object for a definition, with the fields that its schema requires."""

from collections.abc import Mapping, Sequence
from typing import Any

Schema = Mapping[str, Any]

_BY_FORMAT = {
    "date-time": "2030-01-01T00:00:00Z",
    "date": "2030-01-01",
    "duration": "60s",
    "uuid": "00000000-0000-4000-8000-000000000000",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "cidr": "192.0.2.0/24",
    "uri": "https://example.com",
    "hostname": "example.com",
    "email": "someone@example.com",
    "byte": "c2FtcGxl",
}


def sample_of(definition: Mapping[str, Any], version: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """An object named `sample` of a version, or of the stored one, with a value in each required field.

    That is the default, an allowed value, or the smallest of the type. Patterns and rules are ignored, so a
    server may refuse it.
    """
    spec = definition["spec"]
    version = version or stored_version(definition)
    schema: Schema = (version.get("schema") or {}).get("openAPIV3Schema") or {}
    properties = schema.get("properties") or {}
    metadata = {"name": "sample", **({} if spec["scope"] == "Cluster" else {"namespace": "default"})}
    body = {
        "apiVersion": f"{spec['group']}/{version['name']}",
        "kind": spec["names"]["kind"],
        "metadata": metadata,
    }
    for name in dict.fromkeys((*(schema.get("required") or ()), "spec")):
        if name in properties and name not in ("apiVersion", "kind", "metadata", "status"):
            body[name] = _value(properties[name])
    return body


def stored_version(definition: Mapping[str, Any]) -> Mapping[str, Any]:
    versions: Sequence[Mapping[str, Any]] = definition["spec"]["versions"]
    return next((one for one in versions if one.get("storage")), versions[0])


def _value(schema: Schema) -> Any:
    if "default" in schema:
        return schema["default"]
    if schema.get("enum"):
        return schema["enum"][0]
    if schema.get("x-kubernetes-int-or-string"):
        return 1
    match schema.get("type"):
        case "string":
            return _text(schema)
        case "integer" | "number":
            return _number(schema)
        case "boolean":
            return False
        case "array":
            return [_value(schema.get("items") or {}) for _ in range(schema.get("minItems") or 0)]
    properties = schema.get("properties") or {}
    return {name: _value(properties.get(name) or {}) for name in schema.get("required") or ()}


def _text(schema: Schema) -> str:
    known = _BY_FORMAT.get(schema.get("format") or "")
    if known is not None:
        return known
    return "sample"[: schema.get("maxLength")].ljust(schema.get("minLength") or 0, "x")


def _number(schema: Schema) -> int | float:
    least = schema.get("minimum")
    number: int | float = 1 if least is None else least
    if least is not None and schema.get("exclusiveMinimum"):
        number += 1
    most = schema.get("maximum")
    return number if most is None or number <= most else most
