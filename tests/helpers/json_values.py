"""Strategies of JSON documents with few names and values, so that two of them have much in common."""

from hypothesis import strategies as st

names = st.sampled_from(["a", "b", "a/b", "~1", ""])
scalars = st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from(["", "x"])
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=4),
    max_leaves=12,
)
documents = st.dictionaries(names, values, max_size=4)
