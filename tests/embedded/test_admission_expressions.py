"""How the expressions of webhooks and policies are evaluated for a request."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconcile.embedded import ApiServer
from reconcile.embedded.admission.expressions import (
    Exhausted,
    ExpressionError,
    ExpressionInput,
    ExpressionSet,
    MatchConditions,
)
from reconcile.embedded.auth import ADMIN, User
from reconcile.embedded.schema.cel.admission_evaluation import MAX_POLICY

REQUEST = {
    "uid": "1", "kind": {"group": "", "version": "v1", "kind": "ConfigMap"},
    "resource": {"group": "", "version": "v1", "resource": "configmaps"},
    "name": "a", "namespace": "default", "subResource": "", "operation": "CREATE", "dryRun": False,
}  # fmt: skip
OBJECT: dict[str, Any] = {
    "metadata": {"name": "a", "labels": {"team": "blue"}},
    "data": {"x": "1", "y-z": "2"},
    "items": [{"n": 1}, {"n": 2}],
}


def seen(**more: Any) -> ExpressionInput:
    server = ApiServer()
    given = {"request": REQUEST, "object": OBJECT, "old": None, "user": ADMIN, "access": server.access}
    return ExpressionInput(**{**given, **more})


SEEN = seen()


def value(text: str, variables: dict[str, str] | None = None, given: ExpressionInput = SEEN) -> Any:
    made = ExpressionSet(tuple((variables or {}).items()))
    return made.begin(given, MAX_POLICY).value(text)


def failure(text: str, variables: dict[str, str] | None = None, given: ExpressionInput = SEEN) -> str:
    with pytest.raises(ExpressionError) as raised:
        value(text, variables, given)
    return str(raised.value).removeprefix(f"expression '{text}' resulted in error: ")


@pytest.mark.parametrize(
    "text",
    [
        "object.metadata.name == 'a' && object.data['y-z'] == '2'",
        "oldObject == null && params == null && namespaceObject == null",
        "!has(oldObject.spec) && !has(params.data)",
        "!has(request.subResource) && request.kind.group == '' && !request.dryRun",
        "request.operation == 'CREATE' && !has(request.uid)",
        "object.items.exists(item, item.n == 2) && object.items.size()==2",
        "object.?spec.?size.orValue(10) >= 10 && 1.5e1 > 2.0",
        "object.items[0].n < 1.5 && object.items[1].n == 2.0 && 2u > object.items[0].n",
        "object.metadata.labels.exists(k, v, k == 'team' && v in ['blue', 'red'])",
        "'%s is %d'.format([object.metadata.name, object.items.size()]) == 'a is 2'",
        "object.data.x.matches('^[0-9]+$') && int(object.data.x) + 1 == 2",
        "quantity('1Gi').isGreaterThan(quantity('500Mi')) && ip('10.0.0.1').family() == 4",
    ],
)
def test_an_expression_reads_the_request_and_its_objects(text: str) -> None:
    assert value(text) is True


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("object.data.missing == 'x'", "no such key: missing"),
        ("oldObject.spec.size > 1", "no such key: spec"),
        ("object.items[7].n == 1", "index out of bounds: 7"),
        ("object.items[0].n / (object.items.size() - 2) == 1", "division by zero"),
        ("object.data.x < 1", "no such overload"),
        ("authorizer.path(' ').check('get').allowed()", "path must not be empty"),
        (
            "authorizer.serviceAccount('a', 'B').path('/x').check('get').allowed()",
            "Invalid service account name",
        ),
    ],
)
def test_a_failure_is_told_as_a_real_server_tells_it(text: str, why: str) -> None:
    assert failure(text) == why


def test_variables_read_earlier_ones_and_are_computed_when_they_are_read() -> None:
    variables = {
        "size": "object.data.size()",
        "total": "variables.size + 1",
        "broken": "object.nothing",
        "outer": "variables.broken",
        "again": "variables.again",
    }
    assert value("variables.total == 3 && (has(variables.total) || variables.broken)", variables)
    broken = 'composited variable "broken" fails to evaluate: no such key: nothing'
    assert failure("variables.broken == 1", variables) == broken
    assert failure("variables.outer", variables) == f'composited variable "outer" fails to evaluate: {broken}'
    assert "it reads itself" in failure("variables.again", variables)


def test_long_chains_of_variables_fail_and_do_no_harm() -> None:
    chain = {"v0": "1"} | {f"v{number}": f"variables.v{number - 1} + 1" for number in range(1, 200)}
    assert value("variables.v63", chain) == 64
    assert "64 deep" in failure("variables.v199", chain)


def test_a_variable_that_does_not_compile_fails_when_it_is_read() -> None:
    variables = {"good": "1", "bad": "object.("}
    assert value("variables.good == 1 || variables.bad == 1", variables) is True
    assert 'composited variable "bad" fails to evaluate: compilation failed' in failure(
        "variables.bad", variables
    )


@pytest.mark.parametrize(
    "text", ["has(", "has(object", "has(variables.", "object.a == variables", "variables.", "variables.'a'"]
)
def test_an_expression_that_ends_too_early_does_not_compile(text: str) -> None:
    assert failure(text).startswith("compilation failed")


def test_variables_hold_optional_values_times_and_quantities() -> None:
    variables = {
        "none": "object.?spec",
        "some": "object.?data",
        "then": "timestamp('2026-01-01T00:00:00Z')",
        "much": "quantity('2Gi')",
    }
    for text in (
        "!variables.none.hasValue() && variables.some.value().x == '1'",
        "variables.some[?'x'].orValue('') == '1'",
        "variables.then < timestamp('2027-01-01T00:00:00Z')",
        "variables.much.compareTo(quantity('1Gi')) == 1",
    ):
        assert value(text, variables) is True


def test_the_authorizer_asks_by_the_roles_of_the_server() -> None:
    given = seen(user=User("jane"))
    asking = "authorizer.group('').resource('pods').namespace('default').check('get')"
    assert value(f"{asking}.allowed()") is True
    assert value(f"{asking}.allowed() || {asking}.errored()", given=given) is False
    assert value("authorizer.requestResource.check('delete').allowed()", given=given) is False
    service = "authorizer.serviceAccount('default', 'default').path('/metrics').check('get').allowed()"
    assert value(service) is False
    public = "authorizer.serviceAccount('default', 'default').path('/healthz').check('get').allowed()"
    assert value(public) is False  # which is for system:authenticated


def test_an_object_that_an_expression_makes_is_a_map_with_the_names_of_its_types() -> None:
    made = value("Object{metadata: Object.metadata{labels: {'a': 'b'}}, a__dash__b: true ? 1 : 2}")
    assert made == {"": "Object", "metadata": {"": "Object.metadata", "labels": {"a": "b"}}, "a-b": 1}
    assert value("[JSONPatch{op: 'add', path: '/x', value: {'k': [1]}}] + (true ? [] : [JSONPatch{}])") == [
        {"": "JSONPatch", "op": "add", "path": "/x", "value": {"k": [1]}}
    ]


def test_what_costs_too_much_is_refused_before_it_runs() -> None:
    large = seen(object={"items": [{"n": number} for number in range(3000)]})
    loop = "object.items.all(a, object.items.all(b, a != b || b != a))"
    assert failure(loop, given=large) == "operation cancelled: actual cost limit exceeded"
    evaluated = ExpressionSet().begin(large, MAX_POLICY)
    for _ in range(9):
        with pytest.raises(ExpressionError, match="cost limit exceeded"):
            evaluated.value(loop)
    with pytest.raises(Exhausted, match="running out of cost budget"):
        evaluated.value(loop)


def test_to_look_up_a_key_costs_the_same_in_a_map_of_any_size() -> None:
    names = [f"key-{number}" for number in range(50_000)]
    large = seen(object={"data": dict.fromkeys(names, "v"), "names": names})
    few = "['key-0', 'key-9', 'key-99', 'key-999', 'key-9999', 'key-49999']"
    assert value(f"[1, 2, 3, 4].all(n, {few}.all(k, k in object.data))", given=large) is True
    assert "cost limit exceeded" in failure(
        f"[1, 2, 3, 4].all(n, {few}.all(k, k in object.names))", given=large
    )


@pytest.mark.parametrize("text", ["object.key in object.data", "object.data[object.key] == 'v'"])
def test_to_look_up_a_long_key_costs_more(text: str) -> None:
    long = seen(object={"data": {}, "key": "x" * 1_000_000, "items": list(range(5_000))})
    assert "cost limit exceeded" in failure(f"object.items.all(n, {text})", given=long)


def test_each_check_of_the_authorizer_costs_a_third_of_an_expression() -> None:
    one = "authorizer.path('/x').check('get').allowed()"
    assert value(f"{one} && {one}") is True
    assert "cost limit exceeded" in failure(f"{one} && {one} && {one}")


def test_one_condition_that_is_false_decides_whatever_else_fails() -> None:
    def hold(*texts: str) -> bool:
        return MatchConditions.of([{"name": "c", "expression": text} for text in texts]).hold(SEEN)

    assert hold()
    assert hold("true", "object.metadata.name == 'a'")
    assert not hold("object.missing", "false")
    with pytest.raises(ExpressionError) as raised:
        hold("object.missing == 'x'", "true", "object.absent == 'x'")
    assert str(raised.value) == (
        "[expression 'object.missing == 'x'' resulted in error: no such key: missing, "
        "expression 'object.absent == 'x'' resulted in error: no such key: absent]"
    )


# The CEL library ends a text at a zero character.
TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=5)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**62), 2**62) | TEXT,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
        max_leaves=8,
    )
)
def test_a_variable_has_the_value_that_it_reads(held: Any) -> None:
    given_ = seen_with(held)
    assert value("variables.held", {"held": "object.held"}, given_) == held
    assert value("variables.held == object.held", {"held": "object.held"}, given_) is True


def seen_with(held: Any) -> ExpressionInput:
    return ExpressionInput(REQUEST, {"held": held}, None, ADMIN, SEEN.access)
