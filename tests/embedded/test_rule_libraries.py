"""The libraries of functions that Kubernetes gives to rules in CEL, one by one."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconcile.embedded.schema import check_structural
from reconcile.embedded.schema.cel.rewriting import runnable, tokens
from tests.embedded.rule_schemas import PATH, holds, ruled, schema

VALUES: dict[str, Any] = {
    "name": "a-b",
    "size": 2,
    "ratio": 2.5,
    "words": ["b", "a", "b"],
    "numbers": [3, 1, 2],
    "labels": {"x": "1", "y": "2"},
    "tags": ["t"],
    "wait": "90s",
}


@pytest.mark.rule("api-122")
@pytest.mark.parametrize(
    "rule",
    [
        # lists are searched, cut and sorted
        "self.words.indexOf('b') == 0 && self.words.lastIndexOf('b') == 2 && self.words.indexOf('z') == -1",
        "self.numbers.indexOf(self.size) == 2 && self.numbers . indexOf ( 1 ) == 1",
        "[[1], [2]].indexOf([2]) == 1 && [{'a': 1}].lastIndexOf({'a': 1}) == 0",
        "self.name.indexOf('b') == 2 && 'tacocat'.lastIndexOf('a', 4) == 1 && 'tacocat'.indexOf('a', 2) == 5",
        "self.words.lastIndexOf(self.words[self.words.indexOf('a')]) == 1",
        "'x.indexOf(1)'.indexOf('.indexOf(') == 1  // .indexOf(",
        "self.numbers.slice(1, 3) == [1, 2] && self.numbers.sort() == [1, 2, 3]",
        "self.words.distinct() == ['b', 'a'] && self.numbers.reverse() == [2, 1, 3]",
        "[[1], [2, 3]].flatten() == [1, 2, 3] && lists.range(3) == [0, 1, 2]",
        "self.numbers.sortBy(n, -n) == [3, 2, 1] && self.words.first().value() == 'b'",
        "self.numbers.sum() == 6 && [duration('1s'), duration('2s')].sum() == duration('3s')",
        "[duration('2s'), duration('1s')].min() == duration('1s')",
        "[timestamp('2026-01-01T00:00:00Z')].max() == timestamp('2026-01-01T00:00:00Z')",
        # maps are made from lists and maps
        "self.labels.transformMap(k, v, v + k) == {'x': '1x', 'y': '2y'}",
        "self.labels.transformMap(k, v, k != 'x', v.size()) == {'y': 1}",
        "self.words.transformMap(i, w, i > 1, w) == {2: 'b'}",
        "self.labels.transformMapEntry(k, v, {v: k}) == {'1': 'x', '2': 'y'}",
        "self.labels.transformMapEntry(k, v, k == 'x', {v: {'in': k}})['1']['in'] == 'x'",
        "self.labels.transformMap(k, v, self.words.transformMap(i, w, w + v)).x[0] == 'b1'",
        "self.labels.transformMap(k, v, duration(v + 's')).x < self.wait",
        "self.labels.transformList(k, v, k + v).exists(t, t == 'x1')",
        "self.labels.all(k, v, k != v) && self.words.exists(i, w, i == 1 && w == 'a')",
        "self.labels.existsOne(k, v, v == '2')",
        # versions are read and compared
        "semver('1.2.3').major() == 1 && semver('1.2.3').minor() == 2 && semver('1.2.3').patch() == 3",
        "semver('1.2.3').isLessThan(semver('1.10.0')) && semver('1.0.0').isGreaterThan(semver('1.0.0-rc.1'))",
        "semver('1.0.0-alpha.1').compareTo(semver('1.0.0-alpha.2')) == -1",
        "isSemver('1.2.3+build') && !isSemver('v1.2') && isSemver('v1.2', true) && !isSemver('1.2-rc', true)",
        "semver('v01.02', true) == semver('1.2.0') && !isSemver('01.0.0') && !isSemver('one')",
        # texts are held to named formats
        "!format.dns1123Label().validate(self.name).hasValue()",
        "format.dns1123Label().validate('A_').value()[0].contains('RFC 1123 label')",
        "format.dns1123Subdomain().validate('a.b') == optional.none()",
        "format.dns1035Label().validate('1a').hasValue() && !format.dns1035Label().validate('a1').hasValue()",
        "!format.dns1123LabelPrefix().validate('a-').hasValue()",
        "!format.dns1123SubdomainPrefix().validate('a.b-').hasValue()",
        "format.dns1035LabelPrefix().validate('-').hasValue()",
        "!format.qualifiedName().validate('a.io/b').hasValue()",
        "format.labelValue().validate('a b').hasValue()",
        "!format.uri().validate('https://a/b').hasValue() && format.uuid().validate('1').hasValue()",
        "!format.byte().validate('aGk=').hasValue() && format.date().validate('2026-13-01').hasValue()",
        "!format.datetime().validate('2026-01-01T00:00:00Z').hasValue()",
        "format.named('dns1123Label').value().validate('A').hasValue()",
        "format.named('nothing') == optional.none()",
        "format.dns1123Label().validate('A').orValue([]).size() == 1",
        # numbers, sets, optionals and texts
        "self.ratio > self.size && self.size < 2.5 && 3 >= self.ratio",
        "sets.equivalent(self.words, ['a', 'b']) && sets.intersects(self.tags, ['t', 'u'])",
        "self.?name.orValue('') == 'a-b' && optional.of(1).optMap(n, n + 1).value() == 2",
        "[1, 2][?5].orValue(0) == 0 && {?'a': self.?name}.a == 'a-b'",
        "strings.quote('a') == '\"a\"' && 'a,b'.split(',').join('-') == self.name",
        "'  A '.trim().lowerAscii() == 'a' && 'abc'.substring(1, 2) == 'b' && 'abc'.charAt(0) == 'a'",
        "'aaa'.replace('a', 'b', 2) == 'bba' && 'a1b22'.find('([0-9]+)+') == '1'",
        "'a1b22'.findAll('(?:[0-9]+)+') == ['1', '22'] && 'ab'.findAll('((a|b)+)*x') == []",
        # a plus on anything but lists of type set and map
        "self.tags.map(t, t + 'x').all(t, t.endsWith('x')) && self.words + ['c'] != []",
        "self.tags.all(t, t + 'x' != '') && 'a+b' == 'a+b'",
        "self.numbers.sum() + 1 > 0 && self.tags.size() + 1 > 1",
    ],
)
def test_functions_answer_as_in_kubernetes(rule: str) -> None:
    assert holds(rule, **VALUES)


@pytest.mark.rule("api-122")
def test_a_duplicate_key_fails_the_rule() -> None:
    (cause,) = ruled("self.words.transformMapEntry(i, w, {w: i}).size() == 2").validate({"spec": VALUES})
    assert "key 'b' already exists" in cause.message


@pytest.mark.rule("api-122")
def test_the_faults_of_a_format_can_be_the_message() -> None:
    made = ruled(
        "!format.dns1123Label().validate(self.name).hasValue()",
        messageExpression="format.dns1123Label().validate(self.name).value().join(' ')",
    )
    (cause,) = made.validate({"spec": {"name": "A"}})
    assert "a lowercase RFC 1123 label must consist of" in cause.message


@pytest.mark.rule("api-122")
@pytest.mark.parametrize(
    ("rule", "part"),
    [
        ("self.tags + ['a'] == self.tags", "'+' on lists of type set or map"),
        ("(has(self.tags) ? self.tags : []) + ['a'] != []", "'+' on lists of type set or map"),
        ("(self.ports + self.ports).size() > 0", "'+' on lists of type set or map"),
        ("self.numbers.indexOf('a') == 0", "'indexOf' applied to '(list(int), string)'"),
        ("self.words.sum() == ''", "'sum' applied to '(list(string))'"),
        ("self.wait == duration('soon')", "invalid duration argument"),
        ("self.when < timestamp('soon')", "invalid timestamp argument"),
        ("self.name.matches('[')", "invalid matches argument"),
        ("format.nothing().validate(self.name).hasValue()", "undeclared reference"),
        ("format.dns1123Label().validate(self.size).hasValue()", "no matching overload for 'validate'"),
        ("authorizer.path('/healthz').check('get').allowed()", "undeclared reference to 'authorizer'"),
        ("math.greatest(1, 2) == 2", "undeclared reference to 'math'"),
        ("base64.encode(b'a') == 'YQ=='", "undeclared reference to 'base64'"),
        ("'a'.reverse() == 'a'", "no matching overload for 'reverse'"),
        ("self.name < self.size", "no matching overload for '_<_'"),
    ],
)
def test_a_rule_that_cannot_be_evaluated_is_refused_in_the_definition(rule: str, part: str) -> None:
    (cause,) = check_structural(schema(rule), PATH)
    assert cause.field == f"{PATH}.properties[spec].x-kubernetes-validations[0].rule"
    assert part in cause.message


@pytest.mark.parametrize(
    "rule",
    [
        "self.numbers.all(n, self.numbers.indexOf(n) >= 0)",
        "self.numbers.all(n, self.numbers.sum() > n)",
        "self.numbers.all(n, self.name.find('x') == '')",
    ],
)
def test_functions_within_loops_are_bounded(rule: str) -> None:
    spec = {"numbers": list(range(5_000)), "name": "a" * 5_000}
    (cause,) = ruled(rule).validate({"spec": spec})
    assert "out of cost budget" in cause.message
    assert holds(rule, numbers=list(range(90)), name="a" * 90)


def test_a_function_beside_a_loop_accepts_long_lists() -> None:
    rule = "self.numbers.all(n, n >= 0) && self.numbers.sum() > 0 && self.numbers.max() == 8999"
    assert holds(rule, numbers=list(range(9_000)))


def test_a_list_of_unbounded_length_is_not_built() -> None:
    (cause,) = ruled("lists.range(1000000000).size() > 0").validate({"spec": VALUES})
    assert "lists.range makes lists of at most 10000 here" in cause.message


@pytest.mark.parametrize(
    "rule",
    [
        "self.words" + ".indexOf('a')" * 50_000 + " == 0",
        "self.words.indexOf(" * 20_000 + "1" + ")" * 20_000 + " == 0",
    ],
    ids=["long", "deep"],
)
def test_an_endless_rule_is_refused_at_once(rule: str) -> None:
    (cause,) = check_structural(schema(rule), PATH)
    assert cause.field.endswith("x-kubernetes-validations[0].rule")


@given(st.text(alphabet="ab.(),[]{}'\"\\r/ \n_+", max_size=40))
def test_every_part_of_a_rule_survives_tokenising(text: str) -> None:
    assert runnable(text) == "".join(tokens(text))
    assert len("".join(tokens(text))) <= len(text)


@pytest.mark.rule("api-122")
def test_a_long_sum_is_as_good_as_a_short_one() -> None:
    text = " + ".join(f"'{number}'" for number in range(200))
    numbers = " + ".join(str(number) for number in range(100))
    lists = " + ".join(f"[{number}]" for number in range(40))
    made = "".join(map(str, range(200)))
    assert holds(f"{text} == '{made}' && {numbers} - 1 != 4949 + 1 && size({lists}) == 40", **VALUES)


@pytest.mark.rule("api-122")
def test_a_rule_that_fails_says_so_as_a_real_server_does() -> None:
    (cause,) = ruled("self.name == 'a'").validate({"spec": {}})
    assert "no such key: name evaluating rule: self.name == 'a'" in cause.message
