"""Where the load balancer of a Service or an Ingress listens, as their statuses say."""

from collections.abc import Collection, Iterator
from typing import Any

from informers.apimachinery.name_rules import subdomain_faults
from reconcile.embedded.kinds.built_in_kind import Object
from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.protocol.field_causes import value_invalid
from reconcile.embedded.protocol.ip_rules import ip_causes, parse_ip


def point_causes(point: Object, path: str, kept: Collection[Any]) -> Iterator[FieldCause]:
    """The faults of the address and the host name of one; `kept` are the addresses of the old status."""
    if point.get("ip"):
        yield from ip_causes(f"{path}.ip", point["ip"], kept)
    if not (name := point.get("hostname")):
        return
    for fault in subdomain_faults(name):
        yield value_invalid(f"{path}.hostname", name, fault)
    if parse_ip(name) is not None:
        yield value_invalid(f"{path}.hostname", name, "must be a DNS name, not an IP address")
