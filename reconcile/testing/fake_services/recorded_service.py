"""Real answers of a service, kept in a file, and what a fake answers to the same requests."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import anyio
import msgspec
from attrs import define, field, frozen

from reconcile.client.redaction import texts_in
from reconcile.testing.fake_services.service import FakeService
from reconcile.testing.virtual_time import simulate
from reconcile.testing.whole_files import write_whole

FORMAT: Final = "reconcile-runtime/service-answers"
VERSION: Final = 1
MOST_BYTES: Final = 64 << 20
MOST_EXCHANGES: Final = 10_000
DEEPEST: Final = 50
PROSE: Final = ("message", "detail", "description", "title")
"""Fields for people, whose words need not be the same."""
_DAY: Final = 86_400.0
_MOST_DIFFERENCES: Final = 20
_TIME = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?)?")
_MADE_UP = re.compile(r"\d|^<secret \d+>$")
_COMPARED_HEADERS: Final = ("location", "retry-after", "etag")
_MISSING: Final = "<nothing>"


class RecordedExchange(msgspec.Struct, frozen=True, omit_defaults=True):
    """A request and its answer, `after` so many seconds since the one before. Bodies are JSON."""

    method: str
    path: str
    status: int
    after: float = 0.0
    query: dict[str, str] = {}
    headers: dict[str, str] = {}
    body: Any = None
    answer_headers: dict[str, str] = {}
    answer: Any = None

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


class _Head(msgspec.Struct, frozen=True):
    format: str
    version: int


@frozen
class RecordedService:
    """What a real service answered, in order. Compared with a fake, it says where the fake is not like it."""

    exchanges: Sequence[RecordedExchange]

    @classmethod
    def read(cls, path: str | Path) -> "RecordedService":
        """Read what `record_service` wrote. Raises ValueError for anything else, with the line."""
        file = Path(path)
        if file.stat().st_size > MOST_BYTES:
            raise ValueError(f"{file} has more than {MOST_BYTES >> 20} MiB")
        lines = file.read_bytes().splitlines()
        if len(lines) > MOST_EXCHANGES + 1:
            raise ValueError(f"{file} has more than {MOST_EXCHANGES} answers")
        head = _decoded(_Head, lines[0] if lines else b"", file, 1)
        if head.format != FORMAT or head.version != VERSION:
            raise ValueError(f"{file} is {head.format} {head.version}, expected {FORMAT} {VERSION}")
        numbered = enumerate(lines[1:], 2)
        exchanges = tuple(_decoded(RecordedExchange, line, file, number) for number, line in numbered)
        for number, exchange in enumerate(exchanges, 2):
            if is_deep([exchange.body, exchange.answer]):
                raise ValueError(f"{file}, line {number}: nested deeper than {DEEPEST}")
        return cls(exchanges)

    def write(self, path: str | Path) -> None:
        """Write the file, readable by its owner alone, in place of another at once."""
        lines = [msgspec.json.encode(_Head(FORMAT, VERSION)), *map(msgspec.json.encode, self.exchanges)]
        write_whole(Path(path), b"\n".join([*lines, b""]))

    def check(
        self, service: FakeService, *, ignored: Sequence[str] = (), prose: Sequence[str] = PROSE
    ) -> None:
        """Send the same requests to a fake, in virtual time. Raises AssertionError that says what differs.

        Status, fields and values have to be the same. Ids, tokens and other values that the real service made
        up (they have a digit, or were masked) may be others, each time the same. Times and `prose` fields
        are only compared by type, and `ignored` fields not at all.
        """
        differing = simulate(self.differences, service, ignored, prose, limit_seconds=self._seconds())
        if differing:
            more = len(differing) - _MOST_DIFFERENCES
            head = f"{service.name} is not like the recorded service:"
            tail = [f"… and {more} more"] if more > 0 else []
            raise AssertionError("\n".join([head, *differing[:_MOST_DIFFERENCES], *tail]))

    async def differences(
        self, service: FakeService, ignored: Sequence[str] = (), prose: Sequence[str] = PROSE
    ) -> list[str]:
        """What differs, a line each, as `check` compares it."""
        found: list[str] = []
        names = _Names(frozenset(ignored), frozenset(prose))
        for number, exchange in enumerate(self.exchanges, 1):
            await anyio.sleep(max(0.0, exchange.after))
            names.learn_request(exchange)
            query = urlencode({name: names.translated(value) for name, value in exchange.query.items()})
            target = names.translated_path(exchange.path) + (f"?{query}" if query else "")
            answer = await service.call(
                exchange.method,
                target,
                names.translated(exchange.body),
                headers={name: names.translated(value) for name, value in exchange.headers.items()},
            )
            lines = [*_status_and_headers(exchange, answer.status, answer.headers)]
            lines += names.compared(exchange.answer, answer.body, "body")
            found += [f"{number}. {exchange}: {line}" for line in lines]
        return found

    def _seconds(self) -> float:
        return _DAY + sum(max(0.0, one.after) for one in self.exchanges)


def _status_and_headers(exchange: RecordedExchange, status: int, headers: Mapping[str, str]) -> Iterator[str]:
    if exchange.status != status:
        yield f"status {exchange.status}, the fake answers {status}"
    for name in _COMPARED_HEADERS:
        real, fake = name in exchange.answer_headers, name in headers
        if real != fake:
            yield f"{'has' if real else 'has no'} header {name}, the fake {'has' if fake else 'has none'}"


@define
class _Names:
    """Which value of the fake stands for which that the real service made up."""

    ignored: frozenset[str]
    prose: frozenset[str]
    _known: dict[str, str] = field(factory=dict)
    _sent: set[str] = field(factory=set)

    def learn_request(self, exchange: RecordedExchange) -> None:
        """Remember what the client chose: the fake has to answer with the same values."""
        for text in texts_in([exchange.body, exchange.query, exchange.path.split("/")], names=True):
            if text not in self._known:
                self._sent.add(text)

    def translated(self, value: Any) -> Any:
        """A value of a request, with the fake's values in place of the real service's."""
        if isinstance(value, str):
            return self._known.get(value, value)
        if isinstance(value, list):
            return [self.translated(item) for item in value]
        if isinstance(value, dict):
            return {name: self.translated(item) for name, item in value.items()}
        return value

    def translated_path(self, path: str) -> str:
        return "/".join(self._known.get(part, part) for part in path.split("/"))

    def compared(self, real: Any, fake: Any, path: str) -> Iterator[str]:
        if isinstance(real, dict) and isinstance(fake, dict):
            for name in sorted(real.keys() | fake.keys()):
                if name not in self.ignored:
                    pair = real.get(name, _MISSING), fake.get(name, _MISSING)
                    if name not in self.prose or not _are_texts(pair):
                        yield from self.compared(*pair, f"{path}.{name}")
        elif isinstance(real, list) and isinstance(fake, list):
            if len(real) != len(fake):
                yield f"{path} has {len(real)} elements, that of the fake {len(fake)}"
            for number, (one, other) in enumerate(zip(real, fake, strict=False)):
                yield from self.compared(one, other, f"{path}[{number}]")
        elif not self._same(real, fake):
            yield f"{path} is {_shown(real)}, that of the fake {_shown(fake)}"

    def _same(self, real: Any, fake: Any) -> bool:
        if not isinstance(real, str) or not isinstance(fake, str):
            return type(real) is type(fake) and bool(real == fake)
        if _TIME.fullmatch(real) and _TIME.fullmatch(fake):
            return True
        if real in self._known:
            return self._known[real] == fake
        if real == fake:
            return True
        if real in self._sent or not _MADE_UP.search(real) or _MISSING in (real, fake):
            return False
        if fake in self._known.values():
            return False  # one value of the fake cannot stand for two
        self._known[real] = fake
        return True


def _are_texts(pair: tuple[Any, Any]) -> bool:
    return _MISSING not in pair and all(isinstance(one, str) for one in pair)


def is_deep(value: Any) -> bool:
    """Whether a JSON value is nested deeper than any service nests it."""
    level, depth = [value], 0
    while level and depth <= DEEPEST:
        lists = [
            one.values() if isinstance(one, dict) else one for one in level if isinstance(one, dict | list)
        ]
        level, depth = [item for items in lists for item in items], depth + 1
    return bool(level)


def _shown(value: Any) -> str:
    return value if value == _MISSING else msgspec.json.encode(value).decode()


def _decoded(kind: Any, line: bytes, file: Path, number: int) -> Any:
    try:
        return msgspec.json.decode(line, type=kind)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(f"{file}, line {number}: {error}") from None
