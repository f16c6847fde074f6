"""Lines come out whole however the chunks are cut."""

from hypothesis import given
from hypothesis import strategies as st

from informers.lines import LineSplitter


@given(st.lists(st.binary(max_size=30).map(lambda b: b.replace(b"\n", b"")), max_size=10), st.data())
def test_lines_do_not_depend_on_where_chunks_end(lines: list[bytes], data: st.DataObject) -> None:
    text = b"".join(line + b"\n" for line in lines)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    splitter, found = LineSplitter(), []
    for start, stop in zip([0, *cuts], [*cuts, len(text)], strict=True):
        found += splitter.feed(text[start:stop])
    assert found == [line for line in lines if line.strip()]
    assert splitter.pending == 0


def test_an_unfinished_line_is_kept_and_counted() -> None:
    splitter = LineSplitter()
    assert list(splitter.feed(b"whole\nhal")) == [b"whole"]
    assert splitter.pending == 3
    assert list(splitter.feed(b"f\n")) == [b"half"]
