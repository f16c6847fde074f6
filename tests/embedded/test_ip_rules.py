"""Which texts are IP addresses and networks to an API server, and which of them it warns of."""

import pytest

from reconcile.embedded.protocol.ip_rules import (
    cidr_causes,
    cidr_warnings,
    endpoint_ip_causes,
    ip_causes,
    ip_warnings,
    is_ipv6,
    parse_ip,
)


@pytest.mark.parametrize(
    ("text", "fault", "warned"),
    [
        ("10.0.0.1", "", False),
        ("0.0.0.0", "", False),
        ("2001:db8::1", "", False),
        ("2001:DB8::1", "", True),
        ("2001:db8:0:0::1", "", True),
        ("010.0.0.001", "must not have leading 0s", True),
        ("::ffff:01.2.3.4", "must not have leading 0s", True),
        ("::ffff:1.2.3.4", "must not be an IPv4-mapped IPv6 address", True),
        ("", "must be a valid IP address", False),
        ("x", "must be a valid IP address", False),
        ("1.2.3", "must be a valid IP address", False),
        ("1..2.3", "must be a valid IP address", False),
        ("256.1.1.1", "must be a valid IP address", False),
        ("fe80::1%eth0", "must be a valid IP address", False),
        ("10.0.0.1/8", "must be a valid IP address", False),
    ],
)
def test_an_address_is_judged(text: str, fault: str, warned: bool) -> None:
    causes = [cause.message for cause in ip_causes("a", text)]
    assert [fault in message for message in causes] == [True] * bool(fault)
    assert bool(ip_warnings("a", text)) == warned


@pytest.mark.parametrize(
    ("text", "fault", "warnings"),
    [
        ("10.0.0.0/8", "", 0),
        ("0.0.0.0/0", "", 0),
        ("10.0.0.1/32", "", 0),
        ("2001:db8::/32", "", 0),
        ("2001:DB8::/32", "", 1),
        ("10.0.0.1/8", "must not have bits set beyond the prefix length", 1),
        ("10.0.0.0/08", "must not have leading 0s", 1),
        ("010.0.0.0/8", "must not have leading 0s", 1),
        ("::ffff:1.2.3.0/120", "must not have an IPv4-mapped IPv6 address", 1),
        ("10.0.0.0", "must be a valid CIDR value", 0),
        ("10.0.0.0/33", "must be a valid CIDR value", 0),
        ("10.0.0.0/-1", "must be a valid CIDR value", 0),
        ("10.0.0.0/", "must be a valid CIDR value", 0),
    ],
)
def test_a_network_is_judged(text: str, fault: str, warnings: int) -> None:
    causes = [cause.message for cause in cidr_causes("a", text)]
    assert [fault in message for message in causes] == [True] * bool(fault)
    assert len(cidr_warnings("a", text)) == warnings


def test_a_value_that_was_there_before_may_stay() -> None:
    assert [*ip_causes("a", "01.2.3.4", ["01.2.3.4"])] == []
    assert [*cidr_causes("a", "10.0.0.1/8", ["10.0.0.1/8"])] == []


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("10.0.0.1", 0),
        ("2001:db8::1", 0),
        ("x", 1),
        ("0.0.0.0", 1),
        ("127.1.2.3", 1),
        ("::1", 1),
        ("169.254.1.1", 1),
        ("fe80::1", 1),
        ("224.0.0.1", 1),
        ("224.0.1.1", 0),
        ("ff02::1", 1),
        ("ff05::1", 0),
        ("::ffff:127.0.0.1", 1),
    ],
)
def test_special_addresses_are_no_endpoints(text: str, count: int) -> None:
    assert len([*endpoint_ip_causes("a", text)]) == count


@pytest.mark.parametrize(
    ("text", "wanted"), [("::1", True), ("1.2.3.4", False), ("::ffff:1.2.3.4", False), ("x", False)]
)
def test_a_mapped_address_counts_as_ipv4(text: str, wanted: bool) -> None:
    assert is_ipv6(text) is wanted


def test_leading_zeros_are_decimal() -> None:
    assert str(parse_ip("010.00.000.1")) == "10.0.0.1"
