"""Lines come out whole however the chunks are cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from informers import MalformedAnswer
from informers.line_splitter import LineSplitter


@given(st.lists(st.binary(max_size=30).map(lambda b: b.replace(b"\n", b"")), max_size=10), st.data())
def test_lines_do_not_depend_on_chunk_boundaries(lines: list[bytes], data: st.DataObject) -> None:
    text = b"".join(line + b"\n" for line in lines)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    splitter = LineSplitter()
    found: list[bytes] = []
    for start, stop in zip([0, *cuts], [*cuts, len(text)], strict=True):
        found += splitter.feed(text[start:stop])
    assert found == [line for line in lines if line.strip()]
    assert splitter.pending == 0


def test_an_unfinished_line_is_kept_and_counted() -> None:
    splitter = LineSplitter()
    assert list(splitter.feed(b"whole\nhal")) == [b"whole"]
    assert splitter.pending == 3
    assert list(splitter.feed(b"f\n")) == [b"half"]


def test_a_line_that_arrives_in_pieces_may_be_as_long_as_allowed_and_no_longer() -> None:
    splitter = LineSplitter(longest=10)
    for _ in range(3):
        assert list(splitter.feed(b"12345")) == []
        assert list(splitter.feed(b"67890")) == []
        assert list(splitter.feed(b"\n")) == [b"1234567890"]
    assert list(splitter.feed(b"123456")) == []
    with pytest.raises(MalformedAnswer, match=r"^a line of more than 10 bytes$"):
        list(splitter.feed(b"78901"))
