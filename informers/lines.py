"""Chunks into lines, without waiting and without a limit on their length."""

from collections.abc import Iterator


class LineSplitter:
    """Takes chunks that end anywhere and gives whole lines.

    A line of many chunks is joined once, when its end has come, so that a long one costs no more
    than its length.
    """

    def __init__(self) -> None:
        self._open: list[bytes] = []

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """The lines that this chunk completes, without their line ends; empty ones are left out."""
        *whole, rest = chunk.split(b"\n")
        for line in whole:
            if self._open:
                self._open.append(line)
                line = b"".join(self._open)
                self._open.clear()
            if line.strip():
                yield line
        if rest:
            self._open.append(rest)

    @property
    def pending(self) -> int:
        """How many bytes of an unfinished line are held."""
        return sum(map(len, self._open))
