"""What a service outside the cluster promises about its resources, and what it does not, as values."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Generic, TypeAlias, TypeVar

from attrs import field, frozen, validators

from informers.transport import Response
from reconcile.models import Object

T = TypeVar("T")

Span: TypeAlias = tuple[float, float]
"""Seconds, at least and at most; each time is drawn from the seed."""

Owner: TypeAlias = tuple[type[Object], str]
"""A kind, and the name (`namespace/name`, `name` alone) or the uid of one of its objects."""

NO_TIME: Span = (0.0, 0.0)
_PATH_PART = validators.matches_re(r"[a-z0-9][a-z0-9._-]*")


def _is_span(_: Any, attribute: Any, span: Span) -> None:
    if not 0.0 <= span[0] <= span[1]:
        raise ValueError(f"expected {attribute.name} as seconds, at least and at most, got {span}")


def _names(given: Iterable[str]) -> tuple[str, ...]:
    if isinstance(given, str):
        raise TypeError(f"expected names of fields, got the text {given!r}: write ({given!r},)")
    return tuple(given)


@frozen
class RateLimit:
    """At most `requests` within `per` seconds; more are refused with 429 and a Retry-After."""

    requests: int = field(validator=validators.ge(1))
    per: float = field(default=1.0, validator=validators.gt(0.0))


@frozen(kw_only=True)
class Operations:
    """Writes are answered with 202 and carried out in the background: `GET /operations/ID` says whether done.

    Each takes a time within `takes`. Meanwhile another write to the resource is refused with 409. `state` is
    the field of a resource, if it has one, that says what happens to it, in these words; one of which an
    operation failed stays, as `failed`.
    """

    takes: Span = field(default=(5.0, 30.0), validator=_is_span)
    state: str | None = None
    creating: str = "creating"
    updating: str = "updating"
    deleting: str = "deleting"
    ready: str = "ready"
    failed: str = "failed"


@frozen(kw_only=True)
class ServiceCollection(Generic[T]):
    """Resources of one kind in a service, at `/name`, and the laws that hold for them.

    `kind` is an attrs class, a dataclass or a `msgspec.Struct`; its fields are those on the wire. `id` is the
    field that identifies a resource. The service makes it (`acct-1`, with `id_prefix="acct"`), and the same
    request again makes another resource. With `client_names` the client chooses the id, and a name that is
    taken is refused with 409.

    A write is seen by reads after a time within `visible_after`, and with `strong_gets` only by lists that
    late. There are at most `most` resources; more are refused with 403. A page of a list has `page` of them.
    `fixed` fields cannot be changed once they are set. With `operations`, writes are carried out later.

    For the test kit: `owner` says which object of the cluster wants a resource, or None for one that no
    controller made; a resource whose owner is gone has leaked. `identity` is the same for resources of which
    only one should exist; without it, those that are alike in all fields but the id. `secret` fields are
    never shown, and `passing` ones are not compared between runs.
    """

    name: str = field(validator=_PATH_PART)
    kind: type[T]
    id: str = "id"
    id_prefix: str = ""
    client_names: bool = False
    visible_after: Span = field(default=NO_TIME, validator=_is_span)
    strong_gets: bool = False
    most: int | None = field(default=None, validator=validators.optional(validators.ge(1)))
    page: int = field(default=100, validator=validators.ge(1))
    fixed: tuple[str, ...] = field(default=(), converter=_names)
    operations: Operations | None = None
    owner: Callable[[T], Owner | None] | None = None
    identity: Callable[[T], str] | None = None
    secret: tuple[str, ...] = field(default=(), converter=_names)
    passing: tuple[str, ...] = field(default=(), converter=_names)

    @property
    def is_late(self) -> bool:
        """Whether reads may not see a write yet."""
        return self.visible_after[1] > 0.0


@frozen
class ServiceAnswer:
    """An answer of a service: `body` is JSON, or None without one."""

    status: int
    body: Any = None
    headers: dict[str, str] = field(factory=dict)

    @property
    def ok(self) -> bool:
        """Whether the service did what was asked."""
        return self.status < 400


class ServiceRefusal(Exception):
    """Raised by a route of a `FakeService`, or by its resources: the answer is an error of `status`.

    `code` is a word for programs, `message` a sentence for people.
    """

    def __init__(
        self, status: int, code: str, message: str, *, headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(f"{status} {code}: {message}")
        self.status = status
        self.code = code
        self.message = message
        self.headers = headers or {}


Exchange: TypeAlias = Callable[[str, str, Mapping[str, str], bytes], Awaitable[Response]]
"""Sends method, target, headers and body to a service. Raises ServiceUnreachable and AnswerLost."""


class ServiceUnreachable(ConnectionError):
    """A request did not reach the service, because of a planned fault."""


class AnswerLost(ConnectionError):
    """A request reached the service, and its answer was lost: it may have been carried out."""
