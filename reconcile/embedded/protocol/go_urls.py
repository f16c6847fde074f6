"""URLs as Go's net/url reads them."""

import json
import re
from typing import Final
from urllib.parse import SplitResult, urlsplit

_BAD_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_IN_HOST: Final = re.compile(r"[ \"<>\\^`{|}]")


class UrlFault(ValueError):
    """Go cannot read a URL; the text is its error."""

    def __init__(self, url: str, why: str) -> None:
        super().__init__(f"parse {json.dumps(url, ensure_ascii=False)}: {why}")


def read_url(url: str) -> SplitResult:
    """The parts of a URL. Raises UrlFault."""
    if any(ord(sign) < 0x20 or ord(sign) == 0x7F for sign in url):
        raise UrlFault(url, "net/url: invalid control character in URL")
    if url.startswith(":"):
        raise UrlFault(url, "missing protocol scheme")
    try:
        parts = urlsplit(url)
    except ValueError:
        raise UrlFault(url, "missing ']' in host") from None
    if not _SCHEME.match(url) and ":" in url.partition("?")[0].partition("/")[0]:
        raise UrlFault(url, "first path segment in URL cannot contain colon")
    host = parts.netloc.rpartition("@")[2]
    if found := _IN_HOST.search(host):
        raise UrlFault(url, f"invalid character {json.dumps(found[0])} in host name")
    try:
        _ = parts.port
    except ValueError:
        port = host.rpartition(":")[2]
        raise UrlFault(url, f'invalid port ":{port}" after host') from None
    for text in (host, parts.path, parts.fragment):
        if found := _BAD_ESCAPE.search(text):
            raise UrlFault(url, f'invalid URL escape "{text[found.start() : found.start() + 3]}"')
    return parts
