"""Policies and their bindings as tests write them."""

from typing import Any

from tests.embedded.api_client import Api

GROUP = "admissionregistration.k8s.io/v1"
POLICIES = f"/apis/{GROUP}/validatingadmissionpolicies"
BINDINGS = f"/apis/{GROUP}/validatingadmissionpolicybindings"
MUTATING = f"/apis/{GROUP}/mutatingadmissionpolicies"
MUTATING_BINDINGS = f"/apis/{GROUP}/mutatingadmissionpolicybindings"


def rule(*resources: str, group: str = "", **more: Any) -> dict[str, Any]:
    made = {"apiGroups": [group], "apiVersions": ["v1"], "operations": ["*"], "resources": list(resources)}
    return {**made, **more}


def validating(*expressions: Any, resources: Any = None, name: str = "p", **spec: Any) -> dict[str, Any]:
    """A policy of these expressions, or validations, for config maps unless other rules are given."""
    validations = [{"expression": each} if isinstance(each, str) else each for each in expressions]
    match = {"resourceRules": resources or [rule("configmaps")], **spec.pop("match", {})}
    made = {"matchConstraints": match, "validations": validations, **spec}
    return {
        "apiVersion": GROUP,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": made,
    }


def mutating(*mutations: str, resources: Any = None, name: str = "p", **spec: Any) -> dict[str, Any]:
    """A policy of expressions that make objects, or lists of patches."""
    made = {
        "matchConstraints": {"resourceRules": resources or [rule("configmaps")], **spec.pop("match", {})},
        "mutations": [_mutation(each) for each in mutations],
        "reinvocationPolicy": "Never",
        **spec,
    }
    return {"apiVersion": GROUP, "kind": "MutatingAdmissionPolicy", "metadata": {"name": name}, "spec": made}


def _mutation(text: str) -> dict[str, Any]:
    if text.startswith("["):
        return {"patchType": "JSONPatch", "jsonPatch": {"expression": text}}
    return {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": text}}


def enforce(api: Api, policy: dict[str, Any], *actions: str, **spec: Any) -> None:
    """Create a policy and a binding of its name; validating ones deny unless other actions are given."""
    name = policy["metadata"]["name"]
    binds: dict[str, Any] = {"policyName": name, **spec}
    validates = policy["kind"].startswith("Validating")
    if validates:
        binds["validationActions"] = list(actions or ("Deny",))
    api.ok("POST", POLICIES if validates else MUTATING, policy)
    binding = {
        "apiVersion": GROUP,
        "kind": f"{policy['kind']}Binding",
        "metadata": {"name": name},
        "spec": binds,
    }
    api.ok("POST", BINDINGS if validates else MUTATING_BINDINGS, binding)
