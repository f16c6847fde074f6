"""Field selectors: grammar, escapes, and the text that is compared."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from informers.apimachinery.field_selectors import (
    FieldTerm,
    field_selector_text,
    parse_field_selector,
    text_at,
)


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("", ()),
        ("a=b", (FieldTerm("a", "b"),)),
        ("a==b,,c!=d,", (FieldTerm("a", "b"), FieldTerm("c", "d", equal=False))),
        (r"a=b\,c\=d\\", (FieldTerm("a", r"b,c=d" + "\\"),)),
        (" a=b", (FieldTerm(" a", "b"),)),
    ],
)
def test_a_field_selector_is_read_term_by_term(text: str, terms: tuple[FieldTerm, ...]) -> None:
    assert parse_field_selector(text) == terms


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a", "invalid selector: 'a'; can't understand 'a'"),
        ("a in (b)", "invalid selector: 'a in (b)'; can't understand 'a in (b)'"),
        ("a=b=c", "invalid field selector: invalid or missing escape in value: b=c"),
        ("a=b\\", "invalid field selector: invalid or missing escape in value: b\\"),
    ],
)
def test_text_that_is_not_a_field_selector_is_refused(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=r".") as refused:
        parse_field_selector(text)
    assert str(refused.value) == words


@given(st.dictionaries(st.from_regex(r"[a-z]{1,5}(\.[a-z]{1,5})?", fullmatch=True), st.text(max_size=5)))
def test_values_of_any_text_round_trip(terms: dict[str, str]) -> None:
    assert parse_field_selector(field_selector_text(terms)) == tuple(
        FieldTerm(path, value) for path, value in terms.items()
    )


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("spec.nodeName", "a"),
        (".spec.nodeName", "a"),
        ("spec.hostNetwork", "true"),
        ("spec.tty", "false"),
        ("spec.port", "80"),
        ("spec.nothing.at.all", ""),
        ("spec.nodeName.x", ""),
        ("spec.null", ""),
    ],
)
def test_scalars_are_compared_as_text(path: str, text: str) -> None:
    spec = {"nodeName": "a", "hostNetwork": True, "tty": False, "port": 80, "null": None}
    assert text_at({"spec": spec}, path) == text


@pytest.mark.parametrize(
    ("version", "path", "text"),
    [
        ("v1", "spec.unschedulable", "false"),
        ("v1", "spec.hostNetwork", "false"),
        ("v1", "spec.nodeName", ""),
        ("example.com/v1", "spec.hostNetwork", ""),
    ],
)
def test_some_booleans_of_kubernetes_are_false_where_they_are_left_out(
    version: str, path: str, text: str
) -> None:
    assert text_at({"apiVersion": version, "spec": {}}, path) == text
