"""How a manager is told to run: by its constructor, `RECONCILE_*` variables and flags, the latter first.

One table, OPTIONS, is what variables, flags and their documentation are made from.
"""

import difflib
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, cast, get_args

from attrs import asdict, evolve, field, fields_dict, frozen

from informers import Cache, Clock, InformerOptions, SystemClock, Transport
from reconcile.client.field_managers import check_field_manager
from reconcile.client.limits import RateLimiter
from reconcile.controller.blocking import THREADS, Blocking, InStep, Threads
from reconcile.controller.declaration import DEFAULT_TIMEOUT, DEFAULT_WORKERS, Controller
from reconcile.controller.declared_writes import Undeclared
from reconcile.controller.permissions import beyond_namespaces
from reconcile.manager.leadership import LeaderElection, LeaseTerms
from reconcile.manager.predecessor_check import NO_TAKEOVER, TakeoverPolicy
from reconcile.models import Object, kind_of
from reconcile.ops.health_checks import Check, checked
from reconcile.ops.page_server import is_loopback, parse_address

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider
    from prometheus_client import CollectorRegistry

PREFIX = "RECONCILE_"

ReadyWhen = Literal["up", "synced", "leading"]
ServeMetrics = Literal["all", "local"]

N = TypeVar("N", int, float)
ByController: TypeAlias = N | Mapping[str, N]
"""A number for all controllers that say none; or by their names, which goes before what they say.

The empty name stands for all others.
"""

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
CLIENT_QPS = 50.0
CLIENT_BURST = 100


class ConfigurationError(ValueError):
    """An option that does not exist, or a value that is none."""


def check_namespaces(names: Iterable[str]) -> Sequence[str]:
    """The same, each once. Raises ValueError for what is no name of a namespace."""
    found = tuple(dict.fromkeys((names,) if isinstance(names, str) else names))
    for name in found:
        if not _LABEL.fullmatch(name):
            raise ValueError(f"{name!r} is no name of a namespace: a-z, 0-9 and dashes are wanted")
    return found


def _an_address(_: object, __: object, serve: str) -> None:
    if serve:
        parse_address(serve)


def _check_serve_metrics(_: object, __: object, text: str) -> None:
    if text not in get_args(ServeMetrics):
        raise ValueError(f"serve_metrics: expected 'all' or 'local', got {text!r}")


def _of_kinds(_: object, __: object, informers: Mapping[type[Object], InformerOptions]) -> None:
    for kind in informers:
        if kind is not Object:
            kind_of(kind)


@frozen
class ManagerOptions:
    """How a manager runs, whatever it runs and wherever; OPTIONS and `Manager` say what each means."""

    namespace: str
    name: str = field(converter=check_field_manager)
    clock: Clock
    sync_seconds: float
    stop_seconds: float
    leader_election: LeaderElection | None
    embedded: bool = False
    clusters: Mapping[str, Transport | str] = {}
    serve: str = field(default="", validator=_an_address)
    serve_certificates: str = ""
    serve_review: bool = False
    serve_metrics: ServeMetrics = field(default="all", validator=_check_serve_metrics)
    ready_when: ReadyWhen = "up"
    liveness: Mapping[str, Check] = field(factory=dict, converter=checked)
    readiness: Mapping[str, Check] = field(factory=dict, converter=checked)
    metrics: "CollectorRegistry | None" = None
    traces: "TracerProvider | None" = None
    limiter: RateLimiter | None = None
    client_qps: float = CLIENT_QPS
    client_burst: int = CLIENT_BURST
    workers: ByController[int] = DEFAULT_WORKERS
    timeout: ByController[float] = DEFAULT_TIMEOUT
    threads: int = THREADS
    debug: bool = False
    takeover: TakeoverPolicy = NO_TAKEOVER
    blocking: Blocking | None = None
    namespaces: Sequence[str] = field(default=(), converter=check_namespaces)
    undeclared: Undeclared | None = None
    informers: Mapping[type[Object], InformerOptions] = field(factory=dict, validator=_of_kinds)

    @property
    def kept_to(self) -> Sequence[str]:
        """The namespaces that are followed; none for all of them."""
        return self.namespaces or ((self.namespace,) if self.namespace else ())

    def cache_of(self, transport: Transport) -> Cache:
        """A cache of one cluster, which follows and keeps what `informers` says."""
        others = self.informers.get(Object)
        given = {kind_of(kind).resource: said for kind, said in self.informers.items() if kind is not Object}
        return Cache(transport, namespaces=self.kept_to, defaults=others, options=given, clock=self.clock)

    @property
    def refuses_undeclared(self) -> bool:
        """Whether an undeclared write fails; where nobody says, it does where the clock is a test's."""
        if self.undeclared is not None:
            return self.undeclared == "refuse"
        return not isinstance(self.clock, SystemClock)

    def request_limiter(self) -> RateLimiter | None:
        """What slows requests down: `limiter`, or else a new one as `client_qps` says; None: nothing."""
        if self.limiter is not None or not self.client_qps:
            return self.limiter
        return RateLimiter(self.client_qps, self.client_burst)

    def blocking_code(self) -> Blocking:
        """Where blocking code runs: in threads, or in step with the loop where the clock is a test's."""
        if self.blocking is not None:
            return self.blocking
        return Threads(self.threads) if isinstance(self.clock, SystemClock) else InStep()


