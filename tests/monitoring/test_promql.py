"""The evaluator of these tests says what promtool says of random, recorded and documented cases."""

import json
import re
from pathlib import Path
from random import Random

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.monitoring.promql.cases import Case, answers, answers_of_promtool, differences, read
from tests.monitoring.promql.evaluate import Ambiguous
from tests.monitoring.promql.examples import EXAMPLES, Example
from tests.monitoring.promql.groups import rules_of
from tests.monitoring.promql.random_cases import drawn, of_rules
from tests.monitoring.promql.syntax import AGGREGATIONS, FUNCTIONS, NotKnown, parsed
from tests.monitoring.promtool import COMPARED, NOT_COMPARED
from tests.monitoring.record import CASES_OF_RULES, FOLDER, RANDOM_CASES, expressions

NUMBERS = {"examples": len(EXAMPLES), "random": RANDOM_CASES, "rules": CASES_OF_RULES}
needs_promtool = pytest.mark.skipif(not COMPARED, reason=NOT_COMPARED)


def disagreement(case: Case, folder: Path) -> str:
    try:
        ours = answers(case)
    except Ambiguous:
        assume(False)
    return "\n".join(differences(case, ours, answers_of_promtool(folder, case)))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda one: one.says)
def test_what_prometheus_documents_holds(example: Example) -> None:
    assert differences(example.case, answers(example.case), [*example.answers.values()]) == []


@pytest.mark.parametrize("name", NUMBERS)
def test_the_evaluator_says_what_promtool_said_when_it_was_recorded(name: str) -> None:
    lines = (FOLDER / f"{name}.jsonl").read_text().splitlines()
    assert len(lines) == NUMBERS[name]
    for line in lines:
        case, said = read(line)
        assert differences(case, answers(case), said) == []


def test_the_recorded_cases_contain_all_that_the_evaluator_knows() -> None:
    text = (FOLDER / "random.jsonl").read_text()
    for name in (
        *FUNCTIONS,
        *AGGREGATIONS,
        "and on",
        "unless",
        " or ",
        "bool",
        "ignoring",
        "without",
        "stale",
    ):
        assert name in text
    said = [one for line in text.splitlines() for one in json.loads(line)["said"]]
    assert sum(bool(one) for one in said) > 200
    assert sum(one is None for one in said) > 10


@needs_promtool
@pytest.mark.timeout(300)
@settings(max_examples=60)
@given(seed=st.integers(0, 1_000_000), wording=st.randoms(use_true_random=False))
def test_promtool_says_the_same_of_random_cases(
    seed: int, wording: Random, tmp_path_factory: pytest.TempPathFactory
) -> None:
    assert disagreement(drawn(seed, wording, 8), tmp_path_factory.mktemp("case")) == ""


@needs_promtool
@pytest.mark.timeout(300)
@settings(max_examples=5)
@given(seed=st.integers(0, 1_000_000))
def test_promtool_says_the_same_of_each_rule_of_random_series(
    seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    assert disagreement(of_rules(Random(seed), expressions()), tmp_path_factory.mktemp("case")) == ""


@needs_promtool
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda one: one.says)
def test_promtool_does_what_prometheus_documents(example: Example, tmp_path: Path) -> None:
    said = answers_of_promtool(tmp_path, example.case)
    assert differences(example.case, [*example.answers.values()], said) == []


@pytest.mark.parametrize(
    ("expr", "why"),
    [
        ("irate(a[5m])", "the function irate"),
        ("quantile(0.5, a)", "the function quantile"),
        ("topk by (job) (1, a)", "'by' where"),
        ("a offset -5m", "'-' where"),
        ('label_replace(a, "b", "$x", "c", "(.)")', "the replacement"),
        ('label_replace(a, "b", "$2", "c", "(.)")', "the replacement"),
        ('a + "b"', "or a text beside"),
        ("a[5m:1m]", "':1m' where"),
        ("a @ 5", "cannot read '@"),
        ("-a", "'-', which"),
        ("a ^ 2", "cannot read '^"),
        ("a % 2", "cannot read '%"),
        ("a * on (b) group_left () c", "'group_left', which"),
        ('{job="a"}', "'{', which"),
        ("rate(a)", "rate of something else"),
        ("sum(a[5m])", "sum of something else"),
        ("a[5m] > 1", "a range vector or a text beside"),
        ("1 > 2", "without bool"),
        ("a and 1", "a scalar beside"),
        ("a + bool b", "bool that does not"),
        ("sum(a", "'end' where"),
        ("a b", "'b' where"),
        ("a{b=c}", "'c' where"),
        ("a[5x]", "cannot read '5x"),
        (r'a{b="\q"}', r"the escape \q"),
        ("", "'end', which"),
    ],
)
def test_what_the_evaluator_does_not_know_is_refused(expr: str, why: str) -> None:
    with pytest.raises(NotKnown, match=re.escape(why)):
        parsed(expr)


def test_what_the_evaluator_does_not_know_of_rules_is_refused() -> None:
    with pytest.raises(NotKnown, match="keep_firing_for of a rule"):
        rules_of([{"rules": [{"alert": "A", "expr": "a", "keep_firing_for": "5m"}]}])
    with pytest.raises(NotKnown, match="a template in the labels"):
        rules_of([{"rules": [{"alert": "A", "expr": "a", "labels": {"x": "{{ $value }}"}}]}])
    with pytest.raises(NotKnown, match="not a duration"):
        rules_of([{"rules": [{"alert": "A", "expr": "a", "for": "soon"}]}])
    same = {"record": "a", "expr": 'b{c=~"1|2"}', "labels": {"c": ""}}
    case = Case(60, 60, {'b{c="1"}': ["1"], 'b{c="2"}': ["1"]}, [same], [("a", 0)])
    with pytest.raises(Ambiguous, match="after the labels of the rule"):
        answers(case)
