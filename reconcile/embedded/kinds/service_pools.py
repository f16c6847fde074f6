"""The pools of cluster IPs and node ports, from which Services are given what they did not ask for."""

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from ipaddress import IPv4Address, ip_network
from typing import Final

from informers.apimachinery.name_rules import path_segment_faults
from reconcile.embedded.kinds.built_in_kind import Object, Others
from reconcile.embedded.kinds.service_addresses import align_addresses, choose_families, patch_addresses
from reconcile.embedded.kinds.service_defaults import WITH_NODE_PORTS, needs_health_check, node_ports
from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.protocol.field_causes import value_invalid
from reconcile.embedded.protocol.ip_rules import parse_ip
from reconcile.embedded.refusals import bare_server_error, internal

# The default of kubeadm's --service-cluster-ip-range. Its first address is the API server's own, and its last
# one is for broadcasts.
ADDRESSES: Final = ip_network("10.96.0.0/12")
_FIRST_ADDRESS: Final = int(ADDRESSES.network_address) + 2
_ADDRESSES: Final = range(_FIRST_ADDRESS, int(ADDRESSES.broadcast_address))
# The default of --service-node-port-range. As in a real server the first 86 are given last, since people who
# ask for one ask for these (KEP-3668).
NODE_PORTS: Final = range(30_000, 32_768)
_NODE_PORTS: Final = (*NODE_PORTS[86:], *NODE_PORTS[:86])

Owner = tuple[str, str]
"""The namespace and name of a service."""


class Pool:
    """Numbers that each belong to one service at most.

    It remembers to whom a number was given last, and looks whether that service still has it. So nothing has
    to be given back: neither by deletions nor by writes that fail, nor by dry runs.
    """

    def __init__(self, numbers: Sequence[int], held: Callable[[Object], Iterable[int]]) -> None:
        self._numbers = numbers
        self._held = held
        self._given: dict[int, Owner] = {}
        self._at = 0

    def learn(self, service: Object) -> None:
        """Remember what a stored service has."""
        for number in self._held(service):
            self._given[number] = _owner(service)

    def take(self, number: int, owner: Owner, others: Others) -> bool:
        """Whether the number may be had, which is then given to `owner`."""
        if number not in self._numbers or not self._is_free(number, others):
            return False
        self._given[number] = owner
        return True

    def take_next(self, owner: Owner, others: Others, avoid: Container[int] = ()) -> int | None:
        """A number that no other service has, and none that was given lately; None if there is none."""
        for _ in range(len(self._numbers)):
            number = self._numbers[self._at]
            self._at = (self._at + 1) % len(self._numbers)
            if number not in avoid and self.take(number, owner, others):
                return number
        return None

    def _is_free(self, number: int, others: Others) -> bool:
        owner = self._given.get(number)
        service = None if owner is None else others.named("", "services", owner[1], owner[0])
        return service is None or number not in self._held(service)


def _owner(service: Object) -> Owner:
    return service["metadata"].get("namespace") or "", service["metadata"].get("name") or ""


def _held_addresses(service: Object) -> Iterator[int]:
    for text in service["spec"].get("clusterIPs") or ():
        address = parse_ip(text)
        if address is not None:
            yield int(address)


def _held_ports(service: Object) -> Iterator[int]:
    yield from node_ports(service["spec"])
    yield service["spec"].get("healthCheckNodePort") or 0


class ServicePools:
    """What the services of one server have of its pools."""

    def __init__(self) -> None:
        self._addresses = Pool(_ADDRESSES, _held_addresses)
        self._ports = Pool(_NODE_PORTS, _held_ports)
        self._knows_stored = False

    def allocate(self, service: Object, old: Object | None, others: Others) -> list[FieldCause]:
        """Set the addresses and node ports of a service in place, or say why it cannot have them.

        Raises ApiFailure (500) where a real server does.
        """
        self._learn(others)
        spec, before = service["spec"], None if old is None else old["spec"]
        if before is not None:
            patch_addresses(spec, before)
            _patch_node_ports(spec, before)
        align_addresses(spec, before)
        causes = choose_families(spec, before)
        if not causes and _lacks_address(spec, before):
            causes = self._allocate_address(service, others)
        if causes:
            return causes
        return _PortAllocation(self._ports, service, before, others).run()

    def _learn(self, others: Others) -> None:
        if self._knows_stored:
            return
        for service in others.every("", "services"):
            self._addresses.learn(service)
            self._ports.learn(service)
        self._knows_stored = True

    def _allocate_address(self, service: Object, others: Others) -> list[FieldCause]:
        spec, owner = service["spec"], _owner(service)
        asked = spec.get("clusterIPs") or []
        if not owner[1] or path_segment_faults(owner[1]):
            # A real server keeps an IPAddress that names the service, which has to be valid.
            why = "failed to allocate IP: parentRef.name is invalid"
            return [value_invalid("spec.clusterIPs", asked, why)]
        if asked:
            address = parse_ip(asked[0])
            if address is not None and self._addresses.take(int(address), owner, others):
                return []
            in_range = address in ADDRESSES
            why = "provided IP is already allocated" if in_range else "provided IP is not in the valid range"
            text = f"failed to allocate IP {asked[0]}: {why}"
            return [value_invalid("spec.clusterIPs", asked, text)]
        number = self._addresses.take_next(owner, others)
        if number is None:
            raise internal("failed to allocate a serviceIP: range is full")
        spec["clusterIP"] = str(IPv4Address(number))
        spec["clusterIPs"] = [spec["clusterIP"]]
        return []