@frozen
class Option:
    """One option: its name is the constructor's argument. `read` makes its value out of text."""

    name: str
    default: str
    meaning: str
    read: Callable[[str], Any]
    constructor: str = ""
    """How the constructor says it, where that is not by an argument of this name."""

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


def _by_controller(read: Callable[[str], N]) -> Callable[[str], "ByController[N]"]:
    def each(text: str) -> ByController[N]:
        pairs = [part.strip().rpartition("=") for part in text.split(",")]
        values = {name.strip(): read(number.strip()) for name, _, number in pairs}
        if len(values) < len(pairs) or any(bool(name) != bool(sign) for name, sign, _ in pairs):
            raise ValueError(f"a number is wanted, or NAME=NUMBER, each name once, with commas, not {text!r}")
        return values[""] if set(values) == {""} else values

    return each


def _clusters(text: str) -> Mapping[str, str]:
    if not text:
        return {}
    pairs = [part.strip().partition("=") for part in text.split(",")]
    clusters = {name: context for name, _, context in pairs}
    if len(clusters) < len(pairs) or not all(clusters.values()):
        raise ValueError(f"NAME=CONTEXT is wanted, each name once, with commas, not {text!r}")
    return cast(Mapping[str, str], check_clusters(clusters))


def check_clusters(clusters: Mapping[str, Transport | str]) -> Mapping[str, Transport | str]:
    """The same. Raises ValueError for what is no name: letters, digits and dashes, as of a DNS label."""
    for name in clusters:
        if not _LABEL.fullmatch(name):
            raise ValueError(f"{name!r} is no name of a cluster: a-z, 0-9 and dashes are wanted")
    return clusters


def _limit(text: str) -> float:
    seconds = _seconds(text)
    if not seconds:
        raise ValueError(f"a number of seconds above 0 is wanted, not {text!r}")
    return seconds


def _switch(text: str) -> bool:
    if text.lower() not in ("true", "false", "1", "0"):
        raise ValueError(f"true or false is wanted, not {text!r}")
    return text.lower() in ("true", "1")


def _address(text: str) -> str:
    if text:
        parse_address(text)
    return text


def _serve_metrics(text: str) -> ServeMetrics:
    _check_serve_metrics(None, None, text)
    return cast(ServeMetrics, text)


def _ready_when(text: str) -> ReadyWhen:
    if text not in get_args(ReadyWhen):
        raise ValueError(f"one of {', '.join(get_args(ReadyWhen))} is wanted, not {text!r}")
    return cast(ReadyWhen, text)


def _undeclared(text: str) -> Undeclared | None:
    if text and text not in get_args(Undeclared):
        raise ValueError(f"one of {', '.join(get_args(Undeclared))} is wanted, not {text!r}")
    return cast(Undeclared, text) if text else None


def _namespaces(text: str) -> Sequence[str]:
    return check_namespaces(name.strip() for name in text.split(",")) if text else ()


def _lease(text: str) -> LeaderElection | None:
    namespace, _, name = text.rpartition("/")
    if text and (not name or "/" in namespace):
        raise ValueError(f"NAME or NAMESPACE/NAME of a Lease is wanted, not {text!r}")
    return LeaderElection(name, namespace or "default") if text else None


def _labels(text: str) -> str:
    return TakeoverPolicy(text).selector


