"""Patterns: what they find, and that looking for them ends."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconcile.embedded.schema import ResourceSchema, check_structural, compile_schema
from reconcile.embedded.schema.patterns import PatternError, compile_pattern, searcher
from tests.helpers.processor_time import bounded

DNS = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"


def with_pattern(pattern: str) -> ResourceSchema:
    return compile_schema({"type": "object", "properties": {"x": {"type": "string", "pattern": pattern}}})


@pytest.mark.rule("api-120")
@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (r"^(a+)+$", "a" * 40 + "b"),
        (r"^([a-z0-9]+([-a-z0-9]*[a-z0-9])?)+$", "a" * 60 + "!"),
        (r"^(a|a?)+$", "a" * 40 + "b"),
        (r"^([a-c]{1,20}){2,30}$", "a" * 60 + "!"),
        (r"a*a*a*a*b", "a" * 20_000),
        (r"^(?:a|aa)(?:a|aa)*$", "a" * 45 + "b"),
        (r"^a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a{24}b$", "a" * 24),
        (r"\s+$", " " * 200_000 + "x"),
        (r"^.*.*.*.*=$", "x" * 2_000),
        (r"(a|b)*a(a|b){500}c", "ab" * 500_000),
        (r"^.{900}x$", "é" * 1_000_000),
    ],
)
def test_every_pattern_search_ends(pattern: str, text: str) -> None:
    schema = with_pattern(pattern)
    with bounded(1):
        assert schema.validate({"x": text})


@pytest.mark.rule("api-120")
@pytest.mark.parametrize("pattern", [r"(?=a)", r"a(?!b)", r"(a)\1", r"a{1001}", r"a\Z", "(", r"\pL{900}"])
def test_a_pattern_that_re2_refuses_is_refused_in_the_definition(pattern: str) -> None:
    openapi = {"type": "object", "properties": {"x": {"type": "string", "pattern": pattern}}}
    (cause,) = check_structural(openapi, "schema")
    assert "must be a valid regular expression" in cause.message
    with pytest.raises(PatternError):
        compile_pattern(pattern)


@given(st.sampled_from([DNS, r"^(a+b)*$", r"(é|x)+", r"^\d+(\.\d+)*$"]), st.text("ab1.-éx\n", max_size=12))
def test_a_cached_result_equals_that_of_the_search(pattern: str, text: str) -> None:
    compiled = compile_pattern(pattern)
    assert compiled is not None
    assert searcher(compiled)(text) is (compiled.search(text) is not None)


@pytest.mark.rule("api-120")
def test_without_the_library_patterns_are_reported_as_not_evaluated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "re2", None)
    compile_pattern.cache_clear()
    schema = with_pattern("^only-here$")
    assert schema.unevaluated_rules == ("x: pattern (the extra `embedded` is not installed)",)
    assert schema.validate({"x": "a"}) == []
    compile_pattern.cache_clear()
