"""Selectors as a reader gives them: what they mean, and what a query carries."""

from collections.abc import Callable

import pytest

from informers.apimachinery.label_selectors import Requirement
from reconcile.client.object_selectors import field_text, label_text, parse_labels
from reconcile.kinds import LabelRequirement, LabelSelector

SELECTOR = LabelSelector({"b": "2", "a": "1"}, (LabelRequirement("c", "In", ("y", "x")),))


def test_labels_can_be_a_text_a_mapping_or_the_selector_of_an_object() -> None:
    one, two = Requirement("a", "in", ("1",)), Requirement("b", "in", ("2",))
    assert parse_labels("a=1,b=2") == parse_labels({"a": "1", "b": "2"}) == (one, two)
    assert parse_labels(SELECTOR)[:2] == (one, two)
    assert parse_labels(None) == parse_labels("") == parse_labels(LabelSelector()) == ()


def test_a_selector_is_written_as_a_query_parameter() -> None:
    assert label_text(SELECTOR) == "a=1,b=2,c in (x,y)"
    assert label_text({"b": "2", "a": ""}) == "b=2,a="
    assert label_text("a, b") == "a, b"
    assert label_text("") == label_text(None) == ""
    assert field_text({"status.phase": "a,b", "c": "d"}) == r"status.phase=a\,b,c=d"
    assert field_text("a=b, c=d") == "a=b, c=d"
    assert field_text(None) == ""


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: parse_labels("a,,b"), "'a,,b' is not a label selector: found ','"),
        (lambda: label_text({"a": "b,c"}), 'values[0][a]: Invalid value: "b,c"'),
        (
            lambda: label_text(LabelSelector(match_expressions=(LabelRequirement("a", "In"),))),
            "values: for 'in'",
        ),
        (lambda: field_text("a"), "invalid selector: 'a'; can't understand 'a'"),
    ],
)
def test_a_selector_that_an_api_server_refuses_is_refused_before_a_request(
    make: Callable[[], object], words: str
) -> None:
    with pytest.raises(ValueError, match=r".") as refused:
        make()
    assert str(refused.value).startswith(words)
