"""How an exchange fails, by whether the server can have seen the request."""

from enum import Enum


class HttpFailure(Exception):
    """An exchange that has no whole answer."""


class Stage(Enum):
    """Where the way to a server ends."""

    LOOK_UP = "look-up"
    PROXY = "proxy"
    REFUSED_BY_PROXY = "refused by the proxy"
    CONNECT = "connect"
    TLS = "TLS"
    TIME = "time"
    CLOSED = "closed"


class NotConnected(HttpFailure):
    """There was no connection, so nothing was sent. `cause` is what the stage raised."""

    def __init__(self, stage: Stage, cause: BaseException | str) -> None:
        super().__init__(str(cause) or type(cause).__name__)
        self.stage = stage
        self.cause = cause


class NotHttp(HttpFailure):
    """What came back is not an answer in HTTP/1.1."""


class CutOff(HttpFailure):
    """The connection ended before the answer was whole; `silent` if not a byte of the answer had come."""

    def __init__(self, problem: str, *, silent: bool = False) -> None:
        super().__init__(problem)
        self.silent = silent


class TooLate(HttpFailure):
    """The answer was not whole in time."""
