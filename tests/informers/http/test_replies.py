"""What a connection makes of the bytes that it gets, however they are cut."""

import asyncio
import gzip
from typing import Any

import h11
import pytest
from attrs import define, field
from hypothesis import example, given
from hypothesis import strategies as st

from informers.http import Connection, CutOff, HttpFailure, NotHttp, Reply

OK = b"HTTP/1.1 200 OK\r\n"


@define
class Wire:
    """An asyncio transport that only notes what is done to it."""

    sent: bytes = b""
    aborted: bool = False
    reading: list[bool] = field(factory=list)

    def write(self, data: bytes) -> None:
        self.sent += data

    def abort(self) -> None:
        self.aborted = True

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return self.aborted

    def pause_reading(self) -> None:
        self.reading.append(False)

    def resume_reading(self) -> None:
        self.reading.append(True)


def connected() -> tuple[Connection, Any]:
    wire: Any = Wire()
    connection = Connection()
    connection.connection_made(wire)
    return connection, wire


def received(
    pieces: list[bytes], *, without_body: bool = False, ended: bool = False
) -> tuple[Reply, Connection]:
    """The reply after these pieces, each of which arrives by itself, and perhaps the connection's end."""
    connection, _ = connected()
    reply = connection.send(b"GET / HTTP/1.1\r\n\r\n", without_body=without_body)
    for piece in pieces:
        connection.data_received(piece)
    if ended:
        connection.connection_lost(None)
    return reply, connection


async def body_of(reply: Reply) -> bytes:
    await reply.until_begun()
    async with asyncio.timeout(1):
        return await reply.read_whole()


STATUSES = st.sampled_from([200, 201, 204, 304, 400, 401, 404, 409, 410, 429, 500, 503])
NAMES = st.text("abcXYZ-", min_size=1, max_size=8).map(lambda name: f"x-{name}")
VALUES = st.text("abc =,;\"'é\t%", max_size=12).map(str.strip)
BODIES = st.binary(max_size=200)


@st.composite
def answers(draw: st.DrawFn) -> bytes:
    """A whole answer with a length or in chunks, perhaps after information that precedes it."""
    status, body = draw(STATUSES), draw(BODIES)
    lines = [f"HTTP/1.1 {status} {draw(st.sampled_from(['', 'OK', 'Too Many Requests']))}"]
    lines += [f"{name}: {value}" for name, value in draw(st.lists(st.tuples(NAMES, VALUES), max_size=4))]
    before = draw(
        st.sampled_from([b"", b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Hints\r\nLink: a\r\n\r\n"])
    )
    if status in (204, 304):
        return before + "\r\n".join([*lines, "", ""]).encode()
    if draw(st.booleans()):
        return before + "\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""]).encode() + body
    cuts = sorted(draw(st.lists(st.integers(0, len(body)), max_size=4)))
    parts = [body[a:b] for a, b in zip([0, *cuts], [*cuts, len(body)], strict=True) if a < b]
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts)
    head = "\r\n".join([*lines, "Transfer-Encoding: chunked", "", ""]).encode()
    return before + head + chunks + draw(st.sampled_from([b"0\r\n\r\n", b"0\r\nX-Trailer: a\r\n\r\n"]))


def pieces_of(draw: st.DrawFn, data: bytes) -> list[bytes]:
    cuts = sorted(draw(st.lists(st.integers(0, len(data)), max_size=6)))
    return [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True) if a < b]


def by_h11(data: bytes) -> tuple[int, dict[str, str], bytes]:
    """The same answer as another library reads it."""
    other = h11.Connection(h11.CLIENT)
    other.send(h11.Request(method="GET", target="/", headers=[("host", "a")]))
    other.send(h11.EndOfMessage())
    other.receive_data(data)
    status, headers, body = 0, {}, b""
    while not isinstance(event := other.next_event(), h11.EndOfMessage):
        if isinstance(event, h11.Response):
            status = event.status_code
            for name, value in event.headers:
                key, text = name.decode(), value.decode()
                headers[key] = f"{headers[key]}, {text}" if key in headers else text
        elif isinstance(event, h11.Data):
            body += event.data
    return status, headers, body


