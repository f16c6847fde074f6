"""Label selectors as a cache reads them."""

from collections.abc import Mapping

import pytest

from reconcile.client.selectors import Requirement, matches, parse_labels, selector_text
from reconcile.kinds import LabelRequirement, LabelSelector

RANKS: Mapping[str, Mapping[str, str]] = {
    "none": {},
    "-3": {"rank": "-3"},
    "5": {"rank": "5"},
    "6": {"rank": "6"},
    "word": {"rank": "x5"},
    "half": {"rank": "5-"},
}


@pytest.mark.parametrize(
    ("text", "requirement", "found"),
    [
        ("rank>5", Requirement("rank", "above", ("5",)), ["6"]),
        ("rank > -4", Requirement("rank", "above", ("-4",)), ["-3", "5", "6"]),
        ("rank<6", Requirement("rank", "below", ("6",)), ["-3", "5"]),
        ("rank <-2", Requirement("rank", "below", ("-2",)), ["-3"]),
        ("rank=5", Requirement("rank", "in", ("5",)), ["5"]),
        ("rank == 5", Requirement("rank", "in", ("5",)), ["5"]),
        ("rank!=5", Requirement("rank", "notin", ("5",)), ["none", "-3", "6", "word", "half"]),
        ("rank=", Requirement("rank", "in", ("",)), []),
        ("rank in (5,6)", Requirement("rank", "in", ("5", "6")), ["5", "6"]),
        ("rank  notin ( 5 , 6 )", Requirement("rank", "notin", ("5", "6")), ["none", "-3", "word", "half"]),
        (" rank ", Requirement("rank", "exists"), ["-3", "5", "6", "word", "half"]),
        ("! rank", Requirement("rank", "absent"), ["none"]),
    ],
)
def test_a_requirement_holds_for_the_labels_that_it_means(
    text: str, requirement: Requirement, found: list[str]
) -> None:
    assert parse_labels(text) == (requirement,)
    assert [name for name, labels in RANKS.items() if matches([requirement], labels)] == found


def test_all_requirements_of_a_text_have_to_hold() -> None:
    parsed = parse_labels("rank, rank in (5,6),,rank!=6")
    assert [one.operator for one in parsed] == ["exists", "in", "notin"]
    assert [name for name, labels in RANKS.items() if matches(parsed, labels)] == ["5"]
    assert matches(parse_labels(None), {})
    assert matches(parse_labels(""), {})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("rank>x", "'rank>x' in a label selector: 'x' is no integer"),
        ("rank<--5", "'rank<--5' in a label selector: '--5' is no integer"),
        ("rank>\u00b2", "'rank>\u00b2' in a label selector: '\u00b2' is no integer"),
        ("rank<", "'rank<' in a label selector: '' is no integer"),
        ("a b", "'a b' is no requirement of a label selector: a=b, a!=b, a in (b,c), a, !a"),
    ],
)
def test_what_is_no_selector_is_refused_with_its_words(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=r".") as refused:
        parse_labels(text)
    assert str(refused.value) == said


def test_a_selector_is_written_as_a_query_carries_it() -> None:
    selector = LabelSelector({"b": "2", "a": "1"}, (LabelRequirement("c", "In", ("x",)),))
    assert selector_text(selector) == "a=1,b=2,c in (x)"
    assert parse_labels(selector) == parse_labels("a=1,b=2,c in (x)")
    assert selector_text({"b": "2", "a": ""}) == "b=2,a="
    assert selector_text("a, b") == "a, b"
    assert selector_text("") == selector_text(None) == ""
