"""Privilege escalation: users cannot write roles or bindings that grant more than they have."""

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import frozen

from reconcile.embedded.admission.chain import AdmittedWrite
from reconcile.embedded.auth.attributes import Attributes
from reconcile.embedded.auth.role_rules import RoleRule, uncovered
from reconcile.embedded.auth.roles import GROUP, Access
from reconcile.embedded.auth.users import User
from reconcile.embedded.protocol.api_failure import Denied
from reconcile.embedded.served import ServedResource


@frozen
class RoleGuard:
    access: Access

    def concerns(self, resource: ServedResource) -> bool:
        return resource.group == GROUP

    def __call__(self, request: AdmittedWrite) -> None:
        obj, user = request.object, request.user
        if obj is None or not self.access.enforced or user.superuser:
            return
        check = _role_fault if obj["kind"] in ("Role", "ClusterRole") else _binding_fault
        if fault := check(self.access, user, obj, request.old):
            raise Denied(fault)


def _role_fault(access: Access, user: User, role: Mapping[str, Any], old: Mapping[str, Any] | None) -> str:
    if old is not None and all(role.get(name) == old.get(name) for name in ("rules", "aggregationRule")):
        return ""
    namespace, name = _place(role)
    plural = f"{role['kind'].lower()}s"
    if access.decide(_on(user, "escalate", plural, namespace, name)).allowed:
        return ""
    if role.get("aggregationRule"):
        return _unless_covered(access, user, namespace, [RoleRule(("*",), ("*",), ("*",))])
    return _unless_covered(access, user, namespace, access.rules_in(role))


def _binding_fault(
    access: Access, user: User, binding: Mapping[str, Any], old: Mapping[str, Any] | None
) -> str:
    if old is not None and all(binding.get(name) == old.get(name) for name in ("subjects", "roleRef")):
        return ""
    namespace, _ = _place(binding)
    reference = binding.get("roleRef") or {}
    plural = f"{reference.get('kind', '').lower()}s"
    if access.decide(_on(user, "bind", plural, namespace, reference.get("name", ""))).allowed:
        return ""
    rules = access.rules_of(reference, namespace)
    if rules is None:
        return f'{plural}.{GROUP} "{reference.get("name")}" not found'
    return _unless_covered(access, user, namespace, rules)


def _unless_covered(access: Access, user: User, namespace: str, rules: Sequence[RoleRule]) -> str:
    missing = uncovered(access.rules_for(user, namespace), rules)
    if not missing:
        return ""
    lines = "\n".join(_compact(rule) for rule in missing)
    who = f'user "{user.name}" (groups=[{_quoted(user.groups)}])'
    return f"{who} is attempting to grant RBAC permissions not currently held:\n{lines}"


def _compact(rule: RoleRule) -> str:
    parts = (
        ("APIGroups", rule.groups),
        ("Resources", rule.resources),
        ("ResourceNames", rule.names),
        ("NonResourceURLs", rule.urls),
        ("Verbs", rule.verbs),
    )
    shown = (f"{name}:[{_quoted(values)}]" for name, values in parts if values)
    return f"{{{', '.join(shown)}}}"


def _quoted(values: Sequence[str]) -> str:
    return " ".join(f'"{value}"' for value in values)


def _place(obj: Mapping[str, Any]) -> tuple[str, str]:
    metadata = obj["metadata"]
    return metadata.get("namespace", ""), metadata.get("name", "")


def _on(user: User, verb: str, plural: str, namespace: str, name: str) -> Attributes:
    return Attributes(user, verb, group=GROUP, version="v1", resource=plural, namespace=namespace, name=name)
