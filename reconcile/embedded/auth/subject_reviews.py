"""The reviews: objects that are posted, answered with a status, and never stored."""

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import evolve, frozen

from reconcile.embedded.auth.attributes import Attributes
from reconcile.embedded.auth.role_rules import RoleRule
from reconcile.embedded.auth.roles import Access
from reconcile.embedded.auth.tokens import ISSUER, Tokens
from reconcile.embedded.auth.users import User
from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.protocol.field_causes import value_invalid, value_required

Document = Mapping[str, Any]


@frozen
class AccessReviewer:
    access: Access
    tokens: Tokens

    def faults(self, kind: str, spec: Document, namespace: str) -> list[FieldCause]:
        match kind:
            case "SelfSubjectAccessReview":
                return _attribute_faults(spec)
            case "SubjectAccessReview" | "LocalSubjectAccessReview":
                return _attribute_faults(spec) + _subject_faults(spec) + _place_faults(kind, spec, namespace)
            case "TokenReview" if not spec.get("token"):
                return [value_required("spec.token")]
            case _:
                return []

    def status(self, kind: str, user: User, spec: Document) -> dict[str, Any]:
        match kind:
            case "SelfSubjectAccessReview":
                return self._access(user, spec)
            case "SubjectAccessReview" | "LocalSubjectAccessReview":
                return self._access(_subject(spec), spec)
            case "SelfSubjectRulesReview":
                return self._rules(user, spec)
            case "TokenReview":
                return self._token(spec)
            case _:
                return {"userInfo": user_info(user)}

    def _access(self, user: User, spec: Document) -> dict[str, Any]:
        decision = self.access.decide(_asked(user, spec))
        return {"allowed": decision.allowed, **({"reason": decision.reason} if decision.reason else {})}

    def _rules(self, user: User, spec: Document) -> dict[str, Any]:
        rules = self.access.rules_for(user, spec.get("namespace") or "default")
        resource = [evolve(rule, urls=()).to_json() for rule in rules if rule.resources]
        urls = [RoleRule(rule.verbs, urls=rule.urls).to_json() for rule in rules if rule.urls]
        return {"resourceRules": resource, "nonResourceRules": urls, "incomplete": False}

    def _token(self, spec: Document) -> dict[str, Any]:
        audiences = tuple(spec.get("audiences") or (ISSUER,))
        user = self.tokens.user_of(spec["token"], audiences)
        if user is None:
            return {"user": {}, "error": "[invalid bearer token]"}
        return {"authenticated": True, "user": user_info(user), "audiences": list(audiences)}


def user_info(user: User) -> dict[str, Any]:
    extra = {key: list(values) for key, values in user.extra.items()}
    parts = (("username", user.name), ("uid", user.uid), ("groups", list(user.groups)), ("extra", extra))
    return {name: value for name, value in parts if value}


def _asked(user: User, spec: Document) -> Attributes:
    path = spec.get("nonResourceAttributes")
    if path:
        return Attributes(user, path.get("verb", ""), path=path.get("path", ""))
    asked = spec.get("resourceAttributes") or {}
    fields = ("verb", "group", "version", "resource", "subresource", "namespace", "name")
    return Attributes(user, *(asked.get(field, "") for field in fields))


def _subject(spec: Document) -> User:
    extra: Mapping[str, Sequence[str]] = spec.get("extra") or {}
    return User(
        spec.get("user", ""),
        tuple(spec.get("groups") or ()),
        spec.get("uid", ""),
        {key: tuple(values) for key, values in extra.items()},
    )


def _attribute_faults(spec: Document) -> list[FieldCause]:
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if resource is not None and path is not None:
        why = "cannot be specified in combination with resourceAttributes"
        return [value_invalid("spec.nonResourceAttributes", "", why)]
    if resource is None and path is None:
        why = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        return [value_invalid("spec.resourceAttributes", None, why)]
    return []


def _subject_faults(spec: Document) -> list[FieldCause]:
    if spec.get("user") or spec.get("groups"):
        return []
    return [value_invalid("spec.user", "", "at least one of user or group must be specified")]


def _place_faults(kind: str, spec: Document, namespace: str) -> list[FieldCause]:
    if kind != "LocalSubjectAccessReview":
        return []
    if spec.get("nonResourceAttributes") is not None:
        why = "disallowed on this kind of request"
        return [value_invalid("spec.nonResourceAttributes", "", why)]
    given = (spec.get("resourceAttributes") or {}).get("namespace", "")
    if given != namespace:
        return [value_invalid("spec.resourceAttributes.namespace", given, "must match metadata.namespace")]
    return []
