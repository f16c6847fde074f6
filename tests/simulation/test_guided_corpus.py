"""The corpus of a guided fuzz: how small it is, and what its folder keeps from one fuzz to the next."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconcile import Context
from reconcile.testing import Apply, Broken, Fault, FaultPlan, Kill, Refuse, Wait, When, fuzz
from reconcile.testing.guidance import corpus_folder, covered_lines
from reconcile.testing.guidance.corpus import fewest
from reconcile.testing.guidance.corpus_folder import CorpusFolder
from tests.simulation import toys
from tests.simulation.toys import PLOT, Plot, scenario

FIRST, SECOND = FaultPlan((), [Apply(PLOT)]), FaultPlan((), [Apply(PLOT), Kill()])


async def wrong_after_a_kill(ctx: Context[Plot]) -> None:
    if ctx.object.status.size and ctx.object.spec.crop == "rye":
        ctx.status(observed_generation=99)
    ctx.status(size=1)


@pytest.mark.rule("sim-corpus")
@given(st.lists(st.tuples(st.integers(0, 5), st.frozensets(st.integers(0, 9), max_size=5)), max_size=12))
def test_the_least_corpus_reaches_what_all_plans_do_and_needs_each_of_its_own(
    given_plans: list[tuple[int, frozenset[int]]],
) -> None:
    plans = [
        (FaultPlan((), [Wait(number)] * (1 + length)), reached)
        for number, (length, reached) in enumerate(given_plans)
    ]
    reached_by = {plan.to_json(): reached for plan, reached in plans}
    chosen = [reached_by[plan.to_json()] for plan in fewest(plans)]
    everything = frozenset[int]().union(*reached_by.values())
    assert frozenset[int]().union(*chosen) == everything
    for number in range(len(chosen)):
        others = frozenset[int]().union(*chosen[:number], *chosen[number + 1 :])
        assert others != everything


@pytest.mark.rule("sim-corpus")
def test_a_corpus_is_kept_in_a_folder_and_played_first_by_the_next_fuzz(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(covered_lines, "_TRACED_OF", 1)  # a sample would be another one each time
    folder = tmp_path / "made" / "here"
    first = fuzz(scenario(), seconds=60, most=20, corpus=folder)
    kept = CorpusFolder(folder).plans()
    assert 1 < len(kept) < 20
    again = fuzz(scenario(), seconds=60, most=len(kept), seed=9, corpus=folder)
    assert again.reached == first.reached
    assert not list(folder.glob("*.partial"))


@pytest.mark.rule("sim-corpus")
def test_a_plan_that_broke_the_scenario_is_tried_first_until_it_holds(tmp_path: Path) -> None:
    broken_scenario = scenario(wrong_after_a_kill)
    with pytest.raises(Broken) as broken:
        fuzz(broken_scenario, seconds=60, most=2000, corpus=tmp_path)
    (kept,) = tmp_path.glob("broken-*.json")
    assert FaultPlan.from_json(kept.read_text()) == broken.value.plan
    with pytest.raises(Broken) as again:
        fuzz(broken_scenario, seconds=60, most=1, seed=77, corpus=tmp_path)
    assert again.value.plan == broken.value.plan
    fuzz(scenario(), seconds=60, most=20, corpus=tmp_path)
    assert not list(tmp_path.glob("broken-*.json"))


@pytest.mark.rule("sim-corpus")
def test_plans_that_were_not_tried_and_files_of_others_stay(tmp_path: Path) -> None:
    folder = CorpusFolder(tmp_path)
    folder.write([FIRST, SECOND], tried=())
    (tmp_path / "README.md").write_text("mine")
    again = CorpusFolder(tmp_path)
    assert len(again.plans()) == 2
    again.write([], tried=[FIRST])
    assert CorpusFolder(tmp_path).plans() == (SECOND,)
    assert (tmp_path / "README.md").read_text() == "mine"


@pytest.mark.rule("sim-corpus")
@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[", "not a fault plan"),
        ('{"acts": [{"act": "Wait", "seconds": -1}]}', "not a fault plan"),
        (" " * (corpus_folder.MOST_BYTES + 1), "bytes"),
        (FaultPlan([Fault(When(), Refuse(500))] * 65).to_json(), "65 acts and faults, more than 64"),
    ],
)
def test_a_file_that_is_no_plan_is_named_and_nothing_is_run(tmp_path: Path, content: str, said: str) -> None:
    (tmp_path / "bad.json").write_text(content)
    with pytest.raises(ValueError, match=rf"corpus .*bad\.json: .*{said}.*: delete it"):
        fuzz(scenario(toys.never_done), corpus=tmp_path)


@pytest.mark.rule("sim-corpus")
def test_a_folder_with_too_many_files_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus_folder, "MOST_FILES", 1)
    CorpusFolder(tmp_path).write([FIRST, SECOND], tried=())
    with pytest.raises(ValueError, match="has 2 plans, more than 1: delete some"):
        fuzz(scenario(), corpus=tmp_path)


def test_a_corpus_needs_guidance(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="leave guided=False out"):
        fuzz(scenario(), guided=False, corpus=tmp_path)


def test_several_searches_may_keep_the_same_plans_in_one_folder_at_once(tmp_path: Path) -> None:
    plans = [FaultPlan(seed=seed) for seed in range(100)]
    with ThreadPoolExecutor(8) as workers:
        written = [workers.submit(CorpusFolder(tmp_path).write, plans, tried=()) for _ in range(8)]
    assert [each.exception() for each in written] == [None] * 8
    assert sorted(CorpusFolder(tmp_path).plans(), key=lambda plan: plan.seed) == plans
    assert {file.suffix for file in tmp_path.iterdir()} == {".json"}


def test_a_plan_that_another_search_removes_meanwhile_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    CorpusFolder(tmp_path).write([FIRST, SECOND], tried=())
    real = Path.glob

    def removed_after(folder: Path, pattern: str) -> Iterator[Path]:
        files = sorted(real(folder, pattern))
        files[0].unlink()
        return iter(files)

    monkeypatch.setattr(Path, "glob", removed_after)
    assert len(CorpusFolder(tmp_path).plans()) == 1
