"""Rules in CEL: what a definition may say, and what objects they refuse."""

import sys
from typing import Any

import pytest

from reconcile.embedded.schema import check_structural, compile_schema
from tests.embedded.rule_schemas import COSTLY, MEMBERS, PATH, RULE, holds, ruled, schema, spec

INVALID, REQUIRED, FORBIDDEN = "FieldValueInvalid", "FieldValueRequired", "FieldValueForbidden"
FAILED = "failed rule: self.size > 1"
OBJECT = 'Invalid value: "object"'


@pytest.mark.rule("api-122")
@pytest.mark.parametrize(
    ("rule", "members"),
    [
        ("self.size <= self.most", {"size": 1, "most": 2}),
        ("!has(self.size) || self.size > 0", {}),
        ("self.?size.orValue(3) == 3", {}),
        ("self.ratio / 2.0 == 1.5", {"ratio": 3}),
        ("self.note == null", {"note": None}),
        ("type(self.port) == string || self.port > 1", {"port": 2}),
        ("self.when < timestamp('2030-01-01T00:00:00Z')", {"when": "2026-01-01T00:00:00Z"}),
        ("self.wait == duration('90s')", {"wait": "1m30s"}),
        ("self.data == b'hi'", {"data": "aGk="}),
        ("self.dash__dash__ed == self.__namespace__", {"dash-ed": "x", "namespace": "x"}),
        ("self.labels.all(key, key.startsWith('a') && self.labels[key] != '')", {"labels": {"ab": "c"}}),
        ("self.ports.exists_one(p, p.port == 80 && p.name == 'a')", {"ports": [{"port": 80, "name": "a"}]}),
        ("self.ports.map(p, p.port).sum() == 3", {"ports": [{"port": 1}, {"port": 2}]}),
        ("self.numbers.isSorted() && self.numbers.min() == 1", {"numbers": [1, 2]}),
        ("self.numbers.max() == 3", {"numbers": [1, 3, 2]}),
        ("sets.contains(self.tags, ['a'])", {"tags": ["b", "a"]}),
        ("self.words.join('-').upperAscii() == 'A-B'", {"words": ["a", "b"]}),
        ("'%s is %d'.format([self.name, self.size]) == 'a is 3'", {"name": "a", "size": 3}),
        ("self.name.matches('^[a-z]+$') && self.name.find('b+') == 'bb'", {"name": "abbc"}),
        ("self.name.findAll('[0-9]+') == ['1', '22']", {"name": "1a22"}),
        ("self.name.findAll('[0-9]+', 1) == ['1']", {"name": "1a22"}),
        ("quantity(self.name).isGreaterThan(quantity('1Gi'))", {"name": "1025Mi"}),
        ("quantity('1000m') == quantity('1') && quantity('1').add(2).asInteger() == 3", {}),
        ("isQuantity('1.5Gi') && !isQuantity('a') && quantity('-1').sign() == -1", {}),
        ("quantity('500m').asApproximateFloat() == 0.5 && !quantity('500m').isInteger()", {}),
        ("quantity('2').sub(quantity('1')).compareTo(quantity('1')) == 0", {}),
        ("isURL(self.name) && url(self.name).getHostname() == '::1'", {"name": "https://[::1]:80/a%20b?q=1"}),
        ("url(self.name).getPort() == '80'", {"name": "https://[::1]:80/a"}),
        ("url(self.name).getHost() == '[::1]:80'", {"name": "https://[::1]:80/a"}),
        ("url(self.name).getScheme() == 'https'", {"name": "https://h/a%20b"}),
        ("url(self.name).getEscapedPath() == '/a%20b'", {"name": "https://h/a%20b"}),
        ("url(self.name).getQuery() == {'q': ['1', '2']}", {"name": "https://h/?q=1&q=2"}),
        ("isIP(self.name) && ip(self.name).family() == 6 && ip(self.name).isLoopback()", {"name": "::1"}),
        ("ip.isCanonical('::1') && !isIP('1.2.3') && ip('169.254.1.1').isLinkLocalUnicast()", {}),
        ("cidr(self.name).containsIP('10.1.2.3') && !isCIDR('10.0.0.0')", {"name": "10.0.0.0/8"}),
        ("cidr('10.0.0.0/8').containsCIDR(cidr('10.1.0.0/16'))", {}),
        ("cidr('10.1.0.0/8').prefixLength() == 8", {}),
        ("cidr('10.1.0.0/8').masked() == cidr('10.0.0.0/8')", {}),
        ("cidr('10.1.0.0/8').ip() == ip('10.1.0.0')", {}),
    ],
)
def test_an_object_that_satisfies_a_rule_has_no_fault(rule: str, members: dict[str, Any]) -> None:
    assert holds(rule, **members)


