"""API priority and fairness: which share of the API server the operator's requests get."""

from collections.abc import Iterable, Sequence
from typing import Final

from attrs import field, frozen

from reconcile.doctor.declared import Declared
from reconcile.doctor.findings import Finding
from reconcile.doctor.managers import ManagerState
from reconcile.doctor.objects import FlowSchema, FlowSubject, PriorityLevel

CHECK: Final = "api-priority"
REFUSED_SHARE: Final = 0.01
"""A share of 429 below that is a burst, which the client repeats as the server asks."""
CATCH_ALL: Final = "catch-all"


@frozen
class Flows:
    """The FlowSchemas and PriorityLevelConfigurations; none where the server has no priority and fairness."""

    schemas: Sequence[FlowSchema] = field(factory=tuple)
    levels: Sequence[PriorityLevel] = field(factory=tuple)


def check_flows(declared: Declared, account: str, flows: Flows) -> Iterable[Finding]:
    """The schema that the server chooses for the ServiceAccount, and the level that it leads to."""
    schema = schema_for(flows.schemas, declared.namespace, account)
    if schema is None:
        return
    name = schema.spec.priority_level_configuration.name
    level = next((one for one in flows.levels if one.metadata.name == name), None)
    subject = f"FlowSchema {schema.metadata.name}"
    step = f"give {declared.namespace}/{account} a FlowSchema of its own, with a Limited level that queues"
    if level is None:
        what = f"leads to the PriorityLevelConfiguration {name}, which does not exist"
        yield Finding(CHECK, "error", subject, what, step)
    elif level.spec.type == "Exempt":
        what = "exempts the operator from limits, so a storm of it can take the API server from all others"
        yield Finding(CHECK, "warning", subject, what, step)
    elif level.spec.limited is not None and level.spec.limited.nominal_concurrency_shares == 0:
        what = (
            f"leads to the PriorityLevelConfiguration {name}, which has no seats: only borrowed ones are left"
        )
        yield Finding(CHECK, "error", subject, what, step)
    elif schema.metadata.name == CATCH_ALL or (
        level.spec.limited is not None and level.spec.limited.limit_response.type == "Reject"
    ):
        what = f"leads to the PriorityLevelConfiguration {name}, which refuses requests and queues none"
        yield Finding(CHECK, "warning", subject, what, step)


def check_refused(managers: Sequence[ManagerState]) -> Iterable[Finding]:
    for one in managers:
        if one.refused and one.refused > one.requests * REFUSED_SHARE:
            what = f"was answered 429 for {one.refused} of {one.requests} requests"
            step = (
                "lower client_qps, look for a storm (reconcile top), or give it a FlowSchema with more shares"
            )
            yield Finding(CHECK, "warning", one.where, what, step)


def schema_for(schemas: Iterable[FlowSchema], namespace: str, account: str) -> FlowSchema | None:
    """The first in the order of the server that takes requests of the account for resources of any group."""
    in_order = sorted(schemas, key=lambda one: (one.spec.matching_precedence, one.metadata.name))
    return next((one for one in in_order if _takes(one, namespace, account)), None)


def _takes(schema: FlowSchema, namespace: str, account: str) -> bool:
    return any(
        any(_is(subject, namespace, account) for subject in rule.subjects or ())
        # Rules for some resources, such as Leases, take a small part of what an operator sends.
        and any(
            "*" in (part.resources or ()) and "*" in (part.verbs or ()) for part in rule.resource_rules or ()
        )
        for rule in schema.spec.rules or ()
    )


def _is(subject: FlowSubject, namespace: str, account: str) -> bool:
    if subject.kind == "ServiceAccount" and subject.service_account is not None:
        chosen = subject.service_account
        return chosen.namespace == namespace and chosen.name in ("*", account)
    if subject.kind == "Group" and subject.group is not None:
        groups = (
            "*",
            "system:authenticated",
            "system:serviceaccounts",
            f"system:serviceaccounts:{namespace}",
        )
        return subject.group.name in groups
    if subject.kind == "User" and subject.user is not None:
        return subject.user.name in ("*", f"system:serviceaccount:{namespace}:{account}")
    return False
