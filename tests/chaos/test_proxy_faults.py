import random

import pytest

from tests.chaos.proxy_faults import ANY_WRITE, WATCH_FAULTS, ProxiedRequest, choose, choose_for_watch


def chosen(request: ProxiedRequest) -> set[str]:
    chance = random.Random(1)
    faults = (choose(chance, request) for _ in range(20_000))
    return {fault.name for fault in faults if fault is not None}


def test_every_fault_is_chosen_for_some_write() -> None:
    assert chosen(ProxiedRequest("PATCH")) == {fault.name for fault in ANY_WRITE}


@pytest.mark.parametrize("request_", [ProxiedRequest("GET"), ProxiedRequest("POST", generates_name=True)])
def test_reads_and_creates_with_generated_names_are_not_executed_late(request_: ProxiedRequest) -> None:
    late = {fault.name for fault in ANY_WRITE if fault.execution == "after the client gave up"}
    assert not chosen(request_) & late


def test_a_starting_watch_is_never_executed_without_its_answer() -> None:
    assert {"410", "refused", "garbage"} <= chosen(ProxiedRequest("GET", watch=True)) - {
        "500 after",
        "cut after",
    }


def test_every_fault_is_chosen_for_some_watch() -> None:
    chance = random.Random(1)
    found = [choose_for_watch(chance) for _ in range(1000)]
    assert {what for what, _ in filter(None, found)} == set(WATCH_FAULTS)


def test_a_seed_always_chooses_the_same_faults() -> None:
    chances = random.Random("7 one"), random.Random("7 one")
    runs = [[choose(chance, ProxiedRequest("PATCH")) for _ in range(100)] for chance in chances]
    assert runs[0] == runs[1]
