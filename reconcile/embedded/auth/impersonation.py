"""Impersonation: the Impersonate-* headers, and the rights that they need."""

from collections.abc import Iterator, Mapping
from functools import partial
from urllib.parse import unquote

from reconcile.embedded.auth.attributes import Attributes
from reconcile.embedded.auth.users import (
    AUTHENTICATED,
    UNAUTHENTICATED,
    User,
    service_account_groups,
    split_service_account,
)
from reconcile.embedded.refusals import internal

_EXTRA = "impersonate-extra-"


def impersonated(headers: Mapping[str, str]) -> User | None:
    """The user that the headers name (in lower case); None when they name none.

    Raises ApiFailure (500, as the real server does) for groups, uid or extra without a user.
    """
    name = headers.get("impersonate-user", "")
    groups = tuple(group for group in headers.get("impersonate-group", "").split(",") if group)
    uid = headers.get("impersonate-uid", "")
    extra = {
        unquote(header.removeprefix(_EXTRA)): tuple(value.split(","))
        for header, value in headers.items()
        if header.startswith(_EXTRA)
    }
    if not name:
        if groups or uid or extra:
            raise internal("requested impersonation of groups, uid or extra without impersonating a user")
        return None
    account = split_service_account(name)
    if account is not None and not groups:
        groups = service_account_groups(account[0])
    if name != "system:anonymous" and not {AUTHENTICATED, UNAUTHENTICATED} & set(groups):
        groups = (*groups, AUTHENTICATED)
    elif name == "system:anonymous" and UNAUTHENTICATED not in groups:
        groups = (*groups, UNAUTHENTICATED)
    return User(name, groups, uid, extra)


def impersonation_acts(user: User, headers: Mapping[str, str], target: User) -> Iterator[Attributes]:
    """What `user` must be allowed to do in order to act as `target`."""
    act = partial(Attributes, user, "impersonate")
    authentication = partial(act, group="authentication.k8s.io", version="v1")
    account = split_service_account(target.name)
    if account is not None:
        yield act(resource="serviceaccounts", namespace=account[0], name=account[1])
    else:
        yield act(resource="users", name=target.name)
    for group in headers.get("impersonate-group", "").split(","):
        if group:
            yield act(resource="groups", name=group)
    if target.uid:
        yield authentication(resource="uids", name=target.uid)
    for key, values in target.extra.items():
        for value in values:
            yield authentication(resource="userextras", subresource=key, name=value)