def _lacks_address(spec: Object, before: Object | None) -> bool:
    if spec["type"] == "ExternalName" or (spec.get("clusterIPs") or [""])[0] == "None":
        return False
    return before is None or before["type"] == "ExternalName"


def _patch_node_ports(spec: Object, before: Object) -> None:
    """Put back the node ports that an update left out, by the names of their ports."""
    if spec["type"] in WITH_NODE_PORTS and before["type"] in WITH_NODE_PORTS:
        kept = set(node_ports(before)) & set(node_ports(spec))
        by_name = {port.get("name") or "": port.get("nodePort") or 0 for port in before.get("ports") or ()}
        for port in spec.get("ports") or ():
            earlier = by_name.get(port.get("name") or "")
            if not port.get("nodePort") and earlier and earlier not in kept:
                port["nodePort"] = earlier
    if needs_health_check(spec) and needs_health_check(before) and not spec.get("healthCheckNodePort"):
        spec["healthCheckNodePort"] = before["healthCheckNodePort"]


class _PortAllocation:
    """The node ports of one write; a number can be taken once in it."""

    def __init__(self, pool: Pool, service: Object, before: Object | None, others: Others) -> None:
        self._pool = pool
        self._spec = service["spec"]
        self._before = before
        self._owner = _owner(service)
        self._others = others
        self._taken: set[int] = set()

    def run(self) -> list[FieldCause]:
        causes: list[FieldCause] = []
        if self._spec["type"] in WITH_NODE_PORTS:
            causes = self._for_new_ports() if self._before is None else self._for_changed_ports(self._before)
        had_health_check = self._before is not None and needs_health_check(self._before)
        if not causes and needs_health_check(self._spec) and not had_health_check:
            self._for_health_check()
        return causes

    def _wanted(self) -> Iterator[tuple[int, Object]]:
        """The ports that get or name a node port, with their index."""
        always = self._spec["type"] == "NodePort" or self._spec["allocateLoadBalancerNodePorts"]
        for index, port in enumerate(self._spec.get("ports") or ()):
            if always or port.get("nodePort"):
                yield index, port

    def _for_new_ports(self) -> list[FieldCause]:
        # Ports of the same number, such as DNS over TCP and UDP, share a node port.
        shared: dict[int, int] = {}
        for index, port in self._wanted():
            number = port.get("port") or 0
            if number not in shared:
                asked = self._asked_for(number)
                if asked and not self._take(asked):
                    return [_refused(index, asked)]
                port["nodePort"] = shared[number] = asked or self._take_next()
            elif not port.get("nodePort"):
                port["nodePort"] = shared[number]
            elif port["nodePort"] != shared[number] and not self._take(port["nodePort"]):
                return [_refused(index, port["nodePort"])]
        return []

    def _asked_for(self, number: int) -> int:
        ports = self._spec.get("ports") or ()
        same = (port.get("nodePort") or 0 for port in ports if (port.get("port") or 0) == number)
        return next((asked for asked in same if asked), 0)

    def _for_changed_ports(self, before: Object) -> list[FieldCause]:
        earlier, seen = set(node_ports(before)), set[tuple[str, int]]()
        for index, port in self._wanted():
            asked = port.get("nodePort") or 0
            if not asked:
                port["nodePort"] = self._take_next()
            elif asked not in earlier | self._taken and not self._take(asked):
                return [_refused(index, asked)]
            key = port["protocol"], port["nodePort"]
            if key in seen:
                raise bare_server_error(f"duplicate nodePort: {{{key[0]} {key[1]}}}")
            seen.add(key)
        return []

    def _for_health_check(self) -> None:
        asked = self._spec.get("healthCheckNodePort") or 0
        if not asked:
            self._spec["healthCheckNodePort"] = self._take_next()
        elif not self._take(asked):
            why = _why_not(asked)
            raise internal(f"failed to allocate requested HealthCheck NodePort {asked}: {why}")

    def _take(self, number: int) -> bool:
        if number in self._taken or not self._pool.take(number, self._owner, self._others):
            return False
        self._taken.add(number)
        return True

    def _take_next(self) -> int:
        number = self._pool.take_next(self._owner, self._others, self._taken)
        if number is None:
            raise internal("failed to allocate a nodePort: range is full")
        self._taken.add(number)
        return number


def _refused(index: int, number: int) -> FieldCause:
    return value_invalid(f"spec.ports[{index}].nodePort", number, _why_not(number))


def _why_not(number: int) -> str:
    if number in NODE_PORTS:
        return "provided port is already allocated"
    valid = f"{NODE_PORTS[0]}-{NODE_PORTS[-1]}"
    return f"provided port is not in the valid range. The range of valid ports is {valid}"
