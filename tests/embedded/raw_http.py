"""Bytes that nobody should send to an HTTP server, made by chance: wrong as HTTP, as a request, or both."""

import random
from collections.abc import Callable
from urllib.parse import quote

import msgspec
from attrs import frozen
from msgspec.structs import replace

from reconcile.embedded import ApiRequest
from tests.embedded.bad_requests import KINDS, bad_request, whole_object
from tests.embedded.bombs import bomb


@frozen
class Sent:
    """What goes over a connection of its own."""

    data: bytes
    answered: bool = False
    """Whether this is HTTP, and whole, so that there must be an answer and then the end."""
    abandoned: bool = False
    """Whether the sender is gone at once, without reading anything."""


WORDS = (b"", b" ", b"\x00", b"\r", b"\n", b"\xff\xfe", *b"% %zz %00 /../ // ? # ;".split())
HEADERS = (
    b"no colon here",
    b": no name",
    b"Space : before",
    b" folded: header",
    b"X-Null: \x00",
    b"X-High: \xff\xc3\x28",
    b"X-Long: " + b"x" * 9000,
    b"Host:",
    b"Host: a\r\nHost: b",
    b"Authorization: Bearer",
    b"Authorization: Basic !!!!",
    b"Authorization: Bearer a.b.c",
    b"Authorization: Bearer " + b"\xc3\xa9" * 10,
    b"Content-Length: -1",
    b"Content-Length: 0x10",
    b"Content-Length: 1, 2",
    b"Content-Length: " + b"9" * 40,
    b"Content-Length: 99999999",
    b"Transfer-Encoding: chunked, chunked",
    b"Transfer-Encoding: gzip",
    b"Transfer-Encoding: chunked\r\nContent-Length: 5",
    b"Content-Encoding: gzip",
    b"Content-Encoding: nothing",
    b"Expect: 100-continue",
    b"Expect: the-worst",
    b"Upgrade: websocket\r\nConnection: upgrade\r\nSec-WebSocket-Key: x",
    b"Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings",
    b"Impersonate-User: \xc3\xa9",
    b"Impersonate-User: a\r\nImpersonate-Uid: b\r\nImpersonate-Extra-%zz: c",
    b"Impersonate-Group: alone",
    b"Range: bytes=0-1",
    b"If-Match: *",
    b"X-Http-Method-Override: DELETE",
    b"\r\n".join(b"X-%d: a" % number for number in range(300)),
)
FIRST_LINES = (
    b"",
    b"GET",
    b"GET /",
    b"GET  /api/v1/pods  HTTP/1.1",
    b"get /api/v1/pods HTTP/1.1",
    b"GET /api/v1/pods HTTP/9.9",
    b"GET /api/v1/pods HTTP/1.1 more",
    b"GET http://example.com/api/v1/pods HTTP/1.1",
    b"GET http://[::1/api HTTP/1.1",
    b"CONNECT example.com:443 HTTP/1.1",
    b"OPTIONS * HTTP/1.1",
    b"TRACE /api/v1/pods HTTP/1.1",
    b"G\x00T /api HTTP/1.1",
    b"\xff\xff /api HTTP/1.1",
    b"GET /" + b"a" * 20_000 + b" HTTP/1.1",
    b"GET /api/v1/pods?" + b"a=b&" * 5000 + b" HTTP/1.1",
    b"GET /api/v1/namespaces/%2e%2e/pods HTTP/1.1",
    b"GET /api/v1/namespaces/default/pods/%2F HTTP/1.1",
    b"GET /api/v1/namespaces/%C3%28/pods HTTP/1.1",
    b"PRI * HTTP/2.0",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
)
CHUNKED = (
    b"0\r\n\r\n",
    b"zz\r\nabc\r\n0\r\n\r\n",
    b"-1\r\n\r\n",
    b"5\r\nab",
    b"2\r\nabcdef\r\n0\r\n\r\n",
    b"5;extension=1\r\nabcde\r\n0\r\nTrailer: a\r\n\r\n",
    b"ffffffffffffffffff\r\n",
    b"1\r\n{\r\n1\r\n}\r\n0\r\n\r\n",
    b"1\n{\n",
)
CBOR = b"\xd9\xd9\xf7"
PROTOBUF = b"k8s\x00"
BINARY = tuple(f"application/{kind}" for kind in ("cbor", "vnd.kubernetes.protobuf", "cbor-seq", "yaml"))
LIMIT = 3 * 1024 * 1024


def raw_request(chance: random.Random) -> Sent:
    """One thing to send."""
    make = chance.choices([make for make, _ in _MAKERS], [weight for _, weight in _MAKERS])[0]
    return make(chance)


