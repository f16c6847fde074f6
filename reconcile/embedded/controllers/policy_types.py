"""The status of ValidatingAdmissionPolicies: which expressions do not fit the kinds that they are for."""

from collections.abc import Iterator, Mapping
from itertools import islice, product
from typing import Any, Final

from reconcile.embedded.engine import Engine
from reconcile.embedded.log import StorageKey, Stored, StoredChange
from reconcile.embedded.schema.object_meta import OBJECT_META_SCHEMA
from reconcile.embedded.schema.optional_rules import admission_expressions
from reconcile.embedded.served import ServedResource

POLICIES: Final[StorageKey] = ("admissionregistration.k8s.io", "validatingadmissionpolicies")
# maxTypesToCheck in typechecking.go of k8s.io/apiserver.
_MOST_TYPES: Final = 10


class PolicyTypes:
    """Checks each version of each policy once; without CEL it leaves them alone."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.dirty = bool(engine.log.count(POLICIES))
        """Whether `sync` has anything to do."""
        engine.log.on_change(self._note)

    def _note(self, change: StoredChange) -> None:
        if change.resource == POLICIES:
            self.dirty = True

    def sync(self) -> None:
        """Write the status of the policies that have changed."""
        if not self.dirty:
            return
        if admission_expressions() is not None:
            for stored in self._engine.log.snapshot(POLICIES):
                self._check(stored)
        self.dirty = False

    def _check(self, stored: Stored) -> None:
        policy = stored.decode()
        generation, status = policy["metadata"].get("generation"), policy.get("status") or {}
        if status.get("observedGeneration") == generation:
            return
        found = [*self._warnings(policy["spec"])]
        checking = {"expressionWarnings": found} if found else {}
        status |= {"observedGeneration": generation, "typeChecking": checking}
        self._engine.put_if_it_fits(stored.encoded_by, {**policy, "status": status})

    def _warnings(self, spec: Mapping[str, Any]) -> Iterator[dict[str, str]]:
        checkers = [(resource, self._checker(spec, resource)) for resource in self._matched(spec)]
        for index, validation in enumerate(spec.get("validations") or ()):
            for name in ("expression", "messageExpression"):
                texts = [_fault(resource, checker, validation.get(name)) for resource, checker in checkers]
                if told := [text for text in texts if text]:
                    yield {"fieldRef": f"spec.validations[{index}].{name}", "warning": "\n".join(told)}

    def _checker(self, spec: Mapping[str, Any], resource: ServedResource) -> Any:
        cel = admission_expressions()
        assert cel is not None
        kind = spec.get("paramKind")
        known = cel.Expressions(params=kind is not None, composes=bool(spec.get("variables")))
        known = known.typed(_schema(resource), self._schema_of_params(kind))
        for variable in spec.get("variables") or ():
            known = known.with_variable(variable["name"], variable["expression"])
        return known

    def _schema_of_params(self, kind: Mapping[str, Any] | None) -> dict[str, Any] | None:
        if kind is None:
            return None
        group, _, version = kind["apiVersion"].rpartition("/")
        resource = self._engine.registry.by_kind(group, kind["kind"], version)
        return None if resource is None else _schema(resource)

    def _matched(self, spec: Mapping[str, Any]) -> list[ServedResource]:
        """The kinds that rules without `*` name, as far as they are served."""
        found: dict[tuple[str, str, str], ServedResource] = {}
        for rule in (spec.get("matchConstraints") or {}).get("resourceRules") or ():
            names = product(
                *(sorted(rule.get(field) or ()) for field in ("apiGroups", "apiVersions", "resources"))
            )
            if "*" in (*rule.get("apiGroups", ()), *rule.get("apiVersions", ())):
                continue
            served = (self._engine.registry.get(*each) for each in names if not {"*", "/"} & set(each[2]))
            for resource in islice((each for each in served if each is not None), _MOST_TYPES):
                found[resource.group, resource.version, resource.kind] = resource
        return [found[key] for key in sorted(found)]


def _schema(resource: ServedResource) -> dict[str, Any]:
    """The schema of a kind with its metadata."""
    text = {"type": "string"}
    common = {"apiVersion": text, "kind": text, "metadata": OBJECT_META_SCHEMA}
    return {**resource.openapi, "properties": {**(resource.openapi.get("properties") or {}), **common}}


def _fault(resource: ServedResource, checker: Any, text: str | None) -> str:
    """Why an expression does not fit a kind; empty if it does."""
    cel = admission_expressions()
    if not text or cel is None:
        return ""
    try:
        checker.check(text, "variable")
    except cel.RuleError as error:
        kind = f"{resource.group}/{resource.version}, Kind={resource.kind}"
        return f"{kind}: {str(error).removeprefix('compilation failed: ')}\n"
    return ""