_TERMS = "LeaderElection(terms=)"
_CAUTIOUS = ("selector", "dry_run", "take_over")
_LEASE_TIMES = {"lease_seconds": "duration", "renew_seconds": "renew_deadline", "retry_seconds": "retry"}

OPTIONS = (
    Option("namespace", "", "Keep to this namespace; empty for all of them.", str),
    Option(
        "namespaces",
        "",
        "Keep to these, with commas, and need Roles in them alone; empty: as `namespace` says.",
        _namespaces,
    ),
    Option(
        "selector",
        "",
        "Keep objects with these labels, and what they control; empty: all.",
        _labels,
        "TakeoverPolicy(selector=)",
    ),
    Option(
        "dry_run",
        "false",
        "Run in shadow: log each write as a difference, send none.",
        _switch,
        "TakeoverPolicy(dry_run=)",
    ),
    Option(
        "take_over",
        "false",
        "Start also where the operator whose place a controller takes is at work.",
        _switch,
        "TakeoverPolicy(take_over=)",
    ),
    Option("name", "reconcile", "Field manager of writes that belong to no controller.", check_field_manager),
    Option("embedded", "false", "Run on an API server inside the process.", _switch),
    Option(
        "clusters", "", "Run on these: NAME=CONTEXT of the kubeconfig, with commas; empty: on one.", _clusters
    ),
    Option("serve", "", "Serve health, metrics and /debug/state on HOST:PORT; empty: do not.", _address),
    Option("serve_certificates", "", "Serve over TLS: folder of tls.crt and tls.key, which may rotate.", str),
    Option(
        "serve_review", "false", "Show /metrics and /debug to whom the API server lets get them.", _switch
    ),
    Option(
        "serve_metrics",
        "all",
        "Without serve_review, show /metrics to: all, local (this machine).",
        _serve_metrics,
    ),
    Option(
        "ready_when", "up", "When /readyz says yes: up, synced (caches), leading (and synced).", _ready_when
    ),
    Option("leader_election", "", "Act only while holding this Lease, [NAMESPACE/]NAME; empty: act.", _lease),
    Option("lease_seconds", "15", "So long others wait for a leader that is silent.", _limit, _TERMS),
    Option("renew_seconds", "10", "So long a leader acts without having renewed.", _limit, _TERMS),
    Option("retry_seconds", "2", "So often the Lease is renewed, or looked at.", _limit, _TERMS),
    Option(
        "workers",
        "10",
        "So many objects a controller works on at a time; `NAME=5` for one of them, with commas.",
        _by_controller(_count),
    ),
    Option(
        "timeout",
        "300",
        "So many seconds one run may take; `NAME=60` for one of them.",
        _by_controller(_limit),
    ),
    Option("threads", "40", "So many blocking calls may run at a time, each in a thread.", _count),
    Option("debug", "false", "Render what is wanted twice, and let a run fail where it differs.", _switch),
    Option(
        "undeclared",
        "",
        "Of writes that no declaration names `warn`, or `refuse` them; empty: warn, but refuse in tests.",
        _undeclared,
    ),
    Option("client_qps", "50", "So many requests a second may all controllers make; 0: no limit.", _rate),
    Option("client_burst", "100", "So many requests may be made at once under that limit.", _count),
    Option("sync_seconds", "120", "So long the first lists may take.", _seconds),
    Option("stop_seconds", "30", "So long runs under way may take to end at a stop.", _seconds),
)
"""What text can say. The rest (`transport`, `clock`, `blocking`, `liveness`, `readiness`, `metrics`,
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
    """The options with some changed. A changed Lease keeps the identity and the terms of the former.

    Raises ConfigurationError for times of a Lease that nobody runs for, or that make no sense together.
    """
    if not changes and not options.takeover.dry_run:
        return options
    terms = {term: changes[name] for name, term in _LEASE_TIMES.items() if name in changes}
    takeover = {name: changes[name] for name in _CAUTIOUS if name in changes}
    changes = {name: value for name, value in changes.items() if name not in (*_LEASE_TIMES, *_CAUTIOUS)}
    election: LeaderElection | None = changes.get("leader_election", options.leader_election)
    if election is not None and options.leader_election is not None:
        election = evolve(options.leader_election, name=election.name, namespace=election.namespace)
    if terms and election is None:
        raise ConfigurationError("the times of a Lease say nothing without leader_election")
    if terms and election is not None:
        election = evolve(election, terms=_lease_terms(election.terms, terms))
    if "namespace" in changes or "namespaces" in changes:
        changes = {"namespace": "", "namespaces": (), **changes}
    if "client_qps" in changes:
        changes["limiter"] = None
    return _cautious(evolve(options, **{**changes, "leader_election": election}), takeover)


def _cautious(options: ManagerOptions, changes: Mapping[str, Any]) -> ManagerOptions:
    """In shadow nobody leads: a Lease is a write too, and there is nothing to lead."""
    options = evolve(options, takeover=evolve(options.takeover, **changes))
    return evolve(options, leader_election=None) if options.takeover.dry_run else options


def _lease_terms(terms: LeaseTerms, changes: Mapping[str, float]) -> LeaseTerms:
    try:
        return evolve(terms, **changes)
    except ValueError as error:
        raise ConfigurationError(str(error)) from None


def of_controller(option: "ByController[N]", name: str, own: N | None) -> N | None:
    """What holds for the controller `name`, which says `own` itself; None where nobody says anything."""
    if not isinstance(option, Mapping):
        return option if own is None else own
    return option.get(name, option.get("") if own is None else own)


def check_reach(options: ManagerOptions, controllers: Collection[Controller[Any]]) -> None:
    """Raises ConfigurationError where `namespaces` is given and a controller works beyond them."""
    if options.namespace and options.namespaces:
        raise ConfigurationError("namespace and namespaces are both given: give one of them")
    reasons = beyond_namespaces(controllers) if options.namespaces else ()
    if reasons:
        raise ConfigurationError(
            f"a manager of the namespaces {', '.join(options.namespaces)} needs Roles alone, and "
            f"{reasons[0]}: leave that out, or give no namespaces="
        )


def check_controllers(options: ManagerOptions, controllers: Collection[Controller[Any]]) -> None:
    """Raises ConfigurationError where an option and a controller do not know each other's names."""
    names = [controller.name for controller in controllers]
    check_reach(options, controllers)
    for controller in controllers:
        for cluster in controller.clusters:
            if cluster not in options.clusters:
                known = ", ".join(options.clusters) or "none by name"
                raise ConfigurationError(
                    f"controller {controller.name} is to work in cluster {cluster}; there are: {known}"
                )
    for option in ("workers", "timeout"):
        value = getattr(options, option)
        for name in value if isinstance(value, Mapping) else ():
            if name and name not in names:
                nearest = difflib.get_close_matches(name, names, 1, 0.0)
                hint = f": the nearest is {nearest[0]}" if nearest else ""
                raise ConfigurationError(f"{option}: there is no controller {name}{hint}")


