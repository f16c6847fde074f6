"""Kubernetes' CEL library of named formats: `format.dns1123Label().validate(text)`."""

from collections.abc import Callable, Mapping
from typing import Final

from informers.apimachinery.name_rules import (
    label_faults,
    label_key_faults,
    label_value_faults,
    service_name_faults,
    subdomain_faults,
)
from reconcile.embedded.schema.cel.network import Opaque
from reconcile.embedded.schema.formats import has_format

_Faults = Callable[[str], list[str]]


def _prefix(faults: _Faults) -> _Faults:
    # The last character of a prefix may be a dash, since more will follow.
    return lambda text: faults(text[:-1] + "a" if len(text) > 1 and text.endswith("-") else text)


def _shaped(name: str, why: str) -> _Faults:
    return lambda text: [] if has_format(text, name) else [why]


NAMED_FORMATS: Final[Mapping[str, _Faults]] = {
    "dns1123Label": label_faults,
    "dns1123Subdomain": subdomain_faults,
    "dns1035Label": service_name_faults,
    "dns1123LabelPrefix": _prefix(label_faults),
    "dns1123SubdomainPrefix": _prefix(subdomain_faults),
    "dns1035LabelPrefix": _prefix(service_name_faults),
    "qualifiedName": label_key_faults,
    "labelValue": label_value_faults,
    "uri": _shaped("uri", "invalid URI for request"),
    "uuid": _shaped("uuid", "does not match the UUID format"),
    "byte": _shaped("byte", "invalid base64"),
    "date": _shaped("date", "invalid date"),
    "datetime": _shaped("date-time", "invalid datetime"),
}


def named(name: str) -> list[Opaque]:
    """`format.named(name)`: the format, or nothing."""
    return [{"format": name}] if name in NAMED_FORMATS else []


def validate(value: Opaque, text: str) -> list[list[str]]:
    """`format.validate(text)`: its faults as one list, or nothing."""
    faults = NAMED_FORMATS[value["format"]](text)
    return [faults] if faults else []
