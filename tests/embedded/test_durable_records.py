"""Records of the log as bytes: what is written is read, and damage is never taken for the end of a crash."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconcile.embedded.durable import records
from reconcile.embedded.durable.records import FileHead, Form, Record

NAMES = st.text(max_size=20)
VERSIONS = st.integers(0, 2**63)
FORMS = st.builds(Form, NAMES, NAMES, NAMES, NAMES)
RECORDS = st.builds(
    Record,
    VERSIONS,
    VERSIONS,
    NAMES,
    NAMES,
    NAMES,
    NAMES,
    st.none() | FORMS,
    st.none() | st.binary(max_size=600),
)


def written(group: list[Record], synced: int = 0) -> bytes:
    return b"".join(records.encode_record(record, synced) for record in group)


def read(data: bytes) -> list[Record]:
    return [records.decode_record(payload) for _, _, payload in records.whole_frames(data)]


@given(st.lists(RECORDS, max_size=5), VERSIONS)
def test_records_are_read_as_they_were_written(group: list[Record], synced: int) -> None:
    data = written(group, synced)
    assert read(data) == group
    assert {head.synced for _, head, _ in records.whole_frames(data)} <= {synced}


@given(RECORDS, st.data())
def test_a_record_that_is_cut_anywhere_is_torn(record: Record, data: st.DataObject) -> None:
    whole = written([record])
    cut = data.draw(st.integers(1, len(whole) - 1))
    assert read(whole[:cut]) == []
    assert records.judge(whole[:cut], 0) == "torn"


@given(RECORDS, st.data())
def test_a_changed_bit_is_noticed_anywhere(record: Record, data: st.DataObject) -> None:
    whole = bytearray(written([record]))
    bit = data.draw(st.integers(0, 8 * len(whole) - 1))
    whole[bit // 8] ^= 1 << bit % 8
    assert read(bytes(whole)) != [record]


@given(RECORDS, RECORDS, st.data())
def test_damage_before_a_record_that_was_written_later_is_no_torn_end(
    first: Record, second: Record, data: st.DataObject
) -> None:
    one = bytearray(written([first]))
    at = data.draw(st.integers(0, len(one) - 1))
    one[at] ^= 0xFF
    assert records.judge(bytes(one) + written([second], synced=len(one)), 0) == "damaged"


def test_sectors_that_were_never_written_are_torn_also_in_the_middle_of_a_group() -> None:
    group = [Record(n, n - 1, "", "pods", "a", "b", None, bytes([65 + n]) * 900) for n in range(1, 4)]
    data = bytearray(written(group))
    data[512:1024] = bytes(512)
    assert records.judge(bytes(data), 0) == "torn"
    assert records.judge(bytes(4096), 0) == "torn"


def test_a_body_that_differs_from_its_checksum_is_damaged_also_at_the_end() -> None:
    data = bytearray(written([Record(1, 0, "", "pods", "a", "b", None, b"x" * 900)]))
    data[500] ^= 1
    assert records.judge(bytes(data), 0) == "damaged"


def test_a_length_that_is_damaged_does_not_hide_what_follows() -> None:
    group = [Record(n, n - 1, "", "pods", "a", "b", None, b"x" * 90) for n in range(1, 4)]
    data = bytearray(written(group[:1]) + written(group[1:], synced=1))
    data[1] = 0xFF
    assert records.judge(bytes(data), 0) == "damaged"
    assert read(bytes(data)) == group[1:]


@pytest.mark.parametrize(
    ("line", "version"),
    [
        (b"reconcile-runtime log 1\n", 1),
        (b"reconcile-runtime log 27\n", 27),
        (b"reconcile-runtime log 1", None),
        (b"reconcile-runtime log x\n", None),
        (b"\x00" * 30, None),
        (b"", None),
    ],
)
def test_a_file_says_its_format_in_its_first_line(line: bytes, version: int | None) -> None:
    assert records.format_of(line) == version


def test_the_head_of_a_file_is_read_as_it_was_written() -> None:
    head = FileHead("store", 7, 99, base=True)
    data = records.encode_file_head(head)
    line, _, rest = data.partition(b"\n")
    assert records.format_of(line + b"\n") == records.FORMAT
    [(_, _, payload)] = records.whole_frames(rest)
    assert records.decode_file_head(payload) == head
