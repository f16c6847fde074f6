"""A request as bytes: its first line, its headers and its body."""

from collections.abc import Mapping
from urllib.parse import quote, urlencode

from attrs import field, frozen

# Sub-delimiters, `:` and `@` stand for themselves in a path: system:node:a is a name.
_PATH_SAFE = "/:@!$&'()*+,;=~"
_WITH_BODY = ("POST", "PUT", "PATCH")


@frozen
class RequestForm:
    """What all requests to one server have in common.

    `prefix` stands before each path: that of the server's URL, and the whole URL where a proxy passes plain
    requests on. `headers` are sent with each request that does not name them itself.
    """

    prefix: str
    headers: Mapping[str, str] = field(repr=False)

    def encoded(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        headers: Mapping[str, str],
        body: bytes | None,
    ) -> bytes:
        """The bytes of a request. Raises ValueError if a header would end its line."""
        target = self.prefix + quote(path, safe=_PATH_SAFE)
        if query:
            target = f"{target}?{urlencode(query, quote_via=quote, safe='')}"
        lines = [f"{method} {target} HTTP/1.1"]
        own = {name.lower() for name in headers}
        lines += [f"{name}: {value}" for name, value in self.headers.items() if name.lower() not in own]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if body is not None or method in _WITH_BODY:
            lines.append(f"Content-Length: {len(body or b'')}")
        head = "\r\n".join(lines)
        if head.count("\n") != len(lines) - 1 or head.count("\r") != len(lines) - 1 or "\0" in head:
            raise ValueError("a header of a request has a line break in it")
        return b"".join((head.encode(), b"\r\n\r\n", body or b""))
