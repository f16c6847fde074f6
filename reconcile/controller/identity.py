"""The names of a controller in a cluster: its finalizer and its field manager.

Other operators write these objects too: with equal finalizers they would remove each other's before a
cleanup, with equal field managers each other's fields. So both begin with the operator's own domain.
"""

import re
from collections.abc import Collection

from informers import APIResource
from reconcile.client.field_managers import FIELD_MANAGER_LENGTH, STORMS, check_field_manager

_FROM_KUBERNETES = frozenset({"kubernetes", "orphan", "foregroundDeletion"})
_SHARED_GROUPS = (".k8s.io", ".x-k8s.io", ".kubernetes.io")

_NAME = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_DOMAIN = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")
_DOMAIN_LENGTH = 253


def domain_of(resource: APIResource) -> str:
    """The operator's domain by default: the group of the kind; empty for Kubernetes' own kinds."""
    group = resource.group
    return "" if "." not in group or group.endswith(_SHARED_GROUPS) else group


def check_name(name: str) -> str:
    """Returns the name of a controller. Raises ValueError for an invalid one."""
    if not _NAME.fullmatch(name):
        raise ValueError(
            f"name={name!r} of a controller: expected at most 63 letters, digits, '-', '_' and '.', "
            "a letter or a digit first and last"
        )
    return name


def check_operator(domain: str) -> str:
    """Returns the domain, or empty text. Raises ValueError for anything else."""
    if domain and not ("." in domain and _is_domain(domain)):
        raise ValueError(
            f"operator={domain!r}: expected a domain that belongs to your operator, in lower case, "
            "such as 'shop.example.com'"
        )
    return domain


def check_finalizer(finalizer: str) -> str:
    """Returns the finalizer, or empty text. Raises ValueError for one that the API server would refuse."""
    domain, slash, name = finalizer.rpartition("/")
    if finalizer and not (slash and _is_domain(domain) and _NAME.fullmatch(name)):
        raise ValueError(
            f"finalizer={finalizer!r}: expected a domain, '/' and a name of at most 63 letters, digits, "
            "'-', '_' and '.', such as 'shop.example.com/database'"
        )
    return finalizer


def check_former_finalizers(finalizers: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the finalizers. Raises ValueError for one that no controller can have set."""
    for finalizer in finalizers:
        domain, slash, name = finalizer.rpartition("/")
        if finalizer in _FROM_KUBERNETES:
            raise ValueError(f"former_finalizers: {finalizer!r} belongs to Kubernetes, leave it out")
        if not _NAME.fullmatch(name) or (slash and not _is_domain(domain)):
            raise ValueError(f"former_finalizers: {finalizer!r} is not the name of a finalizer")
    return finalizers


def check_own_field_manager(name: str) -> str:
    """Returns the field manager. Raises ValueError if `-storms` cannot be added to it."""
    most = FIELD_MANAGER_LENGTH - len(STORMS)
    if len(name) > most:
        raise ValueError(
            f"field manager {name!r}: expected at most {most} characters, got {len(name)}: "
            "give a shorter field_manager="
        )
    return check_field_manager(name)


def check_former(present: str, former: Collection[str]) -> None:
    """Raises ValueError where a present name is among the former ones."""
    if present in former:
        raise ValueError(f"{present!r} is the present name: leave it out of the former ones")


def _is_domain(text: str) -> bool:
    return len(text) <= _DOMAIN_LENGTH and _DOMAIN.fullmatch(text) is not None