@pytest.mark.rule("api-122")
@pytest.mark.parametrize(
    ("rule", "members"),
    [
        ("self.size <= self.most", {"size": 3, "most": 2}),
        ("self.size > 0", {}),
        ("self.port > 1", {"port": "a"}),
        ("10 / self.size == 1", {"size": 0}),
        ("quantity(self.name).sign() == 1", {"name": "much"}),
        ("self.when < timestamp('2020-01-01T00:00:00Z')", {"when": "2026-01-01T00:00:00Z"}),
    ],
)
def test_a_rule_that_is_false_or_fails_is_a_fault_at_its_path(rule: str, members: dict[str, Any]) -> None:
    causes = ruled(rule).validate({"spec": members})
    assert [(cause.reason, cause.field) for cause in causes] == [("FieldValueInvalid", "spec")]
    assert rule in causes[0].message


@pytest.mark.rule("api-122")
@pytest.mark.parametrize(
    ("more", "reason", "field", "message"),
    [
        ({}, INVALID, "spec", f"{OBJECT}: {FAILED}"),
        ({"message": "too few"}, INVALID, "spec", f"{OBJECT}: too few"),
        ({"message": "few", "messageExpression": "string(self.size)"}, INVALID, "spec", f"{OBJECT}: 1"),
        ({"message": "few", "messageExpression": "self.name"}, INVALID, "spec", f"{OBJECT}: few"),
        (
            {"reason": FORBIDDEN, "fieldPath": ".size", "message": "no"},
            FORBIDDEN,
            "spec.size",
            "Forbidden: no",
        ),
        ({"reason": REQUIRED, "message": "say"}, REQUIRED, "spec", "Required value: say"),
        ({"reason": "FieldValueDuplicate"}, "FieldValueDuplicate", "spec", 'Duplicate value: "object"'),
    ],
)
def test_a_rule_determines_the_reason_and_field_of_its_fault(
    more: dict[str, Any], reason: str, field: str, message: str
) -> None:
    causes = ruled("self.size > 1", **more).validate({"spec": {"size": 1}})
    assert [(cause.reason, cause.field, cause.message) for cause in causes] == [(reason, field, message)]


@pytest.mark.rule("api-122")
def test_rules_are_not_evaluated_on_an_object_with_wrong_types() -> None:
    causes = ruled("self.size > 1").validate({"spec": {"size": "a"}})
    assert [(cause.reason, cause.field) for cause in causes] == [
        ("FieldValueTypeInvalid", "spec.size"),
        ("FieldValueInvalid", "<nil>"),
    ]
    assert "some validation rules were not checked" in causes[1].message


@pytest.mark.rule("api-122")
def test_a_transition_rule_compares_with_the_old_value() -> None:
    fixed = ruled("self.name == oldSelf.name", message="name is fixed")
    assert fixed.validate({"spec": {"name": "a"}}) == []
    assert fixed.validate({"spec": {"name": "a"}}, {"spec": {"name": "a"}}) == []
    assert fixed.validate({"spec": {"name": "b"}}, {}) == []
    (cause,) = fixed.validate({"spec": {"name": "b"}}, {"spec": {"name": "a"}})
    assert (cause.field, cause.message) == ("spec", 'Invalid value: "object": name is fixed')


