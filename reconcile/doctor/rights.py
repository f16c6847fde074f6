"""Rights: what the operator's account may do, compared with what its code declares."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Final

from attrs import frozen

from reconcile.doctor.declared import Declared
from reconcile.doctor.findings import Finding
from reconcile.doctor.objects import Rule
from reconcile.shipping.documents import Document

CHECK: Final = "rights"


@frozen
class Grant:
    """One verb for a resource (`sites/status`), in `namespace` or, without, in all; for all names or one."""

    namespace: str
    group: str
    resource: str
    name: str
    verb: str

    def covers(self, other: "Grant") -> bool:
        """Whether what `other` allows is allowed by this alone."""
        return (
            self.namespace in ("", other.namespace)
            and self.group in ("*", other.group)
            and _resource_covers(self.resource, other.resource)
            and self.name in ("", other.name)
            and self.verb in ("*", other.verb)
        )


@frozen
class Bound:
    """A role, such as `ClusterRole sites`, and the binding that gives it to the account."""

    role: str
    binding: str


@frozen
class Access:
    """What roles allow the account: `granted` by each binding of a role to it.

    `general` is what every service account may do. `dangling` are bindings whose role does not exist.
    """

    granted: Mapping["Bound", Sequence[Grant]]
    general: Sequence[Grant] = ()
    dangling: Sequence[str] = ()


def grants_of(rules: Iterable[Rule], namespace: str) -> Sequence[Grant]:
    return [
        Grant(namespace, *each)
        for rule in rules
        for each in product(
            rule.api_groups or (), rule.resources or (), rule.resource_names or ("",), rule.verbs or ()
        )
    ]


def declared_grants(roles: Iterable[Document]) -> Sequence[Grant]:
    """What the roles of `Declared` allow."""
    return [
        grant
        for role in roles
        for rule in role["rules"]
        for grant in grants_of([_rule(rule)], role["metadata"].get("namespace", ""))
    ]


def check_rights(declared: Declared, access: Access) -> Iterable[Finding]:
    """Rights that are missing are errors, rights beyond the declarations are warnings."""
    account = f"ServiceAccount {declared.namespace}/{declared.name}"
    for binding in access.dangling:
        what = "names a role that does not exist, so it grants nothing"
        yield Finding(CHECK, "error", binding, what, _apply(declared))
    held = [*access.general, *(grant for grants in access.granted.values() for grant in grants)]
    needed = declared_grants(declared.roles)
    missing = [one for one in needed if not any(grant.covers(one) for grant in held)]
    for text in _grouped(missing):
        yield Finding(CHECK, "error", account, f"may not {text}, which the code declares", _apply(declared))
    allowed = declared_grants(declared.most)
    own = {_name_of(role) for role in declared.roles}
    for bound, grants in access.granted.items():
        wide = [one for one in grants if not any(grant.covers(one) for grant in allowed)]
        # A role of others may be meant for others: only its binding is the operator's.
        step = _apply(declared) if bound.role in own else f"delete the {bound.binding}, unless it is meant"
        for text in _grouped(wide):
            yield Finding(CHECK, "warning", bound.role, f"lets it {text}, which no declaration needs", step)


def _name_of(role: Document) -> str:
    namespace = role["metadata"].get("namespace")
    return f"{role['kind']} {f'{namespace}/' if namespace else ''}{role['metadata']['name']}"


def _apply(declared: Declared) -> str:
    return f"apply the roles that `{declared.manifests}` prints"


def _grouped(grants: Iterable[Grant]) -> Iterable[str]:
    """Each resource once, with its verbs and names."""
    verbs: dict[tuple[str, str, str], dict[str, dict[str, None]]] = {}
    for one in grants:
        place = verbs.setdefault((one.namespace, one.group, one.resource), {})
        place.setdefault(one.name, {})[one.verb] = None
    for (namespace, group, resource), by_name in verbs.items():
        where = f"in the namespace {namespace}" if namespace else "in the whole cluster"
        kind = resource if not group else f"{resource} of {group}"
        for name, them in by_name.items():
            yield f"{', '.join(them)} {kind}{f' named {name}' if name else ''} {where}"


def _resource_covers(held: str, asked: str) -> bool:
    """`*` stands for everything, and `*/status` for that part of every resource."""
    if held in ("*", asked):
        return True
    return held.startswith("*/") and asked.endswith(held[1:])


def _rule(rule: Document) -> Rule:
    return Rule(rule.get("apiGroups"), rule.get("resources"), rule.get("resourceNames"), rule.get("verbs"))
