"""What rules in CEL may cost: whatever they do inside functions, no object holds the server."""

from typing import Any

import pytest

from reconcile.embedded.schema import ResourceSchema, check_structural, compile_schema
from reconcile.embedded.schema.cel.cel_rules import CelRule, Checker
from reconcile.embedded.schema.cel.cel_types import Types
from reconcile.embedded.schema.cel.declared import declared
from tests.embedded.api_client import DEFINITIONS, Api, definition
from tests.helpers.processor_time import bounded

TEXT = {"type": "string"}
NUMBER = {"type": "integer"}
FIELDS: dict[str, Any] = {
    "big": TEXT,
    "other": TEXT,
    "n": {"type": "integer"},
    "list": {"type": "array", "items": {"type": "integer"}},
    "names": {"type": "array", "items": TEXT},
    "objs": {"type": "array", "items": {"type": "object", "properties": {"t": TEXT, "n": NUMBER}}},
    "few": {"type": "array", "items": {"type": "object", "properties": {"n": NUMBER}}},
    "map": {"type": "object", "additionalProperties": TEXT},
    "nested": {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}},
}  # fmt: skip
LARGE: dict[str, Any] = {
    "big": "a" * 700_000,
    "other": "a" * 300_000 + "b",
    "n": 9_000,
    "list": list(range(9_000)),
    "names": [f"n{number}" for number in range(9_000)],
    "objs": [{"t": f"t{number}", "n": number} for number in range(5_000)],
    "few": [{"n": number} for number in range(2_000)],
    "map": {f"k{number}": "v" for number in range(5_000)},
    "nested": [list(range(500))] * 100,
}
OUT = "out of cost budget"


def ruled(rule: str, **more: str) -> ResourceSchema:
    openapi = {"type": "object", "properties": FIELDS, "x-kubernetes-validations": [{"rule": rule, **more}]}
    spec = {"type": "object", "properties": {"spec": openapi}}
    # What they cost by the schema alone is another matter.
    assert {cause.reason for cause in check_structural(spec, "schema")} <= {"FieldValueForbidden"}
    return compile_schema(spec)


@pytest.mark.rule("api-142")
@pytest.mark.parametrize(
    "rule",
    [
        "self.list.all(x, self.big.contains('b'))",
        "self.big.contains(self.other)",
        "self.list.all(x, self.big.matches('b$'))",
        "self.big.matches('(a|b)*a(a|b){500}c')",
        "self.big.find('(a|b)*a(a|b){500}c') == ''",
        "self.list.all(x, self.big + string(x) != '')",
        "self.list.map(x, self.big).join(',').size() > 1",
        "self.list.map(x, self.big + self.big).size() > 1",
        "[1].map(a, self.big + self.big).map(b, b + b).map(c, c + c).map(d, d + d).map(e, e + e)[0] != ''",
        "self.big.replace('a', self.big).size() > 1",
        "self.big.replace('', self.other).size() > 1",
        "self.big.split('').map(x, self.big).size() > 1",
        "self.list.all(x, self.big.split('a').size() > 1)",
        "sets.contains(self.names, self.names)",
        "sets.equivalent(self.list, self.list)",
        "sets.intersects(self.names, self.list.map(x, string(x)))",
        "self.names.distinct().size() > 1",
        "self.objs.distinct().size() > 1",
        "self.objs.all(o, self.objs == self.objs)",
        "self.names.all(n, n in self.names)",
        "self.list.all(x, x in self.list)",
        "self.list.all(x, self.list.sum() > x)",
        "self.names.all(n, self.names.indexOf(n) >= 0)",
        "self.map.all(k, self.map == self.map)",
        "self.list.map(x, self.nested).flatten().flatten().size() > 1",
        "self.list.map(x, lists.range(10000)).size() > 1",
        "lists.range(10000).all(x, self.big.endsWith('b') || true)",
        "self.list.all(x, self.big.lowerAscii() == self.big.upperAscii() || true)",
        "self.list.all(x, '%s%s'.format([self.big, self.big]) != '')",
        "self.list.sortBy(x, self.big).size() > 1",
        "self.names.map(n, self.names.map(m, n + m)).size() > 1",
    ],
)
def test_an_expensive_call_inside_functions_is_refused_before_it_runs(rule: str) -> None:
    schema = ruled(rule)
    with bounded(1):
        (cause,) = schema.validate({"spec": LARGE})
    assert OUT in cause.message


@pytest.mark.rule("api-122")
@pytest.mark.parametrize(
    "rule",
    [
        "self.n > 1 && self.big != self.other",
        "self.big.contains('b') || self.big.startsWith('a')",
        "self.list.all(x, x >= 0 && x < 10000)",
        "self.names.all(n, n.matches('^[a-z][a-z0-9]*$'))",
        "self.objs.all(o, o.t.startsWith('t') && o.n < 10000)",
        "self.few.filter(o, o.n > 5).map(o, o.n).sum() > 0",
        "self.map.all(k, k.startsWith('k') && self.map[k] == 'v')",
        "self.list.isSorted() && self.list.max() > 1 && self.n in self.list || self.n == 9000",
        "self.names.join(',').size() > 1",
        "self.big.find('a+') == self.big",
        "self.few.map(x, x.n * 2).filter(x, x > 3).size() > 1",
    ],
)
def test_a_rule_that_reads_a_large_object_once_is_evaluated(rule: str) -> None:
    schema = ruled(rule)
    with bounded(1):
        assert schema.validate({"spec": LARGE}) == []


