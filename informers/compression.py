"""How the bodies of a store are compressed; the codecs are imported where one is."""

from typing import Protocol

from attrs import define, field


class Codec(Protocol):
    """Compresses the bodies of one store."""

    def pack(self, body: bytes) -> bytes:
        """Compress; the first body packed is the dictionary of all."""

    def unpack(self, packed: bytes) -> bytes:
        """Decompress what this codec packed."""


@define(eq=False)
class Compression:
    """How the bodies of one store are compressed, and how often they are read.

    With a codec, each body is compressed before it is stored. Without one, bodies are stored as they are and
    may be compressed later; the codec is made then, as its library takes 10 ms to import.
    """

    _codec: Codec | None = None
    on_arrival: bool = field(init=False)
    reads: int = field(default=0, init=False)
    """Bodies read so far. Threads that read at the same moment may count as one."""

    @on_arrival.default
    def _has_codec(self) -> bool:
        return self._codec is not None

    def pack(self, body: bytes) -> bytes:
        """Compress a body."""
        if self._codec is None:
            from informers.codecs import codec

            self._codec = codec()
        return self._codec.pack(body)

    def unpack(self, packed: bytes) -> bytes:
        """Decompress what `pack` returned."""
        assert self._codec is not None
        return self._codec.unpack(packed)
