"""Finds what an API server would refuse in a definition, CEL rules included."""

import copy
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from reconcile.models.linting import Finding

_VERSION: Final = re.compile(r"spec\.versions\[(\d+)\]")
_SCHEMA: Final = re.compile(r".*?openAPIV3Schema\.?")
_PROPERTY: Final = re.compile(r"\.?properties\[([^\]]*)\]")


def has_rules(definition: Mapping[str, Any]) -> bool:
    return _holds(definition["spec"]["versions"], "x-kubernetes-validations")


def can_compile() -> bool:
    """Whether rules in CEL can be compiled here: the extra `embedded` is installed."""
    try:
        import reconcile.embedded.schema.cel  # noqa: F401
    except ImportError:
        return False
    return True


def refusals(definition: Mapping[str, Any]) -> Iterator[Finding]:
    """Each reason for which an API server would refuse a definition; CEL rules if they can be compiled."""
    try:
        from reconcile.embedded.kinds.custom_definitions import default_definition, prepare_definition
        from reconcile.embedded.kinds.definition_rules import validate_definition
    except ImportError:
        return
    prepared = copy.deepcopy(dict(definition))
    default_definition(prepared)
    prepare_definition(prepared, None)
    versions = prepared["spec"]["versions"]
    for cause in validate_definition(prepared, None):
        kind = f"{prepared['spec']['names']['kind']}{_version(cause.field, versions)}"
        problem = " ".join(cause.message.split())
        yield Finding(kind, _path(cause.field), f"an API server refuses it: {problem}")


def _version(path: str, versions: Sequence[Mapping[str, Any]]) -> str:
    match = _VERSION.match(path)
    return f" {versions[int(match[1])]['name']}" if match and len(versions) > 1 else ""


def _path(path: str) -> str:
    """`spec.validation.openAPIV3Schema.properties[spec].items` as authors write it: `.spec[]`."""
    inside, matches = _SCHEMA.subn("", path, count=1)
    if not matches:
        return f"definition.{path}"
    named = _PROPERTY.sub(r".\1", inside).replace(".items", "[]").replace(".additionalProperties", "[]")
    return named if named.startswith((".", "[")) else f".{named}"


def _holds(value: Any, name: str) -> bool:
    if isinstance(value, Mapping):
        return name in value or any(_holds(member, name) for member in value.values())
    return isinstance(value, list) and any(_holds(item, name) for item in value)
