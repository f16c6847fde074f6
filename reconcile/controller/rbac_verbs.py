"""The verbs of RBAC that a controller may declare: what to check, and what a wrong one was meant to be."""

import difflib
import re

from informers import APIResource

READ_VERBS = ("get", "list", "watch")
OBJECT_VERBS = ("get", "create", "update", "patch", "delete")
PART_VERBS = ("get", "create", "update", "patch")
REQUEST_VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
"""Those of requests for objects, in the order in which a rule names them."""

_ROLES = frozenset({"roles", "clusterroles"})
_SIGNERS = frozenset({"signers"})
_SUBJECTS = frozenset({"users", "groups", "serviceaccounts", "uids", "userextras"})
_SPECIAL = {
    "bind": ("Role and ClusterRole", _ROLES),
    "escalate": ("Role and ClusterRole", _ROLES),
    "impersonate": ("users, groups, uids, userextras and ServiceAccount", _SUBJECTS),
    "approve": ("signers of certificates.k8s.io", _SIGNERS),
    "sign": ("signers of certificates.k8s.io", _SIGNERS),
    "attest": ("signers of certificates.k8s.io", _SIGNERS),
}
"""What Kubernetes itself asks for beside requests, and the plurals that it asks it of."""
_KNOWN = (*REQUEST_VERBS, *_SPECIAL, "use")
_MEANT = {
    "add": "create",
    "apply": "patch",
    "edit": "update",
    "post": "create",
    "put": "update",
    "read": "get",
    "remove": "delete",
    "view": "get",
    "write": "update",
}
"""Words of HTTP and of kubectl that no server ever asks for."""
_SYNTAX = re.compile(r"[a-z]+(?:[-:][a-z]+)*")
_ALIKE = 0.75


def check_verb(verb: str, resource: APIResource | None) -> None:
    """Raise ValueError for a verb that RBAC has not, or not of that resource; None: of any.

    Any word may be a verb of a server that asks for it, as admission plugins and extensions do, so what is
    not known is taken, unless it looks like one that is.
    """
    if verb in _SPECIAL:
        _check_special(verb, resource)
        return
    if verb in _KNOWN:
        return
    meant = _MEANT.get(verb.lower()) or next(
        iter(difflib.get_close_matches(verb.lower(), _KNOWN, 1, _ALIKE)), ""
    )
    if meant:
        raise ValueError(f"{verb!r} is not an RBAC verb: use {meant!r}")
    if not _SYNTAX.fullmatch(verb):
        raise ValueError(
            f"{verb!r} is not an RBAC verb: expected words in lower case, such as 'get' or 'bind'"
        )


def ordered(verbs: "set[str] | frozenset[str]") -> tuple[str, ...]:
    """Those of requests in the order of `REQUEST_VERBS`, then the others by their letters."""
    return (*(verb for verb in REQUEST_VERBS if verb in verbs), *sorted(verbs.difference(REQUEST_VERBS)))


def _check_special(verb: str, resource: APIResource | None) -> None:
    whose, plurals = _SPECIAL[verb]
    built_in = resource is not None and ("." not in resource.group or resource.group.endswith(".k8s.io"))
    if resource is not None and built_in and resource.plural not in plurals:
        raise ValueError(f"{verb!r} is an RBAC verb for {whose}, not for {resource.name}")
