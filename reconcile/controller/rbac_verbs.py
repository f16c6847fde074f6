"""The RBAC verbs that a controller may declare, and suggestions for misspelt ones."""

import re

from informers import APIResource

READ_VERBS = ("get", "list", "watch")
OBJECT_VERBS = ("get", "create", "update", "patch", "delete")
PART_VERBS = ("get", "create", "update", "patch")
REQUEST_VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
"""Verbs of requests for objects, in the order of a rule."""

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
"""Verbs that Kubernetes checks beside requests, and the resources that it checks them for."""
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
"""Words of HTTP and kubectl that are not RBAC verbs."""
_SYNTAX = re.compile(r"[a-z]+(?:[-:][a-z]+)*")
_ALIKE = 0.75


def check_verb(verb: str, resource: APIResource | None) -> None:
    """Raises ValueError for a verb that RBAC lacks, or not for that resource (None: any resource)."""
    if verb in _SPECIAL:
        _check_special(verb, resource)
        return
    if verb in _KNOWN:
        return
    import difflib  # only for an error

    # Admission plugins and extensions have verbs of their own: other words pass unless they resemble one.
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
    """Verbs of requests in the order of `REQUEST_VERBS`, then the others alphabetically."""
    return (*(verb for verb in REQUEST_VERBS if verb in verbs), *sorted(verbs.difference(REQUEST_VERBS)))


def _check_special(verb: str, resource: APIResource | None) -> None:
    whose, plurals = _SPECIAL[verb]
    built_in = resource is not None and ("." not in resource.group or resource.group.endswith(".k8s.io"))
    if resource is not None and built_in and resource.plural not in plurals:
        raise ValueError(f"{verb!r} is an RBAC verb for {whose}, not for {resource.name}")
