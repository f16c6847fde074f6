"""Where a manager listens, as options say it."""

from typing import Final

from attrs import frozen

LOOPBACK: Final = "127.0.0.1"
LAST_PORT: Final = 65535


class ServeError(Exception):
    """The port is not available, or the certificate is not usable."""


@frozen
class Address:
    """Where to listen. An empty host means every interface, of IPv4 and of IPv6."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def parse_address(text: str) -> Address:
    """`8080` is on loopback, `:8080` everywhere (IPv4, IPv6), `[::1]:0` on a free port. Raises ValueError."""
    host, colon, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > LAST_PORT:
        raise ValueError(f"expected HOST:PORT, or :PORT for all interfaces, got {text!r}")
    host = host.removeprefix("[").removesuffix("]")
    return Address(host if host or colon else LOOPBACK, int(port))
