"""The rules for ports that several kinds have."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from informers.apimachinery.name_rules import label_faults, label_key_faults, port_name_faults
from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.protocol.field_causes import value_invalid

PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
MAX_PORT: Final = 65_535


def port_number_causes(path: str, number: int) -> Iterator[FieldCause]:
    """For a port that has to have a number."""
    if not 1 <= number <= MAX_PORT:
        yield value_invalid(path, number, f"must be between 1 and {MAX_PORT}, inclusive")


def port_causes(path: str, port: int | str) -> Iterator[FieldCause]:
    """For a port that is named by its number or by its name."""
    if isinstance(port, int):
        yield from port_number_causes(path, port)
    else:
        for fault in port_name_faults(port):
            yield value_invalid(path, port, fault)


def label_name_causes(path: str, name: str) -> Iterator[FieldCause]:
    """For names that have to be DNS labels (RFC 1123)."""
    for fault in label_faults(name):
        yield value_invalid(path, name, fault)


def app_protocol_causes(port: Mapping[str, Any], path: str) -> Iterator[FieldCause]:
    """For the optional `appProtocol` of a port, a qualified name."""
    protocol = port.get("appProtocol")
    if protocol is not None:
        for fault in label_key_faults(protocol):
            yield value_invalid(f"{path}.appProtocol", protocol, fault)