@pytest.mark.rule("api-122")
def test_a_rule_with_an_optional_old_value_is_evaluated_on_creation_too() -> None:
    rule = "oldSelf.hasValue() ? self.size >= oldSelf.value().size : self.size == 1"
    growing = ruled(rule, optionalOldSelf=True)
    assert growing.validate({"spec": {"size": 1}}) == []
    assert len(growing.validate({"spec": {"size": 2}})) == 1
    assert growing.validate({"spec": {"size": 2}}, {"spec": {"size": 1}}) == []
    assert len(growing.validate({"spec": {"size": 1}}, {"spec": {"size": 2}})) == 1


@pytest.mark.rule("api-123")
def test_an_unchanged_value_that_already_broke_a_rule_is_tolerated() -> None:
    positive = ruled("self.size > 0")
    assert positive.validate({"spec": {"size": 0}}, {"spec": {"size": 0}}) == []
    assert len(positive.validate({"spec": {"size": 0, "most": 1}}, {"spec": {"size": 0}})) == 1


@pytest.mark.rule("api-122")
def test_items_of_a_keyed_list_are_compared_with_their_own_old_values() -> None:
    ports, rule = MEMBERS["ports"], {"rule": "self.name == oldSelf.name"}
    member = {**ports, "items": {**ports["items"], "x-kubernetes-validations": [rule]}}
    openapi = {"type": "object", "properties": {"ports": member}}
    assert [cause for cause in check_structural(openapi, PATH) if cause.reason != COSTLY] == []
    old = {"ports": [{"port": 1, "name": "a"}, {"port": 2, "name": "b"}]}
    moved = {"ports": [{"port": 3, "name": "c"}, {"port": 2, "name": "b"}, {"port": 1, "name": "a"}]}
    renamed = {"ports": [{"port": 2, "name": "b"}, {"port": 1, "name": "x"}]}
    assert compile_schema(openapi).validate(moved, old) == []
    assert [cause.field for cause in compile_schema(openapi).validate(renamed, old)] == ["ports[1]"]


@pytest.mark.rule("api-122")
def test_sets_and_keyed_lists_are_equal_in_any_order() -> None:
    same = ruled("self == oldSelf")
    old = {"spec": {"tags": ["a", "b"], "ports": [{"port": 1}, {"port": 2}], "words": ["a", "b"]}}
    new = {"spec": {"tags": ["b", "a"], "ports": [{"port": 2}, {"port": 1}], "words": ["a", "b"]}}
    assert same.validate(new, old) == []
    assert len(same.validate({"spec": {**old["spec"], "words": ["b", "a"]}}, old)) == 1


@pytest.mark.rule("api-122")
def test_a_rule_at_the_root_sees_only_the_name_of_the_metadata() -> None:
    spec = {"type": "object", "properties": MEMBERS}
    openapi: dict[str, Any] = {"type": "object", "properties": {"spec": spec}}
    rule = "self.metadata.name == self.spec.name && self.kind == 'Thing'"
    openapi["x-kubernetes-validations"] = [{"rule": rule}]
    assert check_structural(openapi, PATH) == []
    obj = {"kind": "Thing", "metadata": {"name": "a", "labels": {"b": "c"}}, "spec": {"name": "a"}}
    assert compile_schema(openapi).validate(obj) == []
    openapi["x-kubernetes-validations"] = [{"rule": "self.metadata.labels.size() > 0"}]
    assert [cause.field for cause in check_structural(openapi, PATH)] == [
        f"{PATH}.x-kubernetes-validations[0].rule"
    ]


