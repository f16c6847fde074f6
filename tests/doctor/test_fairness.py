"""Which FlowSchema takes the requests of an operator, among those that every kube-apiserver has."""

import pytest

from reconcile.doctor.declared import Declared
from reconcile.doctor.fairness import Flows, check_flows, schema_for
from reconcile.doctor.objects import (
    FlowResources,
    FlowRule,
    FlowSchema,
    FlowSchemaSpec,
    FlowSubject,
    FlowSubjectName,
    LimitedLevel,
    LimitResponse,
    Metadata,
    PriorityLevel,
    PriorityLevelSpec,
)

ALL = FlowResources(["*"], ["*"], ["*"])
LEASES = FlowResources(["get", "create", "update"], ["coordination.k8s.io"], ["leases"])


def group(name: str) -> FlowSubject:
    return FlowSubject("Group", group=FlowSubjectName(name))


def schema(
    name: str, precedence: int, level: str, subject: FlowSubject, part: FlowResources = ALL
) -> FlowSchema:
    spec = FlowSchemaSpec(precedence, FlowSubjectName(level), [FlowRule([subject], [part])])
    return FlowSchema(Metadata(name), spec)


DEFAULTS = [
    schema("catch-all", 10000, "catch-all", group("system:authenticated")),
    schema("global-default", 9900, "global-default", group("system:authenticated")),
    schema("service-accounts", 9000, "workload-low", group("system:serviceaccounts")),
    schema(
        "kube-system-service-accounts",
        900,
        "workload-high",
        FlowSubject("ServiceAccount", service_account=FlowSubjectName("*", "kube-system")),
    ),
    schema("workload-leader-election", 200, "leader-election", group("system:serviceaccounts"), LEASES),
    schema("system-nodes", 500, "system", group("system:nodes")),
    schema("exempt", 1, "exempt", group("system:masters")),
]


def level(name: str, kind: str = "Limited", shares: int = 100, response: str = "Queue") -> PriorityLevel:
    limited = LimitedLevel(shares, LimitResponse(response)) if kind == "Limited" else None
    return PriorityLevel(Metadata(name), PriorityLevelSpec(kind, limited))


@pytest.mark.parametrize(
    ("namespace", "name"), [("shop", "service-accounts"), ("kube-system", "kube-system-service-accounts")]
)
def test_the_first_schema_by_precedence_that_takes_all_requests_counts(namespace: str, name: str) -> None:
    found = schema_for(DEFAULTS, namespace, "sites")
    assert found is not None
    assert found.metadata.name == name


@pytest.mark.parametrize(
    ("given", "severity", "words"),
    [
        (level("workload-low"), "", ""),
        (level("other"), "error", "which does not exist"),
        (level("workload-low", "Exempt"), "warning", "exempts the operator from limits"),
        (level("workload-low", shares=0), "error", "which has no seats"),
        (level("workload-low", response="Reject"), "warning", "refuses requests and queues none"),
    ],
)
def test_a_level_that_gives_too_much_or_nothing_is_a_finding(
    given: PriorityLevel, severity: str, words: str
) -> None:
    found = list(check_flows(Declared("sites", "shop"), "sites", Flows(DEFAULTS, [given])))
    assert [one.severity for one in found] == ([severity] if severity else [])
    assert all(words in one.what for one in found)
