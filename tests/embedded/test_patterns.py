"""Patterns: what they find, and that looking for them ends."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconcile.embedded.schema import compile_schema
from reconcile.embedded.schema.patterns import compile_pattern, searcher

DNS = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"


@pytest.mark.rule("api-120")
@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (r"^(a+)+$", "a" * 40 + "b"),
        (r"^([a-z0-9]+([-a-z0-9]*[a-z0-9])?)+$", "a" * 60 + "!"),
        (r"^(a|a?)+$", "a" * 40 + "b"),
        (r"^([a-c]{1,20}){2,30}$", "a" * 60 + "!"),
        (r"a*a*a*a*b", "a" * 20_000),
    ],
)
def test_no_pattern_is_looked_for_without_end(pattern: str, text: str) -> None:
    schema = compile_schema({"type": "object", "properties": {"x": {"type": "string", "pattern": pattern}}})
    before = time.process_time()
    assert [cause.field for cause in schema.validate({"x": text})] == ["x"]
    assert time.process_time() - before < 1


@given(st.sampled_from([DNS, r"^(a+b)*$", r"(é|x)+", r"^\d+(\.\d+)*$"]), st.text("ab1.-éx\n", max_size=12))
def test_both_engines_find_the_same(pattern: str, text: str) -> None:
    assert searcher(pattern)(text) is (compile_pattern(pattern).search(text) is not None)
