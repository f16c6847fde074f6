"""Bodies that are written as edits of earlier ones are read back byte for byte."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconcile.recording import body_edits
from reconcile.recording.body_edits import BodyColumns, BodyReader, BodyWriter, MisplacedEdit

NAMES = st.sampled_from(["a", "b", None])
NUMBERS = st.one_of(st.integers(0, 10**20).map(str), st.sampled_from(["007", "-1", "1e3", str(10**18)]))
PIECES = st.one_of(
    st.builds('"resourceVersion":"{}"'.format, NUMBERS),
    st.builds('"replicas":{}}}'.format, NUMBERS),
    st.text('a:1"{', max_size=4),
)
"""What is between two commas."""
BODIES = st.builds(
    lambda pieces, end: (",".join(pieces) + end).encode(),
    st.lists(PIECES, max_size=12),
    st.sampled_from(["", "\n", "\n\n"]),
)


def read(writer: BodyWriter, reader: BodyReader, count: int) -> list[bytes | None]:
    columns, writer.columns = writer.columns, BodyColumns()
    reader.take(columns)
    return [reader.read() for _ in range(count)]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.lists(st.tuples(NAMES, st.none() | BODIES), max_size=8), max_size=3))
def test_all_bodies_are_read_back_as_they_were_written(
    frames: list[list[tuple[str | None, bytes | None]]],
) -> None:
    writer, reader = BodyWriter(), BodyReader()
    for frame in frames:
        for name, body in frame:
            writer.write(body, name)
        assert read(writer, reader, len(frame)) == [body for _, body in frame]


@settings(max_examples=40, deadline=None)
@given(st.lists(PIECES, min_size=4, max_size=30), st.data())
def test_a_body_with_pieces_put_in_cut_out_and_replaced_is_read_back(
    pieces: list[str], data: st.DataObject
) -> None:
    writer, reader, bodies = BodyWriter(), BodyReader(), list[bytes]()
    for _ in range(4):
        at = data.draw(st.integers(0, len(pieces)))
        pieces = (
            pieces[:at]
            + data.draw(st.lists(PIECES, max_size=3))
            + pieces[at + data.draw(st.integers(0, 2)) :]
        )
        bodies.append(",".join(pieces).encode())
        writer.write(bodies[-1], "one")
    assert read(writer, reader, len(bodies)) == bodies


def body(version: int, replicas: int = 1, more: str = "") -> bytes:
    filler = ",".join(f'"field-{number}":"{number * 7919}"' for number in range(40))
    metadata = f'"metadata":{{"name":"x","resourceVersion":"{version}"}}'
    return f'{{{metadata},"replicas":{replicas},{more}{filler}}}'.encode()


def test_another_version_of_an_object_is_one_number_and_its_shape_another() -> None:
    writer = BodyWriter()
    for version in (100, 101, 103):
        writer.write(body(version, replicas=version - 99), "x")
    columns = writer.columns
    assert columns.slots == [0, 0, 0]
    assert columns.values == [body(100), 101, 1, 2, 2]
    assert columns.shapes[1:] == [(0, 1, 1, 0, 1), 0]


def test_a_field_that_is_put_in_does_not_write_what_follows_again() -> None:
    writer = BodyWriter()
    writer.write(body(100), "x")
    writer.write(body(101, more='"paused":true,'), "x")
    assert sum(len(value) for value in writer.columns.values[1:] if isinstance(value, bytes)) < 60


def test_no_more_bodies_are_kept_than_their_bound_and_both_sides_forget_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(body_edits, "MOST_KEPT", 10_000)
    writer, reader = BodyWriter(), BodyReader()
    names = [f"object-{number * 7 % 13}" for number in range(200)]
    bodies = [body(number, more=f'"name":"{name}",') for number, name in enumerate(names)]
    for name, one in zip(names, bodies, strict=True):
        writer.write(one, name)
    shapes = writer.columns.shapes
    assert read(writer, reader, len(bodies)) == bodies
    assert shapes.count(None) > 13  # some were forgotten, and written whole again
    assert sum(map(len, reader._kept.bodies.values())) < 10_000


def test_a_file_of_empty_bodies_cannot_fill_the_memory() -> None:
    reader = BodyReader()
    many = 100_000
    reader.take(BodyColumns([*range(many)], [None] * many, [b""] * many))
    for _ in range(many):
        reader.read()
    assert len(reader._kept.bodies) < 90_000


def test_shapes_that_are_long_get_no_number() -> None:
    reader = BodyReader()
    long = (0, *[0] * 100)
    reader.take(BodyColumns([0] * 9, [None, *[long] * 8], [b",".join([b"x"] * 99), *[b"y"] * 400]))
    for _ in range(9):
        reader.read()
    assert not reader._shapes


SMALL = st.integers(-3, 5)
COLUMNS = st.builds(
    BodyColumns,
    st.lists(SMALL, max_size=8),
    st.lists(st.none() | SMALL | st.lists(SMALL, max_size=7).map(tuple), max_size=8),
    st.lists(st.none() | st.integers(-(2**63), 2**63) | PIECES.map(str.encode), max_size=12),
)


@settings(max_examples=40, deadline=None)
@given(st.lists(COLUMNS, max_size=3))
def test_made_up_edits_are_read_or_refused_with_a_clear_error(frames: list[BodyColumns]) -> None:
    reader = BodyReader()
    for frame in frames:
        reader.take(frame)
        for _ in range(8):
            try:
                found = reader.read()
            except MisplacedEdit:
                continue
            assert found is None or isinstance(found, bytes)


def test_a_body_of_commas_that_differ_throughout_is_written_whole() -> None:
    writer = BodyWriter()
    writer.write(b"a," * 400_000, "x")
    writer.write(b"b," * 400_000, "x")
    assert writer.columns.shapes == [None, None]
