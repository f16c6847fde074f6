"""A write leaves what a class does not know as it was, byte for byte, wherever it stands."""

import copy
import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from attrs import frozen
from hypothesis import given
from hypothesis import strategies as st

from reconcile import Object, field, resource
from reconcile.client.diff import merge_diff, merged
from reconcile.client.editing import Draft, finished
from reconcile.models import decode, encode


@frozen
class Leaf:
    count: int = 0
    note: str | None = None


@frozen
class Branch:
    leaf: Leaf = Leaf()
    leaves: tuple[Leaf, ...] = ()
    by_name: Mapping[str, Leaf] = field(factory=dict)


@frozen
class TreeSpec:
    branch: Branch = Branch()
    branches: tuple[Branch, ...] = ()
    rows: tuple[tuple[Leaf, ...], ...] = ()
    rows_by_name: Mapping[str, tuple[Leaf, ...]] = field(factory=dict)
    branches_by_name: Mapping[str, Branch] = field(factory=dict)


@resource("example.com/v1")
class Tree(Object):
    spec: TreeSpec = TreeSpec()


ZEROS: st.SearchStrategy[Any] = st.sampled_from(
    [0, 0.0, -0.0, 1, 1.0, "", False, True, None, [], {}, 2**70, 1e300, "ß\u2028"]
)
UNKNOWN = st.dictionaries(
    st.sampled_from(["zero", "name", "type", "x"]),
    st.recursive(
        ZEROS, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text("ab", max_size=1), inner)
    ),
    max_size=3,
)


def with_unknown(**known: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Objects of some of those fields, between fields that no class has."""
    fields = st.fixed_dictionaries({}, optional=known)
    return st.builds(lambda some, others: {**some, **others}, fields, UNKNOWN)


def lists(of: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(of, max_size=3)


def maps(of: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.dictionaries(st.sampled_from("ab"), of)


LEAF = with_unknown(count=st.integers(0, 2), note=st.none() | st.just(""))
BRANCH = with_unknown(leaf=LEAF, leaves=lists(LEAF), byName=maps(LEAF))
SPEC = with_unknown(
    branch=BRANCH,
    branches=lists(BRANCH),
    rows=lists(lists(LEAF)),
    rowsByName=maps(lists(LEAF)),
    branchesByName=maps(BRANCH),
)


def as_bytes(value: Any) -> str:
    """JSON in which 0, 0.0 and false, null and absence, and the order of members differ."""
    return json.dumps(value)


def leaves_of(draft: Any, raw: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    """Every leaf of a draft that its JSON has, and where it is in there."""
    names = {"by_name": "byName", "rows_by_name": "rowsByName", "branches_by_name": "branchesByName"}
    if isinstance(draft, list):
        for place, one in enumerate(draft):
            yield from leaves_of(one, raw[place], (*path, place))
    elif isinstance(draft, dict):
        for name, one in draft.items():
            yield from leaves_of(one, raw[name], (*path, name))
    elif hasattr(draft, "count") and "count" in raw:
        yield draft, path
    else:
        for name in ("branch", "branches", "rows", "rows_by_name", "branches_by_name", "leaf", "leaves"):
            wire = names.get(name, name)
            if hasattr(draft, name) and wire in raw:
                yield from leaves_of(getattr(draft, name), raw[wire], (*path, wire))
        if hasattr(draft, "by_name") and "byName" in raw:
            yield from leaves_of(draft.by_name, raw["byName"], (*path, "byName"))


@pytest.mark.rule("model-unknown")
@given(SPEC, st.data())
def test_a_change_to_one_field_changes_nothing_else(spec: dict[str, Any], data: st.DataObject) -> None:
    raw = {"metadata": {"name": "t"}, "spec": spec}
    before = decode(Tree, copy.deepcopy(raw))
    draft = Draft(before)
    found = list(leaves_of(draft.spec, spec))
    wanted = copy.deepcopy(raw)
    if found:
        leaf, path = data.draw(st.sampled_from(found))
        leaf.count = 7
        inner: Any = wanted["spec"]
        for step in path:
            inner = inner[step]
        inner["count"] = 7
    patch = merge_diff(encode(before), encode(finished(draft)), raw)
    assert as_bytes(merged(raw, patch)) == as_bytes(wanted)


@pytest.mark.rule("model-unknown")
@given(st.lists(LEAF, min_size=1, max_size=4), st.data())
def test_removing_one_element_keeps_the_rest_of_a_list(
    leaves: list[dict[str, Any]], data: st.DataObject
) -> None:
    raw = {"metadata": {"name": "t"}, "spec": {"branch": {"leaves": leaves}}}
    before = decode(Tree, copy.deepcopy(raw))
    gone = data.draw(st.integers(0, len(leaves) - 1))
    draft = Draft(before)
    del draft.spec.branch.leaves[gone]
    patch = merge_diff(encode(before), encode(finished(draft)), raw)
    after = merged(raw, patch)["spec"]["branch"]["leaves"]
    known = before.spec.branch.leaves
    if known.count(known[gone]) == 1:
        assert as_bytes(after) == as_bytes([*leaves[:gone], *leaves[gone + 1 :]])
    else:  # the class cannot tell which of its equals went
        assert set(map(as_bytes, after)) <= set(map(as_bytes, leaves))
        assert len(after) == len(leaves) - 1