@pytest.mark.rule("api-122")
@pytest.mark.parametrize(
    ("rule", "more", "reason", "place"),
    [
        ("self.nothing > 1", {}, INVALID, ".rule"),
        ("self.size > 'a'", {}, INVALID, ".rule"),
        ("self.size", {}, INVALID, ".rule"),
        ("self.size >", {}, INVALID, ".rule"),
        ("self.ports.all(p, p.nothing == 1)", {}, INVALID, ".rule"),
        ("nothing(self.size)", {}, INVALID, ".rule"),
        ("type(self) == object.Object0", {}, INVALID, ".rule"),
        ("(" * 5000 + "true" + ")" * 5000, {}, INVALID, ".rule"),
        (" && ".join(["true"] * 20000), {}, INVALID, ".rule"),
        ("quantity(self.name) > 3", {}, INVALID, ".rule"),
        ("", {}, REQUIRED, ".rule"),
        ("self.size\n> 1", {}, REQUIRED, ".message"),
        ("self.size > 1", {"message": "a\nb"}, INVALID, ".message"),
        ("self.size > 1", {"message": " "}, INVALID, ".message"),
        ("self.size > 1", {"messageExpression": "self.size"}, INVALID, ".messageExpression"),
        ("self.size > 1", {"messageExpression": " "}, REQUIRED, ".messageExpression"),
        ("self.size > 1", {"reason": "Because"}, "FieldValueNotSupported", ".reason"),
        ("self.size > 1", {"fieldPath": "size["}, INVALID, ".fieldPath"),
        ("self.size > 1", {"fieldPath": ".nothing"}, INVALID, ".fieldPath"),
        ("self.size > 1", {"fieldPath": ".size.more"}, INVALID, ".fieldPath"),
        ("self.size > 1", {"optionalOldSelf": True}, INVALID, ".optionalOldSelf"),
        ("self.size > 1", {"message": 1}, "FieldValueTypeInvalid", ".message"),
    ],
)
def test_an_invalid_rule_is_a_fault_of_the_schema(
    rule: str, more: dict[str, Any], reason: str, place: str
) -> None:
    causes = check_structural(schema(rule, **more), PATH)
    assert [(cause.reason, cause.field) for cause in causes] == [(reason, RULE + place)]


@pytest.mark.parametrize("path", [".size", ".labels.any", ".labels['a.b/c']", ""])
def test_a_field_path_can_go_through_properties_and_maps(path: str) -> None:
    assert check_structural(schema("self.size > 1", fieldPath=path), PATH) == []


@pytest.mark.rule("api-122")
def test_items_without_a_key_have_no_old_value() -> None:
    item = {"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf"}]}
    openapi = {"type": "object", "properties": {"words": {"type": "array", "items": item}}}
    (cause,) = (cause for cause in check_structural(openapi, PATH) if cause.reason != COSTLY)
    assert cause.field == f"{PATH}.properties[words].items.x-kubernetes-validations[0].rule"


@pytest.mark.parametrize("size", [150, 3000])
def test_every_rule_is_bounded(size: int) -> None:
    nested = ruled("self.numbers.all(a, self.numbers.all(b, self.numbers.all(c, a + b + c >= 0)))")
    (cause,) = nested.validate({"spec": {"numbers": list(range(size))}})
    assert "out of cost budget" in cause.message


def test_many_rules_together_are_bounded() -> None:
    item = spec("self.numbers.all(a, self.numbers.all(b, a + b >= 0))")
    openapi = {"type": "object", "properties": {"all": {"type": "array", "items": item}}}
    obj = {"all": [{"numbers": list(range(90))} for _ in range(200)]}
    (cause,) = compile_schema(openapi).validate(obj)
    assert "out of cost budget" in cause.message


def test_without_the_cel_library_every_rule_is_reported_as_not_evaluated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "reconcile.embedded.schema.cel", None)
    made = ruled("self.nothing > 1")
    (told,) = made.unevaluated_rules
    assert "the extra `embedded` is not installed" in told
    assert made.validate({"spec": {}}) == []
