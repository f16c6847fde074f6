"""Chunks into lines, without waiting."""

from collections.abc import Iterator

from informers.api_errors import MalformedAnswer

LONGEST = 64 << 20
"""Bytes of a line after which it is held to be endless. API servers take objects of a few MB."""


class LineSplitter:
    """Takes chunks that end anywhere and gives whole lines.

    A line of many chunks is joined once, when its end has come, so that a long one costs no more
    than its length.
    """

    def __init__(self, longest: int | None = None) -> None:
        self._longest = LONGEST if longest is None else longest
        self._open: list[bytes] = []
        self._pending = 0

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """The lines that this chunk completes, without their line ends; empty ones are left out.

        Raises MalformedAnswer for a line that does not end.
        """
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
        """How many bytes of an unfinished line are held."""
        return self._pending
