"""What can go wrong between a manager and its API server, as values that can be replayed."""

import fnmatch
from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from attrs import field, frozen, validators

from reconcile.testing.scenario_acts import EditPatch, ScenarioAct

if TYPE_CHECKING:
    from cattrs import Converter

Verb = Literal[
    "*", "write", "get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"
]  # fmt: skip
"""The verbs of RBAC; `write` is any request that may change something, `*` any request."""

_NOT_NEGATIVE = validators.ge(0)
_NO_LESS = validators.ge(0.0)


@frozen
class When:
    """Which requests a fault concerns: by default the first one, whatever it is.

    `*` in `path` matches anything, including slashes; `//billing/accounts` is a path of the `FakeService`
    `billing`, where a POST is a `create`. Each fault counts the requests that match it and concerns `times`
    of them (None: all) from the `nth` on. `process` is the number, from 1 on, of the only manager whose
    requests count; with None each manager's are counted separately.
    """

    verb: Verb = "*"
    path: str = "*"
    nth: int = field(default=1, validator=validators.ge(1))
    times: int | None = field(default=1)
    process: int | None = None

    @times.validator
    def _refuse_no_times(self, _: Any, times: int | None) -> None:
        if times is not None and times < 1:
            raise ValueError(f"expected times of 1 or more, or None for all, got {times}")

    def matches(self, verb: Verb, path: str) -> bool:
        """Whether a request of this RBAC verb counts."""
        if self.verb == "write" and verb in ("get", "list", "watch"):
            return False
        return self.verb in ("*", "write", verb) and fnmatch.fnmatchcase(path, self.path)

    def meets(self, count: int) -> bool:
        """Whether the fault concerns the `count`th request that matched, from 1 on."""
        return count >= self.nth and (self.times is None or count < self.nth + self.times)


@frozen
class Delay:
    """The request reaches the server after `seconds`. Can be combined with any other fault."""

    seconds: float = field(validator=_NOT_NEGATIVE)


@frozen
class SlowReply:
    """The server acts at once, and its answer arrives after `seconds`. Can be combined with any other."""

    seconds: float = field(validator=_NOT_NEGATIVE)


@frozen
class Drop:
    """The request never reaches the server: `Unreachable`."""


@frozen
class RefuseAsStale:
    """409, as if the object had changed since it was read; the server never receives the request."""


@frozen
class Refuse:
    """An answer of `code` in the server's place; the server never receives the request.

    The body is a Status with `reason` and `message`, or the plain `text` of a proxy or an overloaded server;
    `retry_after` (seconds) is a header. With `applied` the server acts all the same, as with some 504s.
    """

    code: int = field(validator=[validators.ge(400), validators.lt(600)])
    reason: str = ""
    message: str = ""
    text: str | None = None
    retry_after: int | None = None
    applied: bool = False


@frozen
class LoseReply:
    """The request is carried out and its answer is lost: `OutcomeUnknown`."""


@frozen
class Meanwhile:
    """Another user acts just before the request reaches the server. Can be combined with any other fault."""

    act: ScenarioAct


@frozen
class Pause:
    """The process stands still for `seconds` before the request is sent. Can be combined with any other."""

    seconds: float = field(validator=_NO_LESS)


@frozen
class CrashBefore:
    """The process dies before the request is sent: `Crash`."""


@frozen
class CrashAfter:
    """The process dies after the request was carried out: `Crash`."""


@frozen
class Cut:
    """A stream is reset after `after` lines, or with `mid_line` in the middle of the next one."""

    after: int = field(default=0, validator=_NOT_NEGATIVE)
    mid_line: bool = False


@frozen
class EndEarly:
    """A stream ends after `after` lines without an error, as a watch may at any time."""

    after: int = field(default=0, validator=_NOT_NEGATIVE)


@frozen
class Stall:
    """A stream sends nothing after `after` lines, for `seconds`, or for ever with None."""

    after: int = field(default=0, validator=_NOT_NEGATIVE)
    seconds: float | None = field(default=None, validator=validators.optional(_NOT_NEGATIVE))


@frozen
class Expire:
    """After `after` lines a stream sends an ERROR event with a Status of code 410, and ends."""

    after: int = field(default=0, validator=_NOT_NEGATIVE)


@frozen
class Hold:
    """After `after` lines the next one is held back until `events` more have come, or for `seconds`.

    The cache of that kind falls behind, while those of other kinds do not.
    """

    after: int = field(default=0, validator=_NOT_NEGATIVE)
    events: int = field(default=1, validator=validators.ge(1))
    seconds: float = field(default=10.0, validator=_NO_LESS)


@frozen
class Coalesce:
    """After `after` lines the next ones are held back until there are `events`, or for `seconds`; then 410.

    The next list shows the result: no object that was deleted again, and only the last change of each.
    """

    after: int = field(default=0, validator=_NOT_NEGATIVE)
    events: int = field(default=2, validator=validators.ge(1))
    seconds: float = field(default=10.0, validator=_NO_LESS)


@frozen
class Repeat:
    """The line after `after` lines comes twice: the same event with the same version."""

    after: int = field(default=0, validator=_NOT_NEGATIVE)


@frozen
class TimeTravel:
    """A watch's initial events lack the last `events` changes of the kind, which follow `seconds` later.

    A restarted process sees this if its list comes from the watch cache of an API server that lags. Only
    watches that ask for initial events are counted, not those that continue from a version.
    """

    events: int = field(default=1, validator=validators.ge(1))
    seconds: float = field(default=5.0, validator=_NO_LESS)


