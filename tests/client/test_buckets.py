"""Buckets of uids, and the selectors that choose them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from informers.apimachinery.label_selectors import matches_labels, parse_label_selector
from informers.apimachinery.shard_selectors import parse_shard_selector
from reconcile.client.buckets import BUCKET_LABEL, Buckets

counts = st.sampled_from([2, 4, 16, 256, 1024, 4096])


@given(counts, st.uuids().map(str), st.data())
def test_a_shard_selector_chooses_exactly_the_objects_of_its_buckets(
    count: int, uid: str, data: st.DataObject
) -> None:
    buckets = Buckets(count)
    chosen = data.draw(st.sets(st.integers(0, count - 1), max_size=20))
    if data.draw(st.booleans()):
        chosen.add(buckets.of(uid))
    ranges = parse_shard_selector(buckets.shard_selector(chosen))
    assert any(one.contains(uid, "") for one in ranges) == (buckets.of(uid) in chosen)


@given(counts, st.uuids().map(str), st.data())
def test_a_label_selector_chooses_exactly_the_children_of_its_buckets(
    count: int, uid: str, data: st.DataObject
) -> None:
    buckets = Buckets(count)
    chosen = data.draw(st.sets(st.integers(0, count - 1), max_size=20))
    requirements = parse_label_selector(buckets.label_selector(chosen))
    labels = {BUCKET_LABEL: buckets.label(buckets.of(uid))}
    assert matches_labels(requirements, labels) == (buckets.of(uid) in chosen)


@given(counts)
def test_all_buckets_are_one_range_up_to_the_end_of_all_hashes(count: int) -> None:
    selector = Buckets(count).shard_selector(range(count))
    assert selector.endswith("'0x0000000000000000', '0x10000000000000000')")


@pytest.mark.parametrize("count", [0, 1, 3, 255, 8192, -2])
def test_a_number_of_buckets_that_is_no_power_of_two_is_refused(count: int) -> None:
    with pytest.raises(ValueError, match="power of two"):
        Buckets(count)
