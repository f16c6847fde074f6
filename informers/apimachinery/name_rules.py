"""The rules for names and labels, with the messages of the API server."""

import re
from collections.abc import Callable

_LABEL_PART = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")
_LABEL = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?")
_LABEL_1035 = re.compile(r"[a-z](?:[-a-z0-9]*[a-z0-9])?")

_SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_LABEL_RULE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start "
    "and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_LABEL_1035_RULE = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic "
    "character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for "
    "validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
)
_WILDCARD_RULE = (
    "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must "
    "consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. "
    r"'*.example.com', regex used for validation is '\*\.[a-z0-9]([-a-z0-9]*[a-z0-9])?"
    r"(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_QUALIFIED_RULE = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used "
    "for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)

_PORT_NAME = re.compile(r"[-a-z0-9]+")
# IsValidPortName in apimachinery's util/validation.
_MAX_PORT_NAME = 15

NameCheck = Callable[[str], list[str]]
"""What is wrong with a name, as messages; empty if nothing is."""


def subdomain_faults(name: str) -> list[str]:
    """The rule for the names of most objects."""
    faults = [] if len(name) <= 253 else ["must be no more than 253 bytes"]
    return faults if _SUBDOMAIN.fullmatch(name) else [*faults, _SUBDOMAIN_RULE]


def check_namespace(name: str) -> None:
    """Raises ValueError for a name that no namespace can have."""
    if label_faults(name):
        expected = "expected at most 63 of a-z, 0-9 and dashes"
        raise ValueError(f"{name!r} is not the name of a namespace: {expected}")


def label_faults(name: str) -> list[str]:
    """The rule for the names of namespaces."""
    faults = [] if len(name) <= 63 else ["must be no more than 63 bytes"]
    return faults if _LABEL.fullmatch(name) else [*faults, _LABEL_RULE]


def port_name_faults(name: str) -> list[str]:
    """The rule for names of ports that others refer to."""
    faults = [] if len(name) <= _MAX_PORT_NAME else [f"must be no more than {_MAX_PORT_NAME} bytes"]
    if not _PORT_NAME.fullmatch(name):
        faults.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not any("a" <= sign <= "z" for sign in name):
        faults.append("must contain at least one letter (a-z)")
    if "--" in name:
        faults.append("must not contain consecutive hyphens")
    if name.startswith("-") or name.endswith("-"):
        faults.append("must not begin or end with a hyphen")
    return faults


def wildcard_subdomain_faults(name: str) -> list[str]:
    """The rule for host names whose first label is `*`."""
    faults = [] if len(name) <= 253 else ["must be no more than 253 bytes"]
    if name.startswith("*.") and _SUBDOMAIN.fullmatch(name[2:]):
        return faults
    return [*faults, _WILDCARD_RULE]


def service_name_faults(name: str) -> list[str]:
    """The rule for DNS labels of RFC 1035, which services had to keep to before 1.36."""
    faults = [] if len(name) <= 63 else ["must be no more than 63 bytes"]
    return faults if _LABEL_1035.fullmatch(name) else [*faults, _LABEL_1035_RULE]


def path_segment_faults(name: str) -> list[str]:
    """The rule for roles and their bindings, and the least for all others."""
    if name in (".", ".."):
        return [f"may not be '{name}'"]
    return [f"may not contain '{sign}'" for sign in "/%" if sign in name]


def label_key_faults(key: str) -> list[str]:
    """The rule for qualified names: `[domain/]name`."""
    prefix, slash, name = key.rpartition("/")
    faults = [f"prefix part {fault}" for fault in subdomain_faults(prefix)] if slash else []
    if not name:
        return [*faults, "name part must be non-empty", f"name part {_QUALIFIED_RULE}"]
    if len(name) > 63:
        faults.append("name part must be no more than 63 bytes")
    return faults if _LABEL_PART.fullmatch(name) else [*faults, _QUALIFIED_RULE]


def label_value_faults(value: str) -> list[str]:
    """The rule for the values of labels."""
    faults = [] if len(value) <= 63 else ["must be no more than 63 bytes"]
    return faults if not value or _LABEL_PART.fullmatch(value) else [*faults, _VALUE_RULE]
