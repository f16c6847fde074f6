"""Label selectors, as an API server reads and matches them."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from informers.apimachinery.label_selectors import (
    Requirement,
    matches_labels,
    parse_label_selector,
    requirement,
    requirements_of,
)

LABELS = {"app": "web", "tier": "front", "rank": "5", "empty": "", "in": "x"}
QUALIFIED = "name part must consist of alphanumeric characters"
LABEL = "a valid label must be an empty string or consist of alphanumeric characters"

CHOSEN = {
    "": True,
    " ": True,
    "app": True,
    "zone": False,
    "!app": False,
    "! zone": True,
    "app=web": True,
    "app == web": True,
    "app=db": False,
    "app!=web": False,
    "zone!=a": True,
    "zone=": False,
    "empty=": True,
    "empty": True,
    "app in (web, db),tier": True,
    "app in(db)": False,
    "app notin (db)": True,
    "zone notin (a)": True,
    "app notin (web)": False,
    "empty in ()": True,
    "app in ()": False,
    "zone in ()": False,
    "empty in (a,)": True,
    "empty in (,a)": True,
    "empty in (a,,b)": True,
    "in in (in,x)": True,
    "in": True,
    "notin=a": False,
    "rank>4": True,
    "rank > 5": False,
    "rank<6": True,
    "app>1": False,
    "zone>1": False,
    "\trank\n>\r4 ": True,
    "app=web,app!=db,rank": True,
    "app=web,rank<5": False,
}

REFUSED = {
    "a=b=c": "found '=', expected: ',' or 'end of string'",
    "a b": "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt",
    "a,,b": "found ',', expected: identifier after ','",
    "a,": "found '', expected: identifier after ','",
    ",a": "found ',', expected: !, identifier, or 'end of string'",
    "=b": "found '=', expected: !, identifier, or 'end of string'",
    "(a)": "found '(', expected: !, identifier, or 'end of string'",
    "!": "unable to parse requirement: found '', expected: identifier",
    "!!a": "unable to parse requirement: found '!', expected: identifier",
    "!a=b": "found '=', expected: ',' or 'end of string'",
    "a=!b": "unable to parse requirement: found '!', expected: identifier",
    "a in b": "unable to parse requirement: found 'b' expected: '('",
    "a in (b": "unable to parse requirement: found '', expected: ',' or ')'",
    "a in (": "unable to parse requirement: found '', expected: ',', or identifier",
    "a in (b c)": "unable to parse requirement: found 'c', expected: ',' or ')'",
    "a in ((b)": "unable to parse requirement: found '(', expected: ',', or identifier",
    "a in (b,,)": "unable to parse requirement: found ')', expected: ',', or identifier",
    "a>x": "unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators",
    "a>": "unable to parse requirement: values[0]: Invalid value: \"\": for 'Gt', 'Lt' operators",
    "a<9223372036854775808": 'unable to parse requirement: values[0]: Invalid value: "9223372036854775808": ',
    "a>-5": f'unable to parse requirement: values[0][a]: Invalid value: "-5": {LABEL}',
    "a=b/c": f'unable to parse requirement: values[0][a]: Invalid value: "b/c": {LABEL}',
    "-a=b": f'unable to parse requirement: <nil>: Invalid value: "-a": {QUALIFIED}',
    "a>\u0663": "unable to parse requirement: [values[0]: Invalid value: \"\u0663\": for 'Gt'",
}


@pytest.mark.parametrize(("text", "chosen"), CHOSEN.items())
def test_a_selector_matches_if_all_of_its_requirements_do(text: str, chosen: bool) -> None:
    assert matches_labels(parse_label_selector(text), LABELS) is chosen


@pytest.mark.parametrize(("text", "words"), REFUSED.items())
def test_text_that_an_api_server_refuses_is_refused_with_its_message(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=r".") as refused:
        parse_label_selector(text)
    assert str(refused.value).startswith(words)


def expression(operator: str, *values: str, key: str = "app") -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("selector", "chosen"),
    [
        ({}, True),
        ({"matchLabels": None, "matchExpressions": None}, True),
        ({"matchLabels": {"app": "web", "tier": "front"}}, True),
        ({"matchLabels": {"app": "web", "tier": "back"}}, False),
        (expression("In", "db", "web"), True),
        (expression("In", "web", key="zone"), False),
        (expression("NotIn", "db", "web"), False),
        (expression("NotIn", "web", key="zone"), True),
        (expression("Exists"), True),
        (expression("DoesNotExist"), False),
        ({"matchLabels": {"app": "web"}, **expression("In", "back", key="tier")}, False),
    ],
)
def test_a_selector_object_matches_like_its_text(selector: dict[str, Any], chosen: bool) -> None:
    found = requirements_of(selector)
    assert matches_labels(found, LABELS) is chosen
    assert matches_labels(parse_label_selector(",".join(map(str, found))), LABELS) is chosen


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: requirements_of(expression("Like", "w")), '"Like" is not a valid label selector operator'),
        (lambda: requirements_of(expression("In")), "values: for 'in', 'notin' operators, values set can't"),
        (lambda: requirements_of(expression("Exists", "a")), "values: values set must be empty for exists"),
        (lambda: requirements_of({"matchLabels": {"a": "b,c"}}), 'values[0][a]: Invalid value: "b,c"'),
        (lambda: requirement("", "exists"), 'key: Invalid value: "": name part must be non-empty'),
    ],
)
def test_a_requirement_that_an_api_server_refuses_cannot_be_created(
    make: Callable[[], object], words: str
) -> None:
    with pytest.raises(ValueError, match=r".") as refused:
        make()
    assert str(refused.value).startswith(words)


NAMES = st.from_regex(r"[a-z0-9]([-a-z0-9_.]{0,5}[a-z0-9])?", fullmatch=True)
REQUIREMENTS = st.one_of(
    st.builds(Requirement, NAMES, st.sampled_from(["exists", "absent"])),
    st.builds(
        Requirement, NAMES, st.sampled_from(["above", "below"]), st.tuples(st.integers(0, 99).map(str))
    ),
    st.builds(
        Requirement,
        NAMES,
        st.sampled_from(["in", "notin"]),
        st.sets(NAMES | st.just(""), min_size=1, max_size=3).map(sorted).map(tuple),
    ),
)


@given(st.lists(REQUIREMENTS, max_size=4), st.dictionaries(NAMES, NAMES, max_size=4))
def test_requirements_round_trip(requirements: list[Requirement], labels: Mapping[str, str]) -> None:
    read = parse_label_selector(",".join(map(str, requirements)))
    assert read == tuple(requirements)
    assert matches_labels(read, labels) is matches_labels(requirements, labels)
