"""The tree of what an object owns: how far it goes, and what it is compared with."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from informers import Informer, Key, Snapshot
from reconcile import kind_of
from reconcile.client.redaction import NO_SECRETS
from reconcile.controller.write_details import AppliedIntent, Place
from reconcile.kinds import ConfigMap
from reconcile.status.ownership import (
    BYTES_COMPARED,
    BYTES_JUDGED,
    CHILDREN_SHOWN,
    DEEPEST,
    NODES_SHOWN,
    Family,
)
from reconcile.status.shown_values import ShownValues
from reconcile.testing import FakeClient

CONFIG = kind_of(ConfigMap).resource


def state(name: str, *owners: str, version: int = 1, uid: str = "", **data: str) -> Snapshot:
    references = [{"apiVersion": "v1", "kind": "ConfigMap", "name": owner, "uid": owner} for owner in owners]
    metadata = {"name": name, "namespace": "d", "uid": uid or name, "resourceVersion": str(version)}
    metadata["ownerReferences"] = references  # type: ignore[assignment]
    return Snapshot.from_json(msgspec.json.encode({"metadata": metadata, "data": data}))


def family(states: Sequence[Snapshot], intents: Mapping[Place, AppliedIntent] | None = None) -> Family:
    informer = Informer(FakeClient().transport, CONFIG)
    informer.store.replace(states, 10)
    return Family([informer], intents or {}, lambda _: ShownValues(), lambda _: "healthy")


def nodes(tree: Mapping[str, Any]) -> list[str]:
    return [tree["key"], *(key for child in tree["children"] for key in nodes(child))]


def intent(answer: Snapshot, **data: str) -> Mapping[Place, AppliedIntent]:
    body = msgspec.json.encode({"apiVersion": "v1", "kind": "ConfigMap", "data": data})
    return {(CONFIG, answer.key): AppliedIntent(body, answer, NO_SECRETS, 0)}


def desired(answer: Snapshot, live: Snapshot, **data: str) -> tuple[str, list[Mapping[str, str]]]:
    tree = family([state("root"), live], intent(answer, **data)).tree_of(CONFIG, state("root"))
    (child,) = tree["children"]
    return child["desired"], child["fields"]


def test_children_of_children_are_in_the_tree_and_each_object_once() -> None:
    states = [state("root"), state("a", "root"), state("b", "root", "a"), state("c", "b"), state("other")]
    assert nodes(family(states).tree_of(CONFIG, states[0])) == ["d/root", "d/a", "d/b", "d/c"]


def test_objects_that_own_each_other_end_the_tree() -> None:
    states = [state("root", "a"), state("a", "root", "a")]
    assert nodes(family(states).tree_of(CONFIG, states[0])) == ["d/root", "d/a"]


def test_of_many_children_the_first_are_shown_and_the_others_counted() -> None:
    states = [state("root"), *(state(f"c{number:03}", "root") for number in range(CHILDREN_SHOWN + 7))]
    tree = family(states).tree_of(CONFIG, states[0])
    assert (len(tree["children"]), tree["more"]) == (CHILDREN_SHOWN, 7)


def test_a_long_line_of_owners_is_cut() -> None:
    states = [state("c0"), *(state(f"c{number}", f"c{number - 1}") for number in range(1, DEEPEST + 5))]
    tree = family(states).tree_of(CONFIG, states[0])
    assert len(nodes(tree)) == DEEPEST + 1


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=300))
def test_any_net_of_owners_gives_a_tree_of_bounded_size(edges: list[tuple[int, int]]) -> None:
    owners: dict[int, list[str]] = {number: [] for number in range(61)}
    for child, owner in edges:
        owners[child].append(f"c{owner}")
    states = [state(f"c{child}", *names) for child, names in owners.items()]
    keys = nodes(family(states).tree_of(CONFIG, states[0]))
    assert len(keys) == len(set(keys)) <= NODES_SHOWN


def test_a_value_that_the_server_writes_in_another_form_is_no_difference() -> None:
    answer = state("a", "root", version=5, cpu="1", more="x")
    assert desired(answer, state("a", "root", version=6, cpu="1", more="y"), cpu="1000m") == ("same", [])
    assert desired(answer, state("a", "root", version=6, cpu="2"), cpu="1000m") == (
        "differs",
        [{"path": ".data.cpu", "pointer": "/data/cpu", "desired": '"1"', "live": '"2"'}],
    )


def test_what_was_removed_since_it_was_applied_differs() -> None:
    answer = state("a", "root", version=5, size="1")
    assert desired(answer, state("a", "root", version=6), size="1") == (
        "differs",
        [{"path": ".data.size", "pointer": "/data/size", "desired": '"1"', "live": ""}],
    )


def test_nothing_is_said_while_the_cache_does_not_show_the_write_or_of_another_object() -> None:
    answer = state("a", "root", version=5, size="2")
    assert desired(answer, state("a", "root", version=4, size="1"), size="2")[0] == "unknown"
    assert desired(answer, state("a", "root", version=6, uid="new", size="1"), size="2")[0] == "unknown"
    tree = family([state("root"), answer]).tree_of(CONFIG, state("root"))
    assert tree["children"][0]["desired"] == "unknown"
    assert answer.key == Key("d", "a")


def test_of_large_children_only_the_first_are_judged() -> None:
    large = [state(f"c{number}", "root", text="x" * (BYTES_JUDGED // 4)) for number in range(6)]
    children = family([state("root"), *large]).tree_of(CONFIG, state("root"))["children"]
    assert [child["health"] for child in children] == ["healthy"] * 4 + [""] * 2


def test_of_large_children_only_the_first_are_compared_and_one_alone_always() -> None:
    text = "x" * BYTES_COMPARED
    large = [state(f"c{number}", "root", version=2, text=text) for number in range(3)]
    intents = {place: kept for live in large for place, kept in intent(live, text="y").items()}
    children = family([state("root"), *large], intents).tree_of(CONFIG, state("root"))["children"]
    assert [child["desired"] for child in children] == ["same", "unknown", "unknown"]


def test_a_child_that_was_not_applied_takes_no_room_from_those_that_are_compared() -> None:
    large = state("a", "root", text="x" * BYTES_COMPARED)
    small = state("b", "root", version=2, text="y")
    tree = family([state("root"), large, small], intent(small, text="y")).tree_of(CONFIG, state("root"))
    assert [child["desired"] for child in tree["children"]] == ["unknown", "same"]