CallFailure = Literal["down", "slow", "wrong uid", "expired", "rotating", "unconvertible"]


@frozen
class FailCall:
    """A call of a webhook fails that a request of a manager causes: the server gets no answer that counts.

    `When` then counts calls: its `path` is that of the webhook, such as `/refuses/sites.example.com`.
    `how`: nothing listens (`down`), no answer comes in time (`slow`), it has a `wrong uid`, the certificate
    is `expired` or not yet trusted (`rotating`), or an object is `unconvertible`.
    """

    how: CallFailure = "down"


@frozen
class StaleRead:
    """A read of a service outside the cluster shows the state of `changes` changes before.

    Of a service whose reads may be late (`visible_after`) only as far back as that allows.
    """

    changes: int = field(default=1, validator=validators.ge(1))


@frozen
class PartOfBatch:
    """A service outside the cluster carries out the first `items` of a batch; the others get a 503 each."""

    items: int = field(default=1, validator=_NOT_NEGATIVE)


@frozen
class FailOperation:
    """The operation that a request to a service outside the cluster starts ends with an error."""


RequestFault = (
    Delay
    | SlowReply
    | Drop
    | RefuseAsStale
    | Refuse
    | LoseReply
    | Meanwhile
    | Pause
    | CrashBefore
    | CrashAfter
)
"""Faults of any request, the opening of a stream being one."""

StreamFault = Cut | EndEarly | Stall | Expire | Hold | Coalesce | Repeat | TimeTravel
"""Faults of a stream that was opened; other requests do not count for them."""

ServiceFault = StaleRead | PartOfBatch | FailOperation
"""Faults of a request to a service outside the cluster; other requests do not count for them."""

What = RequestFault | StreamFault | FailCall | ServiceFault


@frozen
class Fault:
    """One thing that goes wrong: `what`, to the requests of `when`."""

    when: When
    what: What


def _as_tuple(faults: Iterable[Fault]) -> tuple[Fault, ...]:
    return tuple(faults)


def _as_acts(acts: Iterable[ScenarioAct] | None) -> tuple[ScenarioAct, ...] | None:
    return None if acts is None else tuple(acts)


@frozen
class Choice:
    """The schedule takes the transition of this label at the `at`th choice, from 1 on, not the first one."""

    at: int = field(validator=validators.ge(1))
    take: str


def _as_choices(choices: Iterable[Choice] | None) -> tuple[Choice, ...] | None:
    return None if choices is None else tuple(choices)


@frozen
class FaultPlan:
    """What goes wrong in a run, and when; the plan of a failing run makes it fail again.

    If several faults concern one request, their waiting times add up, and the first of the others decides.
    `acts` replace the steps of a scenario. `seed` decides the order of tasks, the lag of watches, generated
    names and random numbers.

    With a `schedule`, as of `explore`, each thing happens by itself and in the order of asking, apart from
    these choices; one that is not possible is passed over.
    """

    faults: tuple[Fault, ...] = field(default=(), converter=_as_tuple)
    acts: tuple[ScenarioAct, ...] | None = field(default=None, converter=_as_acts)
    seed: int = 0
    schedule: tuple[Choice, ...] | None = field(default=None, converter=_as_choices)

    def __str__(self) -> str:
        return f"FaultPlan.from_json({self.to_json()!r})"

    def to_json(self) -> str:
        """The plan as JSON, without defaults."""
        return msgspec.json.encode(_converter().unstructure(self)).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> "FaultPlan":
        """Read what `to_json` wrote. Raises ValueError that says what is wrong with any other text."""
        converter = _converter()
        from cattrs import BaseValidationError, transform_error

        try:
            plan: FaultPlan = converter.structure(msgspec.json.decode(text), cls)
        except BaseValidationError as error:
            raise ValueError(f"not a fault plan: {'; '.join(transform_error(error))}") from error
        except (AttributeError, TypeError, msgspec.DecodeError) as error:
            raise ValueError(f"not a fault plan: {error}") from error
        return plan


class Crash(BaseException):
    """The process of the manager dies here.

    Not an `Exception`, so that no reconciler catches it. A task group wraps it: catch it with `except*`.
    """

    def __init__(self, request: str, *, carried_out: bool) -> None:
        super().__init__(f"{request}: crashed {'after' if carried_out else 'before'} it was carried out")
        self.request = request
        self.carried_out = carried_out


@cache
def _converter() -> "Converter":
    """What reads and writes plans. cattrs is imported here alone: the demo injects faults without it."""
    try:
        from cattrs import Converter
        from cattrs.strategies import configure_tagged_union
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "fault plans are read and written with cattrs: pip install 'reconcile-runtime[testing]'",
            name="cattrs",
        ) from None
    converter = Converter(forbid_extra_keys=True, omit_if_default=True)
    converter.register_structure_hook(EditPatch, _patch_of)
    configure_tagged_union(ScenarioAct, converter, tag_name="act")
    configure_tagged_union(What, converter, tag_name="fault")
    return converter


def _patch_of(value: Any, _: Any) -> EditPatch:
    """The patch of an Edit. Raises TypeError."""
    operations = value if isinstance(value, list) else [value]
    if not all(isinstance(one, dict) for one in operations):
        raise TypeError("expected a merge patch, or a list of the operations of a JSON patch")
    patch: EditPatch = value
    return patch
