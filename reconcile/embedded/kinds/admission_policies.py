"""Validating- and MutatingAdmissionPolicies and their bindings: what is stored, and its checks."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from informers.apimachinery.name_rules import (
    label_key_faults,
    path_segment_faults,
    service_name_faults,
    subdomain_faults,
)
from reconcile.embedded.kinds.admission_expressions import (
    ExpressionRules,
    expression_causes,
    match_condition_causes,
)
from reconcile.embedded.kinds.admission_matching import (
    FAILURE_POLICIES,
    MATCH_DEFAULTS,
    REINVOCATION_POLICIES,
    match_causes,
)
from reconcile.embedded.kinds.built_in_kind import BuiltInKind, Object, fill, one_of
from reconcile.embedded.kinds.label_selectors import selector_causes
from reconcile.embedded.kubectl.printing import AGE, NAMES, at, count
from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.protocol.field_causes import (
    value_duplicate,
    value_forbidden,
    value_invalid,
    value_not_supported,
    value_required,
    value_too_many,
)
from reconcile.embedded.served import CellColumn

if TYPE_CHECKING:
    from reconcile.embedded.schema.cel.admission_expressions import Result

GROUP: Final = "admissionregistration.k8s.io"
_REASONS: Final = ("Forbidden", "Invalid", "RequestEntityTooLarge")
_ACTIONS: Final = ("Audit", "Deny", "Warn")
_REPEATS: Final = (
    "repeating the same validation failure information in the API response and headers serves no purpose"
)
_MISSING_PARAMS: Final = ("Deny", "Allow")
_PATCHES: Final[Mapping[str, tuple[str, "Result"]]] = {
    "ApplyConfiguration": ("applyConfiguration", "object"),
    "JSONPatch": ("jsonPatch", "patches"),
}
"""The field of each type of patch, and what its expression has to be."""
# maxAuditAnnotations and maxAuditAnnotationValueExpressionLength in validation.go of admissionregistration.
_MAX_ANNOTATIONS: Final = 20
_MAX_ANNOTATION: Final = 5 * 1024
_MAX_VARIABLES: Final = 256
"""A real server has no limit; here each one holds the server for milliseconds, while its type is found."""
_IDENTIFIER: Final = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*")
_RESERVED: Final = frozenset(
    {
        *("true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if"),
        *("import", "let", "loop", "package", "namespace", "return", "var", "void", "while"),
    }
)
_LINE_BREAK: Final = re.compile(r"[\n\r]")


# --- policies -----------------------------------------------------------------------------------


def _default_policy(policy: Object) -> None:
    match = policy["spec"].get("matchConstraints")
    if match is not None:
        fill(match, MATCH_DEFAULTS)


def _validate_policy(policy: Object, old: Object | None) -> Iterator[FieldCause]:
    spec = policy["spec"]
    mutating = policy["kind"].startswith("Mutating")
    # One compiler for conditions, which read no variables, and one for the rest. Only a policy that validates
    # and has no variables does not know the word.
    variables = spec.get("variables") or ()
    conditions = ExpressionRules(params=spec.get("paramKind") is not None)
    rules = ExpressionRules(conditions.params, composes=mutating or bool(variables))
    yield from one_of(spec, "spec.failurePolicy", FAILURE_POLICIES)
    if spec.get("paramKind") is not None:
        yield from _param_kind_causes(spec["paramKind"], "spec.paramKind")
    yield from _constraint_causes(spec, mutating=mutating)
    if old is None or not _same_conditions(spec, old["spec"]):
        found = spec.get("matchConditions") or ()
        yield from match_condition_causes(found, "spec.matchConditions", conditions)
    if len(variables) > _MAX_VARIABLES:
        yield value_too_many("spec.variables", len(variables), _MAX_VARIABLES)
        return
    rules = rules.after(())  # keeps what it compiles
    for index, variable in enumerate(variables):
        yield from _variable_causes(variable, f"spec.variables[{index}]", rules)
        rules = rules.after([variable])
    if mutating:
        yield from _mutation_causes(spec, rules)
    else:
        yield from _outcome_causes(policy, rules)


def _same_conditions(spec: Mapping[str, Any], old: Mapping[str, Any]) -> bool:
    return all(
        (spec.get(field) or None) == (old.get(field) or None) for field in ("paramKind", "matchConditions")
    )


def _param_kind_causes(kind: Mapping[str, Any], path: str) -> Iterator[FieldCause]:
    api_version, name = kind.get("apiVersion") or "", kind.get("kind") or ""
    where = f"{path}.apiVersion"
    if not api_version:
        yield value_required(where)
    elif api_version.count("/") > 1:
        yield value_invalid(where, api_version, f"unexpected GroupVersion string: {api_version}")
    else:
        group, _, version = api_version.rpartition("/")
        if group and (faults := subdomain_faults(group)):
            yield value_invalid(where, group, ",".join(faults))
        if not version:
            yield value_invalid(where, api_version, "version must be specified")
        elif faults := service_name_faults(version):
            yield value_invalid(where, version, ",".join(faults))
    if not name:
        yield value_required(f"{path}.kind")
    elif faults := service_name_faults(name.lower()):
        why = f"may have mixed case, but should otherwise match: {','.join(faults)}"
        yield value_invalid(f"{path}.kind", name, why)


def _constraint_causes(spec: Mapping[str, Any], *, mutating: bool) -> Iterator[FieldCause]:
    path, match = "spec.matchConstraints", spec.get("matchConstraints")
    if match is None:
        yield value_required(path)
        return
    yield from match_causes(match, path, mutating=mutating)
    if not match.get("resourceRules"):
        yield value_required(f"{path}.resourceRules")


def _variable_causes(variable: Mapping[str, Any], path: str, rules: ExpressionRules) -> Iterator[FieldCause]:
    name = variable.get("name") or ""
    if not name.strip():
        yield value_required(f"{path}.name", "name is not specified")
    elif _IDENTIFIER.fullmatch(name) is None or name in _RESERVED:
        yield value_invalid(f"{path}.name", name, "must be a valid CEL identifier")
    yield from expression_causes(variable, f"{path}.expression", rules, "variable")


# --- what a policy does -------------------------------------------------------------------------


def _mutation_causes(spec: Mapping[str, Any], rules: ExpressionRules) -> Iterator[FieldCause]:
    mutations = spec.get("mutations") or ()
    if not mutations:
        yield value_required("spec.mutations", "mutations must contain at least one item")
    for index, mutation in enumerate(mutations):
        yield from _one_mutation_causes(mutation, f"spec.mutations[{index}]", rules)
    if not spec.get("reinvocationPolicy"):
        yield value_required("spec.reinvocationPolicy")
    else:
        yield from one_of(spec, "spec.reinvocationPolicy", REINVOCATION_POLICIES)


def _one_mutation_causes(
    mutation: Mapping[str, Any], path: str, rules: ExpressionRules
) -> Iterator[FieldCause]:
    kind = mutation.get("patchType") or ""
    if not kind:
        yield value_required(f"{path}.patchType")
        return
    if kind not in _PATCHES:
        yield value_not_supported(f"{path}.patchType", kind, tuple(_PATCHES))
        return
    field, result = _PATCHES[kind]
    if mutation.get(field) is None:
        yield value_required(f"{path}.{field}", f"must be specified when patchType is {kind}")
    else:
        yield from expression_causes(mutation[field], f"{path}.{field}.expression", rules, result)
    for other in (name for name, _ in _PATCHES.values() if name != field):
        if mutation.get(other) is not None:
            why = f"must not be specified when patchType is {kind}"
            yield value_invalid(f"{path}.{other}", f"{{{other}}}", why)


def _outcome_causes(policy: Mapping[str, Any], rules: ExpressionRules) -> Iterator[FieldCause]:
    spec = policy["spec"]
    validations, annotations = spec.get("validations") or (), spec.get("auditAnnotations") or ()
    if not validations and not annotations:
        for field in ("validations", "auditAnnotations"):
            why = "validations or auditAnnotations must contain at least one item"
            yield value_required(f"spec.{field}", why)
    for index, validation in enumerate(validations):
        yield from _validation_causes(validation, f"spec.validations[{index}]", rules)
    if len(annotations) > _MAX_ANNOTATIONS:
        why = f"must not have more than {_MAX_ANNOTATIONS} auditAnnotations"
        yield value_invalid("spec.auditAnnotations", annotations, why)
    yield from _annotations_causes(annotations, policy["metadata"].get("name") or "", rules)


def _validation_causes(
    validation: Mapping[str, Any], path: str, rules: ExpressionRules
) -> Iterator[FieldCause]:
    yield from expression_causes(validation, f"{path}.expression", rules, "condition")
    made = validation.get("messageExpression") or ""
    if made and not made.strip():
        yield value_invalid(f"{path}.messageExpression", made, "must be non-empty if specified")
    elif made and (fault := rules.fault(made, "text", authorizer=False)):
        yield value_invalid(f"{path}.messageExpression", made, fault)
    message = validation.get("message") or ""
    if message and not message.strip():
        yield value_invalid(f"{path}.message", message, "must be non-empty if specified")
    elif _LINE_BREAK.search(message.strip()):
        yield value_invalid(f"{path}.message", message, "must not contain line breaks")
    if validation.get("reason") is not None:
        yield from one_of(validation, f"{path}.reason", _REASONS)


def _annotations_causes(
    annotations: Sequence[Mapping[str, Any]], policy: str, rules: ExpressionRules
) -> Iterator[FieldCause]:
    keys: set[str] = set()
    for index, annotation in enumerate(annotations):
        path, key = f"spec.auditAnnotations[{index}]", annotation.get("key") or ""
        if not policy:
            yield value_invalid(f"{path}.key", key, "requires metadata.name be non-empty")
        else:
            for fault in label_key_faults(f"{policy}/{key}"):
                yield value_invalid(f"{path}.key", f"{policy}/{key}", fault)
        if len((annotation.get("valueExpression") or "").strip()) > _MAX_ANNOTATION:
            why = f"must not exceed {_MAX_ANNOTATION} bytes in length"
            yield value_required(f"{path}.valueExpression", why)
        else:
            yield from expression_causes(annotation, f"{path}.valueExpression", rules, "annotation")
        if key in keys:
            yield value_duplicate(f"{path}.key", key)
        keys.add(key)


def _validate_status(policy: Object, old: Object | None) -> Iterator[FieldCause]:
    checking = (policy.get("status") or {}).get("typeChecking") or {}
    for index, warning in enumerate(checking.get("expressionWarnings") or ()):
        for field in ("warning", "fieldRef"):
            if not (warning.get(field) or "").strip():
                yield value_required(f"status.typeChecking.expressionWarnings[{index}].{field}")


# --- bindings -----------------------------------------------------------------------------------


def _default_binding(binding: Object) -> None:
    match = (binding.get("spec") or {}).get("matchResources")
    if match is not None:
        fill(match, MATCH_DEFAULTS)


def _validate_binding(binding: Object, old: Object | None) -> Iterator[FieldCause]:
    spec, mutating = binding.get("spec") or {}, binding["kind"].startswith("Mutating")
    name = spec.get("policyName") or ""
    if not name:
        yield value_required("spec.policyName")
    else:
        yield from (value_invalid("spec.policyName", name, fault) for fault in subdomain_faults(name))
    if spec.get("paramRef") is not None:
        yield from _param_ref_causes(spec["paramRef"], "spec.paramRef")
    if spec.get("matchResources") is not None:
        yield from match_causes(spec["matchResources"], "spec.matchResources", mutating=mutating)
    if not mutating:
        yield from _action_causes(spec.get("validationActions") or (), "spec.validationActions")


def _param_ref_causes(reference: Mapping[str, Any], path: str) -> Iterator[FieldCause]:
    name, selector = reference.get("name") or "", reference.get("selector")
    yield from (value_invalid(f"{path}.name", name, fault) for fault in path_segment_faults(name))
    if name and selector is not None:
        for field in ("name", "selector"):
            yield value_forbidden(f"{path}.{field}", "name and selector are mutually exclusive")
    yield from selector_causes(selector, f"{path}.selector")
    if not name and selector is None:
        yield value_required(path, "one of name or selector must be specified")
    if not reference.get("parameterNotFoundAction"):
        yield value_required(f"{path}.parameterNotFoundAction")
    else:
        yield from one_of(reference, f"{path}.parameterNotFoundAction", _MISSING_PARAMS)


def _action_causes(actions: Sequence[str], path: str) -> Iterator[FieldCause]:
    for index, action in enumerate(actions):
        if action not in _ACTIONS:
            yield value_not_supported(f"{path}[{index}]", action, _ACTIONS)
        if action in actions[:index]:
            yield value_duplicate(f"{path}[{index}]", action)
    if {"Deny", "Warn"} <= set(actions):
        yield value_invalid(path, actions, f"must not contain both Deny and Warn ({_REPEATS})")
    if not actions:
        yield value_required(path, "at least one validation action is required")


# --- the kinds ----------------------------------------------------------------------------------


def _param_kind(obj: Mapping[str, Any], _now: object) -> str:
    kind = (obj.get("spec") or {}).get("paramKind")
    return f"{kind.get('apiVersion', '')}/{kind.get('kind', '')}" if kind else "<unset>"


def _param_ref(obj: Mapping[str, Any], _now: object) -> str:
    reference = (obj.get("spec") or {}).get("paramRef")
    if not reference:
        return "<unset>"
    namespace = reference.get("namespace") or ""
    return f"{namespace}/{reference.get('name') or '*'}" if namespace else reference.get("name") or "*"


_SHARED: Final[dict[str, Any]] = {
    "categories": ("api-extensions",),
    "namespaced": False,
    "has_generation": True,
    "unconditional_update": False,
    "names_missing_fields": True,
}
_POLICY: Final[dict[str, Any]] = {
    **_SHARED,
    "fills": {"spec": {"failurePolicy": "Fail"}},
    "defaults": _default_policy,
    "checks": _validate_policy,
}
_BINDING: Final[dict[str, Any]] = {
    **_SHARED,
    "defaults": _default_binding,
    "checks": _validate_binding,
    "columns": (
        NAMES, CellColumn("PolicyName", at("spec", "policyName")), CellColumn("ParamRef", _param_ref), AGE,
    ),
}  # fmt: skip

KINDS: Final = (
    BuiltInKind(
        GROUP, "ValidatingAdmissionPolicy",
        plural="validatingadmissionpolicies", **_POLICY,
        has_status=True, first_status={}, status_checks=_validate_status,
        columns=(
            NAMES, CellColumn("Validations", count("spec", "validations"), "integer"),
            CellColumn("ParamKind", _param_kind), AGE,
        ),
    ),
    BuiltInKind(
        GROUP, "MutatingAdmissionPolicy",
        plural="mutatingadmissionpolicies", **_POLICY,
        columns=(
            NAMES, CellColumn("Mutations", count("spec", "mutations"), "integer"),
            CellColumn("ParamKind", _param_kind), AGE,
        ),
    ),
    BuiltInKind(GROUP, "ValidatingAdmissionPolicyBinding", **_BINDING),
    BuiltInKind(GROUP, "MutatingAdmissionPolicyBinding", **_BINDING),
)  # fmt: skip
