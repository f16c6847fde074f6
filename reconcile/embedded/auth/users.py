"""Users and their groups, as tokens, impersonation and tests name them."""

from collections.abc import Mapping

from attrs import field, frozen

SUPERUSERS = "system:masters"
"""Members of this group may do everything, whatever the roles say."""

AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"

_SERVICE_ACCOUNT = "system:serviceaccount:"


@frozen
class User:
    """One user: the name and the groups that bindings refer to."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(factory=dict)

    @property
    def superuser(self) -> bool:
        """Whether this user may do everything without a role."""
        return SUPERUSERS in self.groups


ADMIN = User("system:admin", (SUPERUSERS, AUTHENTICATED))
"""The administrator, who may do everything whatever the roles say."""
ANONYMOUS = User("system:anonymous", (UNAUTHENTICATED,))


def service_account(namespace: str, name: str, uid: str = "", extra: Mapping[str, str] | None = None) -> User:
    """The user as which pods with this service account act."""
    groups = (*service_account_groups(namespace), AUTHENTICATED)
    more = {key: (value,) for key, value in (extra or {}).items()}
    return User(f"{_SERVICE_ACCOUNT}{namespace}:{name}", groups, uid, more)


def service_account_groups(namespace: str) -> tuple[str, ...]:
    return ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")


def split_service_account(user: str) -> tuple[str, str] | None:
    """Namespace and name of the service account behind a user name; None for other users."""
    if not user.startswith(_SERVICE_ACCOUNT):
        return None
    namespace, colon, name = user.removeprefix(_SERVICE_ACCOUNT).partition(":")
    return (namespace, name) if colon and namespace and name and ":" not in name else None
