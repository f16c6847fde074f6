"""Users and what they may do: tokens, impersonation, roles."""

from reconcile.embedded.auth.attributes import Attributes, attributes_of
from reconcile.embedded.auth.role_rules import AccessDecision, RoleRule, authorize
from reconcile.embedded.auth.roles import Access
from reconcile.embedded.auth.tokens import Tokens
from reconcile.embedded.auth.users import ADMIN, ANONYMOUS, User, service_account

__all__ = [
    "ADMIN",
    "ANONYMOUS",
    "Access",
    "AccessDecision",
    "Attributes",
    "RoleRule",
    "Tokens",
    "User",
    "attributes_of",
    "authorize",
    "service_account",
]
