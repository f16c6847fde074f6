"""Splits chunks into lines, without waiting."""

from collections.abc import Iterator

from informers.api_errors import MalformedAnswer

LONGEST = 64 << 20
"""Bytes after which a line counts as endless. API servers accept objects of a few MB."""


class LineSplitter:
    """Turns chunks into whole lines; joins each once, so that a long one costs no more than its length."""

    def __init__(self, longest: int | None = None) -> None:
        self._longest = LONGEST if longest is None else longest
        self._open: list[bytes] = []
        self._pending = 0

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """The non-empty lines that this chunk completes. Raises MalformedAnswer for one that does not end."""
        *whole, rest = chunk.split(b"\n")
        for line in whole:
            if self._open:
                self._open.append(line)
                line = b"".join(self._open)
                self._open.clear()
                self._pending = 0
            if line.strip():
                yield line
        if rest:
            self._open.append(rest)
            self._pending += len(rest)
            if self._pending > self._longest:
                raise MalformedAnswer(f"a line of more than {self._longest} bytes")

    @property
    def pending(self) -> int:
        """The number of bytes of an unfinished line."""
        return self._pending
