"""Which rules hold for a user: read from the stored Roles, ClusterRoles and their bindings."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from informers.apimachinery.label_selectors import Requirement, matches_labels, requirements_of
from informers.resource import Key
from reconcile.embedded.auth.attributes import Attributes, access_denied
from reconcile.embedded.auth.role_rules import AccessDecision, RoleRule, authorize
from reconcile.embedded.auth.users import User, split_service_account
from reconcile.embedded.log import Log, StoredChange

GROUP = "rbac.authorization.k8s.io"
ROLES = (GROUP, "roles")
CLUSTER_ROLES = (GROUP, "clusterroles")
ROLE_BINDINGS = (GROUP, "rolebindings")
CLUSTER_ROLE_BINDINGS = (GROUP, "clusterrolebindings")

_SUPERUSER = RoleRule(("*",), ("*",), ("*",), (), ("*",))


class Access:
    """Decides by the roles in `log` what users may do; unless `enforced`, every act is allowed."""

    def __init__(self, log: Log, *, enforced: bool) -> None:
        self.enforced = enforced
        self._log = log
        self._decoded: dict[tuple[str, str], list[dict[str, Any]]] = {}
        log.on_change(self._forget)

    def _forget(self, change: StoredChange) -> None:
        if change.resource[0] == GROUP:
            self._decoded.pop(change.resource, None)

    def decide(self, attributes: Attributes) -> AccessDecision:
        """Whether an act is allowed."""
        if not self.enforced or attributes.user.superuser:
            return AccessDecision(True)
        return authorize(attributes, self._rules(attributes.user, attributes.namespace))

    def require(self, act: Attributes) -> None:
        """Raises ApiFailure (403) unless the user may do this."""
        decision = self.decide(act)
        if not decision.allowed:
            raise access_denied(act, decision.reason)

    def rules_for(self, user: User, namespace: str) -> list[RoleRule]:
        """All rules that hold for a user in a namespace, or cluster-wide if that is empty."""
        if not self.enforced or user.superuser:
            return [_SUPERUSER]
        return list(self._rules(user, namespace))

    def _rules(self, user: User, namespace: str) -> Iterator[RoleRule]:
        for binding in self._all(CLUSTER_ROLE_BINDINGS):
            yield from self._bound(binding, user, "")
        for binding in self._all(ROLE_BINDINGS) if namespace else ():
            if binding["metadata"].get("namespace") == namespace:
                yield from self._bound(binding, user, namespace)

    def _bound(self, binding: Mapping[str, Any], user: User, namespace: str) -> Iterator[RoleRule]:
        for subject in binding.get("subjects") or ():
            if _is(subject, user, namespace):
                by = _described(binding, subject)
                yield from self.rules_of(binding.get("roleRef") or {}, namespace, by) or ()
                return

    def rules_of(self, reference: Mapping[str, Any], namespace: str, by: str = "") -> list[RoleRule] | None:
        """The rules of the role that a binding in `namespace` refers to; None if the role does not exist."""
        name = reference.get("name", "")
        local = reference.get("kind") == "Role"
        stored = self._log.get(ROLES if local else CLUSTER_ROLES, Key(namespace if local else "", name))
        return None if stored is None else self.rules_in(stored.decode(), by)

    def rules_in(self, role: Mapping[str, Any], by: str = "") -> list[RoleRule]:
        """The rules of a role, or those of the roles that it aggregates, at any depth."""
        parts = self._aggregated(role, set())
        return [RoleRule.from_json(rule, by) for part in parts for rule in part.get("rules") or ()]

    def _aggregated(self, role: Mapping[str, Any], seen: set[str]) -> Iterator[Mapping[str, Any]]:
        seen.add(role["metadata"].get("name", ""))
        if not role.get("aggregationRule"):
            yield role
            return
        # Parsed once, not for each role: every start of a server and every change of a role comes here.
        selectors = list(_parsed(role["aggregationRule"].get("clusterRoleSelectors") or ()))
        for other in self._all(CLUSTER_ROLES) if selectors else ():
            metadata = other["metadata"]
            labels = metadata.get("labels") or {}
            if metadata["name"] not in seen and any(matches_labels(one, labels) for one in selectors):
                yield from self._aggregated(other, seen)

    def _all(self, key: tuple[str, str]) -> Sequence[dict[str, Any]]:
        found = self._decoded.get(key)
        if found is None:
            found = self._decoded[key] = [stored.decode() for stored in self._log.snapshot(key)]
        return found


def _parsed(selectors: Iterable[Mapping[str, Any]]) -> Iterator[tuple[Requirement, ...]]:
    """The requirements of selectors; a selector that an API server would refuse selects nothing."""
    for selector in selectors:
        with suppress(ValueError):
            yield requirements_of(selector)


def _is(subject: Mapping[str, Any], user: User, namespace: str) -> bool:
    name = subject.get("name")
    match subject.get("kind"):
        case "User":
            return bool(name == user.name)
        case "Group":
            return name in user.groups
        case "ServiceAccount":
            return split_service_account(user.name) == (subject.get("namespace") or namespace, name)
        case _:
            return False


def _described(binding: Mapping[str, Any], subject: Mapping[str, Any]) -> str:
    metadata, role = binding["metadata"], binding.get("roleRef") or {}
    namespace = metadata.get("namespace", "")
    kind = "RoleBinding" if namespace else "ClusterRoleBinding"
    name = f"{metadata['name']}/{namespace}" if namespace else metadata["name"]
    who = subject.get("name", "")
    if subject.get("kind") == "ServiceAccount":
        who = f"{who}/{subject.get('namespace') or namespace}"
    return f'{kind} "{name}" of {role.get("kind")} "{role.get("name")}" to {subject.get("kind")} "{who}"'
