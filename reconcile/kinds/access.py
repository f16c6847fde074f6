"""Kinds of RBAC."""

from typing import Annotated

from attrs import frozen

from reconcile.kinds.built_in import BuiltIn
from reconcile.models import ExtraFields, Schema, resource


@frozen
class PolicyRule(ExtraFields):
    """Allows verbs on resources; `""` is the core group, `*` any."""

    verbs: tuple[str, ...]
    api_groups: tuple[str, ...] | None = None
    resources: tuple[str, ...] | None = None
    resource_names: tuple[str, ...] | None = None
    non_resource_urls: Annotated[tuple[str, ...] | None, Schema(wire="nonResourceURLs")] = None


@frozen
class RoleRef(ExtraFields):
    """The role that a binding grants; it cannot be changed."""

    kind: str
    name: str
    api_group: str = "rbac.authorization.k8s.io"


@frozen
class Subject(ExtraFields):
    """The recipient of a role: a ServiceAccount of a namespace, a User or a Group."""

    kind: str
    name: str
    namespace: str | None = None
    api_group: str | None = None


@resource("rbac.authorization.k8s.io/v1")
class Role(BuiltIn):
    """rbac.authorization.k8s.io/v1 Role."""

    rules: tuple[PolicyRule, ...] = ()


@resource("rbac.authorization.k8s.io/v1")
class RoleBinding(BuiltIn):
    """rbac.authorization.k8s.io/v1 RoleBinding."""

    role_ref: RoleRef
    subjects: tuple[Subject, ...] = ()


@resource("rbac.authorization.k8s.io/v1", namespaced=False)
class ClusterRole(BuiltIn):
    """rbac.authorization.k8s.io/v1 ClusterRole.

    Rules default to None, so that applying a role with an aggregation rule, in `extra`, leaves them to the
    server.
    """

    rules: tuple[PolicyRule, ...] | None = None


@resource("rbac.authorization.k8s.io/v1", namespaced=False)
class ClusterRoleBinding(BuiltIn):
    """rbac.authorization.k8s.io/v1 ClusterRoleBinding."""

    role_ref: RoleRef
    subjects: tuple[Subject, ...] = ()