def check_serving(options: ManagerOptions) -> None:
    """Raises ConfigurationError where tokens would be asked for in the clear."""
    if not options.serve or not options.serve_review or options.serve_certificates:
        return
    if not is_loopback(parse_address(options.serve).host):
        raise ConfigurationError("serve_review asks for tokens: give serve_certificates too, or loopback")


def shown(options: ManagerOptions) -> Mapping[str, Any]:
    """What a log line may say of them: the options of the table, by name. None of them is a secret."""
    election = options.leader_election
    values = {name: getattr(options, name) for name in fields_dict(ManagerOptions) if name in _BY_NAME}
    values |= asdict(options.takeover)
    values["clusters"] = ",".join(f"{name}={_place(way)}" for name, way in options.clusters.items())
    values["namespaces"] = ",".join(options.namespaces)
    values["undeclared"] = "refuse" if options.refuses_undeclared else "warn"
    if election is None:
        return {**values, "leader_election": ""}
    times = {name: getattr(election.terms, term) for name, term in _LEASE_TIMES.items()}
    return {**values, "leader_election": f"{election.namespace}/{election.name}", **times}


def _place(way: Transport | str) -> str:
    return way if isinstance(way, str) else way.server


def table() -> str:
    """The reference of all options, in Markdown."""
    rows = [
        f"| `{option.constructor or f'{option.name}='}` | `{option.variable}` | `{option.flag}` "
        f"| {_code(option.default)} | {option.meaning} |"
        for option in OPTIONS
    ]
    head = "| constructor | variable | flag of `reconcile run` | default | |\n|---|---|---|---|---|\n"
    return head + "\n".join(rows) + "\n"


def _code(text: str) -> str:
    return f"`{text}`" if text else ""
