"""How a manager is told to run: by its constructor, `RECONCILE_*` variables and flags, the latter first.

One table, OPTIONS, is what variables, flags and their documentation are made from.
"""

import difflib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

from attrs import evolve, fields_dict, frozen

from informers import Clock
from reconcile.context import RunSync
from reconcile.health import Check
from reconcile.leadership import LeaderElection
from reconcile.limiter import RateLimiter
from reconcile.serving import parse_address

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider
    from prometheus_client import CollectorRegistry

PREFIX = "RECONCILE_"

ReadyWhen = Literal["up", "synced", "leading"]


class ConfigurationError(ValueError):
    """An option that does not exist, or a value that is none."""


@frozen
class ManagerOptions:
    """How a manager runs, whatever it runs and wherever; OPTIONS and `Manager` say what each means."""

    namespace: str
    name: str
    clock: Clock
    sync_seconds: float
    stop_seconds: float
    run_sync: RunSync
    leader_election: LeaderElection | None
    embedded: bool = False
    serve: str = ""
    ready_when: ReadyWhen = "up"
    liveness: Mapping[str, Check] = {}
    readiness: Mapping[str, Check] = {}
    metrics: "CollectorRegistry | None" = None
    traces: "TracerProvider | None" = None
    limiter: RateLimiter | None = None
    client_qps: float = 0.0
    client_burst: int = 10

    def request_limiter(self) -> RateLimiter | None:
        """What slows requests down: `limiter`, unless `client_qps` says how fast they may be."""
        return RateLimiter(self.client_qps, self.client_burst) if self.client_qps else self.limiter


@frozen
class Option:
    """One option: its name is the constructor's argument. `read` makes its value out of text."""

    name: str
    default: str
    meaning: str
    read: Callable[[str], Any]

    @property
    def variable(self) -> str:
        """The environment variable."""
        return PREFIX + self.name.upper()

    @property
    def flag(self) -> str:
        """The flag of `reconcile run`."""
        return "--" + self.name.replace("_", "-")

    def value(self, text: str, source: str) -> Any:
        """The value that a text stands for. Raises ConfigurationError, which names `source`."""
        try:
            return self.read(text)
        except ValueError as error:
            raise ConfigurationError(f"{source}: {error}") from None


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise ValueError(f"a number of seconds is wanted, not {text!r}")
    return seconds


def _rate(text: str) -> float:
    try:
        return _seconds(text)
    except ValueError:
        raise ValueError(f"a number of requests a second is wanted, not {text!r}") from None


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"a whole number above 0 is wanted, not {text!r}")
    return int(text)


def _switch(text: str) -> bool:
    if text.lower() not in ("true", "false", "1", "0"):
        raise ValueError(f"true or false is wanted, not {text!r}")
    return text.lower() in ("true", "1")


def _address(text: str) -> str:
    if text:
        parse_address(text)
    return text


def _ready_when(text: str) -> ReadyWhen:
    if text not in get_args(ReadyWhen):
        raise ValueError(f"one of {', '.join(get_args(ReadyWhen))} is wanted, not {text!r}")
    return cast(ReadyWhen, text)


def _lease(text: str) -> LeaderElection | None:
    namespace, _, name = text.rpartition("/")
    if text and (not name or "/" in namespace):
        raise ValueError(f"NAME or NAMESPACE/NAME of a Lease is wanted, not {text!r}")
    return LeaderElection(name, namespace or "default") if text else None


def _not_empty(text: str) -> str:
    if not text:
        raise ValueError("a name is wanted")
    return text


OPTIONS = (
    Option("namespace", "", "Keep to this namespace; empty for all of them.", str),
    Option("name", "reconcile", "Field manager of writes that belong to no controller.", _not_empty),
    Option("embedded", "false", "Run on an API server inside the process.", _switch),
    Option("serve", "", "Serve health, metrics and /debug/state on HOST:PORT; empty: do not.", _address),
    Option(
        "ready_when", "up", "When /readyz says yes: up, synced (caches), leading (and synced).", _ready_when
    ),
    Option("leader_election", "", "Act only while holding this Lease, [NAMESPACE/]NAME; empty: act.", _lease),
    Option("client_qps", "0", "So many requests a second may all controllers make; 0: no limit.", _rate),
    Option("client_burst", "10", "So many requests may be made at once under that limit.", _count),
    Option("sync_seconds", "120", "So long the first lists may take.", _seconds),
    Option("stop_seconds", "30", "So long runs under way may take to end at a stop.", _seconds),
)
"""What text can say. The rest (`transport`, `clock`, `run_sync`, `liveness`, `readiness`, `metrics`,
`traces`, `limiter`) are objects, which only the constructor takes."""

_BY_NAME = {option.name: option for option in OPTIONS}
_BY_VARIABLE = {option.variable: option for option in OPTIONS}


def from_environment(environ: Mapping[str, str]) -> Mapping[str, Any]:
    """The options that variables set. Raises ConfigurationError for an unknown `RECONCILE_` variable."""
    found: dict[str, Any] = {}
    for variable, text in environ.items():
        if not variable.startswith(PREFIX):
            continue
        option = _BY_VARIABLE.get(variable)
        if option is None:
            word = variable.removeprefix(PREFIX).lower()
            nearest = _BY_NAME[difflib.get_close_matches(word, _BY_NAME, 1, 0.0)[0]]
            raise ConfigurationError(f"there is no option {variable}: the nearest is {nearest.variable}")
        found[option.name] = option.value(text, variable)
    return found


def from_flags(flags: Mapping[str, str | None]) -> Mapping[str, Any]:
    """The options that flags set, by option name; None is a flag that was not given."""
    given = {_BY_NAME[name]: text for name, text in flags.items() if text is not None}
    return {option.name: option.value(text, option.flag) for option, text in given.items()}


def configured(options: ManagerOptions, changes: Mapping[str, Any]) -> ManagerOptions:
    """The options with some changed. A changed Lease keeps the identity and the terms of the former."""
    election = changes.get("leader_election")
    if election is not None and options.leader_election is not None:
        place = {"name": election.name, "namespace": election.namespace}
        changes = {**changes, "leader_election": evolve(options.leader_election, **place)}
    return evolve(options, **changes)


def shown(options: ManagerOptions) -> Mapping[str, Any]:
    """What a log line may say of them: the options of the table, by name. None of them is a secret."""
    election = options.leader_election
    lease = "" if election is None else f"{election.namespace}/{election.name}"
    values = {name: getattr(options, name) for name in fields_dict(ManagerOptions) if name in _BY_NAME}
    return {**values, "leader_election": lease}


def table() -> str:
    """The reference of all options, in Markdown."""
    rows = [
        f"| `{option.name}=` | `{option.variable}` | `{option.flag}` | {_code(option.default)} "
        f"| {option.meaning} |"
        for option in OPTIONS
    ]
    head = "| constructor | variable | flag of `reconcile run` | default | |\n|---|---|---|---|---|\n"
    return head + "\n".join(rows) + "\n"


def _code(text: str) -> str:
    return f"`{text}`" if text else ""