@pytest.mark.rule("api-142")
def test_rules_for_every_item_of_a_long_list_share_one_budget() -> None:
    item = {"type": "object", "properties": {"n": {"type": "integer"}}}
    item["x-kubernetes-validations"] = [{"rule": "self.n >= 0"}]
    openapi = {"type": "object", "properties": {"all": {"type": "array", "items": item}}}
    schema = compile_schema(openapi)
    assert schema.validate({"all": [{"n": 1}] * 10_000}) == []
    with bounded(2):
        (cause,) = schema.validate({"all": [{"n": 1}] * 100_000})
    assert OUT in cause.message


@pytest.mark.rule("api-142")
def test_a_message_that_costs_too_much_also_ends_the_rules() -> None:
    schema = ruled("self.n < 0", messageExpression="self.list.map(x, self.big).join(',')")
    with bounded(1):
        assert any(OUT in cause.message for cause in schema.validate({"spec": LARGE}))


@pytest.mark.rule("api-142")
def test_a_schema_with_thousands_of_rules_is_refused() -> None:
    rules = [{"rule": f"self.n != {number}"} for number in range(20_000)]
    with bounded(1):
        (cause,) = check_structural(
            {"type": "object", "properties": {"n": NUMBER}, "x-kubernetes-validations": rules}, "schema"
        )
    assert cause.reason == "FieldValueTooMany"


@pytest.mark.rule("api-122")
@pytest.mark.parametrize(
    ("rule", "costly"),
    [
        ("self.list.all(x, self.list.all(y, x <= y || y <= x))", True),
        ("self.names.all(n, n.matches('^[a-z]+$'))", True),
        ("self.names.all(n, self.names.exists_one(m, m == n))", True),
        ("self.n > 1 && self.big != self.other", False),
        ("self.list.all(x, x >= 0)", False),
        ("self.few.all(a, self.few.exists(b, a.n == b.n))", False),
        ("self.short.all(s, s.matches('^[a-z]+$'))", False),
    ],
)
def test_a_rule_that_may_cost_too_much_by_its_schema_is_refused(rule: str, costly: bool) -> None:
    few = {**FIELDS["few"], "maxItems": 50}
    short = {"type": "array", "maxItems": 100, "items": {"type": "string", "maxLength": 60}}
    spec = {"type": "object", "properties": {**FIELDS, "few": few, "short": short}}
    spec["x-kubernetes-validations"] = [{"rule": rule}]
    schema = {"type": "object", "properties": {"spec": spec}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    answer = Api().send("POST", DEFINITIONS, definition(group="other.io", versions=[version]))
    assert answer.status == (422 if costly else 201)
    if costly:
        place = "spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].rule"
        assert ("FieldValueForbidden", place) in answer.causes


LISTED = {"type": "array", "items": {"type": "string"}}
SHORT = {"type": "array", "maxItems": 10, "items": {"type": "string", "maxLength": 10}}
PARTS = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string", "maxLength": 4}}}


@pytest.mark.parametrize(
    ("member", "rule", "units"),
    [
        ({"type": "array", "items": {"type": "number"}}, "self.all(x, true)", 4718591),
        ({"type": "array", "items": {"type": "string", "format": "date"}}, "self.all(x, true)", 725936),
        ({"type": "object", "additionalProperties": {"type": "boolean"}}, "self.all(x, true)", 943718),
        ({"type": "string"}, "self.contains('test')", 314574),
        ({"type": "string"}, "self.matches('x')", 314574),
        ({"type": "string"}, "self == 'x'", 2),
        ({"type": "string", "enum": ["A", "Long"]}, "self.contains('A')", 2),
        ({"type": "string", "format": "byte"}, "self == b'x'", 2),
        ({"x-kubernetes-int-or-string": True}, "isQuantity(self)", 314574),
        (LISTED, "self.isSorted()", 329854432051),
        (SHORT, "self.join(' ') == 'aa bb'", 43),
        (PARTS, "self.a.split(self.b) == []", 629160),
    ],
)
def test_the_estimate_for_a_schema_is_that_of_a_real_server(
    member: dict[str, Any], rule: str, units: int
) -> None:
    ruled = {**member, "x-kubernetes-validations": [{"rule": rule}]}
    kind = declared(ruled)
    assert kind is not None
    types = Types()
    shape = types.shape(ruled)
    assert shape is not None
    assert Checker(types.pool(), shape, kind).check(CelRule(rule)).cost == units