@given(st.data())
async def test_however_an_answer_is_cut_it_is_what_another_library_reads(data: st.DataObject) -> None:
    answer = data.draw(answers())
    reply, connection = received(data.draw(st.composite(pieces_of)(answer)))
    assert (reply.status, reply.headers, await body_of(reply)) == by_h11(answer)
    assert connection.reusable


@given(st.data())
async def test_an_answer_that_ends_early_is_never_taken_for_a_whole_one(data: st.DataObject) -> None:
    answer = data.draw(answers())
    begins = answer.find(b"\r\n\r\n", answer.rfind(b"HTTP/1.1 ")) + 4
    cut = answer[: data.draw(st.integers(0, len(answer) - 1))]
    if b"Content-Length: 0" in answer and len(cut) >= begins:
        return
    reply, connection = received([cut], ended=True)
    with pytest.raises(CutOff) as caught:
        await body_of(reply)
    assert caught.value.silent is (not cut)
    assert not connection.reusable


@given(st.lists(st.binary(max_size=40) | st.sampled_from([OK, b"\r\n", b"Content-Length: 3\r\n", b"0\r\n"])))
@example([OK, b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd"])
@example([OK, b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"])
async def test_any_bytes_are_an_answer_or_a_failure(pieces: list[bytes]) -> None:
    reply, connection = received(pieces, ended=True)
    try:
        await body_of(reply)
    except HttpFailure:
        assert not connection.reusable


async def test_a_body_without_a_length_ends_with_the_connection() -> None:
    reply, connection = received([b"HTTP/1.0 200 OK\r\n\r\nabc", b"def"], ended=True)
    assert await body_of(reply) == b"abcdef"
    assert not connection.reusable


@pytest.mark.parametrize("head", [b"HTTP/1.0 200 OK\r\n", b"HTTP/1.1 200 OK\r\nConnection: close\r\n"])
async def test_a_connection_that_the_server_closes_is_not_used_again(head: bytes) -> None:
    reply, connection = received([head + b"Content-Length: 2\r\n\r\nab"])
    assert await body_of(reply) == b"ab"
    assert not connection.reusable


async def test_an_answer_to_head_has_no_body_whatever_it_announces() -> None:
    head = OK + b"Content-Length: 700\r\nContent-Encoding: gzip\r\n\r\n"
    reply, connection = received([head], without_body=True)
    assert await body_of(reply) == b""
    assert reply.headers == {"content-length": "700", "content-encoding": "gzip"}
    assert not connection.reusable


@pytest.mark.parametrize("apart", [True, False])
async def test_bytes_that_nobody_asked_for_close_the_connection(apart: bool) -> None:
    whole, other = OK + b"Content-Length: 2\r\n\r\nab", OK + b"X-Other: 1\r\nContent-Length: 1\r\n\r\nc"
    reply, connection = received([whole, other] if apart else [whole + other])
    assert (reply.headers, await body_of(reply)) == ({"content-length": "2"}, b"ab")
    assert not connection.reusable


@pytest.mark.parametrize("begun", [b"H", b"HTTP/1.1 20", OK, b"HTTP/1.1 200\r\nContent-Length: 1\r\n\r\nc"])
async def test_no_part_of_another_answer_is_passed_over(begun: bytes) -> None:
    reply, connection = received([OK + b"Content-Length: 2\r\n\r\nab" + begun])
    assert (reply.status, await body_of(reply)) == (200, b"ab")
    assert not connection.reusable


async def test_another_protocol_is_not_switched_to() -> None:
    reply, _ = received([b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nabc"])
    with pytest.raises(NotHttp, match="switches to another protocol"):
        await reply.until_begun()


async def test_headers_have_a_limit() -> None:
    reply, connection = received([OK] + [b"X-A: %s\r\n" % (b"a" * 1000)] * 70)
    with pytest.raises(NotHttp, match="headers of more than 65536 bytes"):
        await reply.until_begun()
    assert not connection.reusable


@pytest.mark.parametrize("endless", [b"1;" + b"a" * 9000, b"0\r\nX-A: " + b"a" * 9000])
async def test_what_comes_beside_a_body_has_a_limit(endless: bytes) -> None:
    connection, wire = connected()
    reply = connection.send(b"")
    connection.data_received(OK + b"Transfer-Encoding: chunked\r\n\r\n1\r\nb\r\n" + endless)
    assert await reply.read() == b"b"
    for _ in range(60):
        connection.data_received(b"a" * 9000)
    with pytest.raises(NotHttp, match="524288 bytes beside its body"):
        await body_of(reply)
    assert wire.reading == []
    assert wire.aborted


async def test_reading_stops_while_too_much_waits_for_its_reader() -> None:
    connection, wire = connected()
    reply = connection.send(b"")
    connection.data_received(OK + b"Content-Length: 4000000\r\n\r\n")
    for _ in range(4):
        connection.data_received(b"a" * 250_000)
    assert wire.reading == [False]
    assert len(await reply.read()) == 1_000_000
    assert wire.reading == [False, True]
    connection.data_received(b"a" * 3_000_000)
    assert len(await reply.read_whole()) == 3_000_000
    assert connection.reusable


async def test_what_arrived_before_a_cut_can_be_read() -> None:
    reply, _ = received([OK + b"Content-Length: 9\r\n\r\nabc"], ended=True)
    assert await reply.read() == b"abc"
    with pytest.raises(CutOff):
        await reply.read()


# --- compressed bodies ------------------------------------------------------------------------------


def compressed(body: bytes) -> bytes:
    return OK + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(body) + body


@given(st.binary(max_size=3000), st.data())
async def test_a_compressed_body_is_inflated_however_it_is_cut(body: bytes, data: st.DataObject) -> None:
    reply, _ = received(data.draw(st.composite(pieces_of)(compressed(gzip.compress(body)))))
    assert await body_of(reply) == body


async def test_a_small_body_inflates_in_bounded_parts() -> None:
    size = 50_000_000
    reply, _ = received([compressed(gzip.compress(b"a" * size))])
    parts = []
    while part := await reply.read():
        parts.append(len(part))
    assert sum(parts) == size
    assert max(parts) <= 1 << 20


@pytest.mark.parametrize(
    ("body", "failure", "words"),
    [
        (gzip.compress(b"abc", mtime=0)[:-4], CutOff, "ends early"),
        (b"", CutOff, "ends early"),
        (b"no gzip at all", NotHttp, "cannot be read"),
        (gzip.compress(b"abc", mtime=0) + b"more", NotHttp, "followed by other bytes"),
    ],
)
async def test_a_compressed_body_that_is_not_whole_is_a_failure(
    body: bytes, failure: type[HttpFailure], words: str
) -> None:
    reply, _ = received([compressed(body)])
    with pytest.raises(failure, match=words):
        await body_of(reply)


@pytest.mark.parametrize("status", [204, 304])
async def test_a_status_that_has_no_body_has_no_compressed_one(status: int) -> None:
    reply, connection = received([b"HTTP/1.1 %d Some Reason\r\nContent-Encoding: gzip\r\n\r\n" % status])
    assert await body_of(reply) == b""
    assert connection.reusable


async def test_a_header_that_names_no_encoding_changes_nothing() -> None:
    reply, _ = received([OK + b"Content-Encoding:\r\nContent-Length: 1\r\n\r\na"])
    assert await body_of(reply) == b"a"


async def test_an_encoding_that_was_not_asked_for_is_a_failure() -> None:
    reply, _ = received([OK + b"Content-Encoding: br\r\nContent-Length: 1\r\n\r\na"])
    with pytest.raises(NotHttp, match="'br', which was not asked for"):
        await reply.until_begun()