def encoded(request: ApiRequest, *more: bytes) -> bytes:
    """A request as HTTP, that asks for the connection to be closed after it."""
    query = "&".join(f"{quote(name)}={quote(value)}" for name, value in request.query.items())
    target = quote(request.path or "/", safe="/%") + (f"?{query}" if query else "")
    lines = [f"{request.method} {target} HTTP/1.1".encode(), b"Host: localhost", b"Connection: close", *more]
    lines += [f"{name}: {value}".encode() for name, value in request.headers.items()]
    lines.append(b"Content-Length: %d" % len(request.body))
    return b"\r\n".join(lines) + b"\r\n\r\n" + request.body


def _stays_open(request: ApiRequest) -> bool:
    return "watch" in request.query or "/watch/" in request.path


def _bad_for_the_engine(chance: random.Random) -> Sent:
    request = bad_request(chance)
    return Sent(encoded(request), answered=not _stays_open(request) and request.path.startswith("/"))


def _too_much(chance: random.Random) -> Sent:
    """What is well-formed, and asks for more than any server should do; some of it never comes whole."""
    whole = encoded(bomb(chance))
    return Sent(whole if chance.random() < 0.8 else whole[:-1])


def _binary(chance: random.Random) -> Sent:
    """Bodies that are no text, under the types that could hold them."""
    request = bad_request(chance)
    start = chance.choice([CBOR, PROTOBUF, PROTOBUF + b"\x0a\x05", b"", b"---\n", b"&a [*a, *a]"])
    kind = chance.choice(BINARY)
    body = start + chance.randbytes(chance.randrange(60))
    return Sent(encoded(replace(request, method="POST", headers={"content-type": kind}, body=body, query={})))


def _bad_first_line(chance: random.Random) -> Sent:
    return Sent(chance.choice(FIRST_LINES) + b"\r\nHost: a\r\nConnection: close\r\n\r\n")


def _bad_headers(chance: random.Random) -> Sent:
    return Sent(encoded(bad_request(chance), *chance.sample(HEADERS, chance.randint(1, 3))))


def _bad_chunks(chance: random.Random) -> Sent:
    collection = chance.choice(sorted(KINDS))
    head = b"POST %s HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
    return Sent(head % collection.encode() + chance.choice(CHUNKED))


def _half(chance: random.Random) -> Sent:
    whole = encoded(bad_request(chance))
    return Sent(whole[: chance.randrange(1, len(whole))], abandoned=chance.random() < 0.5)


def _hung_up(chance: random.Random) -> Sent:
    return Sent(encoded(bad_request(chance)), abandoned=True)


def _damaged(chance: random.Random) -> Sent:
    data = bytearray(encoded(bad_request(chance)))
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(data))
        match chance.randrange(3):
            case 0:
                data[at] = chance.randrange(256)
            case 1:
                del data[at : at + chance.randint(1, 10)]
            case _:
                data[at:at] = chance.choice(WORDS)
        if not data:
            break
    return Sent(bytes(data) or b"\r\n")


def _two_at_once(chance: random.Random) -> Sent:
    first, second = (encoded(bad_request(chance)) for _ in range(2))
    return Sent(first.replace(b"Connection: close\r\n", b"", 1) + second)


def _too_large(chance: random.Random) -> Sent:
    """Sometimes said to be too large, and sometimes really so, which costs more."""
    collection = chance.choice(sorted(KINDS))
    request = ApiRequest("POST", collection, headers={"content-type": "application/json"})
    if chance.random() < 0.9:
        declared = encoded(request).replace(b"Content-Length: 0", b"Content-Length: %d" % (LIMIT + 1))
        return Sent(declared + b"{}")
    filled = {**whole_object(collection, "a"), "filling": "x" * LIMIT}
    return Sent(encoded(replace(request, body=msgspec.json.encode(filled))), answered=True)


def _noise(chance: random.Random) -> Sent:
    return Sent(chance.randbytes(chance.randint(1, 200)), abandoned=chance.random() < 0.2)


_MAKERS: tuple[tuple[Callable[[random.Random], Sent], int], ...] = (
    (_bad_for_the_engine, 40),
    (_damaged, 14),
    (_bad_headers, 12),
    (_binary, 10),
    (_bad_first_line, 6),
    (_bad_chunks, 6),
    (_half, 5),
    (_hung_up, 3),
    (_two_at_once, 2),
    (_too_large, 1),
    (_noise, 1),
    (_too_much, 5),
)
