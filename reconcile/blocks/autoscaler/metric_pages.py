"""Values from pages of Prometheus text, and how a page is fetched: within bounds of bytes and time."""

import re
import socket
import ssl
from collections.abc import Iterable
from itertools import islice
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

import anyio
from attrs import define, field, frozen

from reconcile.blocks.autoscaler.allowed_hosts import AllowedHosts
from reconcile.blocks.autoscaler.readings import Missing, milli_of

if TYPE_CHECKING:
    import aiohttp

MOST_BYTES = 2 * 1024 * 1024
MOST_SERIES = 500
"""How many series of one metric are read, of 64 KiB together: parsing takes about a microsecond a byte."""
MOST_PLACES = 20_000
_LOOKED_AT = 50
_LONGEST_LINE = 4096
_MOST_PARSED = 64 * 1024
_HEAD = 16 * 1024


class FetchFailed(Exception):
    """A page could not be fetched. `reason` is one CamelCase word, the text a sentence without numbers."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class _LineTooLong(ValueError):
    pass


class _TooMany(ValueError):
    pass


class Fetch(Protocol):
    """Fetches pages. A new one is entered for each run, and left at its end."""

    async def __aenter__(self) -> Self: ...
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    async def page(self, url: str, most_bytes: int) -> bytes:
        """The page, of at most `most_bytes`. Raises FetchFailed. The caller limits its time."""
        ...


@define
class HttpFetch:
    """Over HTTP or HTTPS: no redirect is followed, no proxy asked, certificates are verified (or by `tls`).

    No connection is made to a loopback, link-local or metadata address that `hosts` does not name.
    """

    tls: ssl.SSLContext | None = None
    hosts: AllowedHosts = field(factory=AllowedHosts)
    _session: "aiohttp.ClientSession | None" = field(default=None, init=False, repr=False)

    async def __aenter__(self) -> Self:
        import aiohttp

        connector = aiohttp.TCPConnector(
            limit=0, family=socket.AF_UNSPEC, ssl=self.tls or True, socket_factory=self._socket
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            # A few bytes of gzip may become a thousand times as many, before they can be counted.
            auto_decompress=False,
            headers={"Accept-Encoding": "identity"},
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            with anyio.CancelScope(shield=True):
                await self._session.close()
            self._session = None

    def _socket(self, found: "aiohttp.AddrInfoType") -> socket.socket:
        """A socket for the address that is connected to next: no name can lead elsewhere after the check."""
        family, kind, protocol, _, address = found
        if not self.hosts.allows_address(str(address[0])):
            raise OSError("this address may not be asked")
        made = socket.socket(family, kind, protocol)
        made.setblocking(False)
        return made

    async def page(self, url: str, most_bytes: int) -> bytes:
        """The page. Raises FetchFailed."""
        import aiohttp

        assert self._session is not None, "enter it first"
        try:
            async with self._session.get(url, allow_redirects=False, timeout=None) as answer:
                if answer.status != 200:
                    raise FetchFailed("BadStatus", f"it answered with status {answer.status}")
                page = bytearray()
                async for chunk in answer.content.iter_any():
                    page += chunk
                    if len(page) > most_bytes:
                        raise FetchFailed("PageTooLarge", "its page is too large")
                return bytes(page)
        except aiohttp.InvalidURL:
            raise FetchFailed("BadAddress", "its address is not valid") from None
        except aiohttp.ClientConnectorError:
            raise FetchFailed("ConnectionRefused", "it does not take connections") from None
        except (aiohttp.ClientError, OSError, ValueError):
            raise FetchFailed("ConnectionLost", "the connection broke") from None


@frozen
class MetricSeries:
    """A metric of a page, by its name and labels that its series must have; values of several add up.

    A name without a `:` also means a metric with a prefix (`vllm:` before `gpu_cache_usage_perc`) if the page
    has none of exactly that name. More than `MOST_SERIES` of one metric are Missing.
    """

    name: str
    labels: tuple[tuple[str, str], ...] = ()

    def value(self, page: bytes) -> int | Missing:
        try:
            page.decode()
            found = list(islice(self._lines(page), MOST_SERIES + 1))
            if len(found) > MOST_SERIES or sum(map(len, found)) > _MOST_PARSED:
                raise _TooMany
        except (UnicodeDecodeError, _LineTooLong):
            return _NOT_TEXT
        except _TooMany:
            return Missing("TooManySeries", f"its page has too many series of the metric {self.name}")
        try:
            values = list(self._values(found))
            if not values and not found:
                list(_samples(page[:_HEAD].decode(errors="ignore").split("\n")[:_LOOKED_AT]))
            if values:
                return sum(milli_of(value) for value in values)
        except (ValueError, IndexError, KeyError):
            return _NOT_TEXT
        return Missing("NoSuchMetric", f"its page has no metric {self.name}")

    def _lines(self, page: bytes) -> Iterable[str]:
        """The metric's lines, perhaps more, at C's speed: the loop is held. Raises _LineTooLong, _TooMany."""
        name = re.escape(self.name.encode())
        begins = re.compile(rb'[ \t]*+(?:\{[ \t]*+")?(?:[a-zA-Z_][a-zA-Z0-9_]*+:)?%b[{ \t"]' % name)
        next_line = 0
        for number, place in enumerate(re.finditer(rb'%b(?=[{ \t"])' % name, page)):
            if number == MOST_PLACES:
                raise _TooMany
            if place.start() < next_line:
                continue
            first = page.rfind(b"\n", max(0, place.start() - _LONGEST_LINE), place.start()) + 1
            last = page.find(b"\n", place.end(), place.end() + _LONGEST_LINE)
            next_line = len(page) if last < 0 else last
            if not begins.match(page, first):
                continue
            if last < 0 and len(page) > place.end() + _LONGEST_LINE:
                raise _LineTooLong
            yield page[first:next_line].decode()

    def _values(self, lines: list[str]) -> Iterable[float]:
        samples = [one for one in _samples(lines) if set(self.labels) <= set(one[1].items())]
        exact = [value for name, _, value in samples if name == self.name]
        if exact or ":" in self.name:
            return exact
        return [value for name, _, value in samples if name.partition(":")[2] == self.name]


def read_series(name: str, page: bytes) -> int | Missing:
    """The value of a metric of a page, in thousandths; see `MetricSeries`."""
    return MetricSeries(name).value(page)


_NOT_TEXT = Missing("NotPrometheusText", "its page is not Prometheus text with finite numbers")


def _samples(lines: Iterable[str]) -> Iterable[tuple[str, dict[str, str], float]]:
    from prometheus_client.parser import text_string_to_metric_families

    for family in text_string_to_metric_families("\n".join(lines) + "\n"):
        for sample in family.samples:
            yield sample.name, sample.labels, sample.value
