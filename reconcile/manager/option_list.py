"""The one list of a manager's options: constructor, variables, flags and the reference follow from it.

A new option is one entry of ManagerOptions, and the code that uses it. Flags override variables, and
variables override the constructor.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, TypedDict, cast

from attrs import evolve, frozen

from informers import Clock, InformerOptions, SystemClock, Transport
from reconcile.client.certainty import LeaseTerms
from reconcile.client.field_managers import check_field_manager
from reconcile.client.request_limiter import RequestLimiter
from reconcile.controller.blocking import THREADS, Blocking
from reconcile.controller.declaration import DEFAULT_TIMEOUT, DEFAULT_WORKERS
from reconcile.controller.declared_writes import Undeclared
from reconcile.manager import option_values as values
from reconcile.manager.leader_election import LeaderElection
from reconcile.manager.option_values import ByController, Definitions, N, ReadyWhen, ServeMetrics
from reconcile.models import Object
from reconcile.ops.health_checks import Check, checked

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider
    from prometheus_client import CollectorRegistry

    from reconcile.sharding.options import Sharding

PREFIX: Final = "RECONCILE_"
CLIENT_QPS: Final = 50.0
CLIENT_BURST: Final = 100
_NONE: Mapping[Any, Any] = {}
_OBJECT_READERS = (values.as_given, values.informer_options, checked)


class ConfigurationError(ValueError):
    """An option that does not exist, or a value that it does not take."""


@frozen
class OptionSpec:
    """One option: `read` makes its value from text or from an object, or raises ValueError."""

    default: Any
    read: Callable[[Any], Any]
    help: str

    @property
    def text(self) -> bool:
        """Whether text can set it; otherwise it is an object, which only the constructor takes."""
        return self.read not in _OBJECT_READERS

    @property
    def is_switch(self) -> bool:
        """Whether its flag stands alone, and means `true`."""
        return self.read is values.switch

    @property
    def default_text(self) -> str:
        """The default as a variable would set it; empty for nothing."""
        if isinstance(self.default, float):
            return f"{self.default:g}"
        return str(self.default).lower() if self.text and self.default not in (None, "", (), {}) else ""


class ManagerOptions(TypedDict, total=False):
    """All options of a manager, each with its type and the fields of its OptionSpec."""

    namespace: Annotated[str, "", str, "Keep to this namespace; empty: all namespaces."]
    namespaces: Annotated[
        Sequence[str],
        (),
        values.namespaces,
        "Keep to these namespaces, comma-separated, with Roles alone; empty: as `namespace` says.",
    ]
    selector: Annotated[
        str, "", values.labels, "Keep objects with these labels, and what they control; empty: all."
    ]
    dry_run: Annotated[bool, False, values.switch, "Shadow mode: log each write as a difference, send none."]
    take_over: Annotated[
        bool, False, values.switch, "Start even if the operator that a controller replaces is active."
    ]
    freeze_predecessor: Annotated[
        bool,
        False,
        values.switch,
        "Freeze the operator on kopf that a controller replaces, and start; not only when it has ended.",
    ]
    name: Annotated[
        str, "reconcile", check_field_manager, "Field manager of writes that belong to no controller."
    ]
    embedded: Annotated[bool, False, values.switch, "Run on an API server inside the process."]
    clusters: Annotated[
        Mapping[str, Transport | str],
        _NONE,
        values.clusters,
        "Run on these: NAME=CONTEXT of a kubeconfig, comma-separated; empty: one.",
    ]
    serve: Annotated[
        str, "", values.address, "Serve health, metrics and debug pages on HOST:PORT; empty: do not."
    ]
    serve_certificates: Annotated[
        str, "", str, "Serve over TLS: folder of tls.crt and tls.key, which may rotate."
    ]
    serve_review: Annotated[
        bool,
        False,
        values.switch,
        "Let the API server decide, by token, who gets /metrics, /debug and the data of /status.",
    ]
    serve_metrics: Annotated[
        ServeMetrics,
        "all",
        values.one_of(ServeMetrics),
        "Without serve_review, show /metrics to: all, local (this machine).",
    ]
    webhooks: Annotated[
        str, "", values.address, "Serve admission and conversion over HTTPS on HOST:PORT; empty: do not."
    ]
    webhook_certificates: Annotated[
        str, "", str, "Certificate of the webhooks: folder of tls.crt and tls.key, which may rotate."
    ]
    webhook_service: Annotated[
        str,
        "",
        values.service,
        "Without webhook_certificates: make certificates for this Service, NAMESPACE/NAME.",
    ]
    definitions: Annotated[
        Definitions,
        "check",
        values.one_of(Definitions),
        "Definitions of own kinds: check them, or apply them and migrate what is stored.",
    ]
    ready_when: Annotated[
        ReadyWhen,
        "up",
        values.one_of(ReadyWhen),
        "When /readyz succeeds: up, synced (caches), leading (synced too; with sharding: a bucket is held).",
    ]
    leader_election: Annotated[
        LeaderElection | None,
        None,
        values.lease,
        "Act only while holding this Lease, [NAMESPACE/]NAME; empty: always.",
    ]
    sharding: Annotated[
        "Sharding | None",
        None,
        values.sharding,
        "Share all objects with the replicas of this ring, [NAMESPACE/]NAME; empty: do not.",
    ]
    canary: Annotated[
        float,
        0.0,
        values.share,
        "Take that share of all objects at most, such as 5%, while the ring has other replicas.",
    ]
    loops: Annotated[
        int,
        1,
        values.count,
        "How many event loops share the work, each a member of the ring, on a Python without GIL.",
    ]
    lease_seconds: Annotated[
        float,
        LeaseTerms().duration,
        values.positive_seconds,
        "How long standbys wait before they take over a Lease that is not renewed.",
    ]
    renew_seconds: Annotated[
        float,
        LeaseTerms().renew_deadline,
        values.positive_seconds,
        "How long a leader acts without having renewed the Lease.",
    ]
    retry_seconds: Annotated[
        float, LeaseTerms().retry, values.positive_seconds, "How often the Lease is renewed, or tried for."
    ]
    workers: Annotated[
        ByController[int],
        DEFAULT_WORKERS,
        values.by_controller(values.count),
        "How many objects a controller works on at a time; `NAME=5` for one controller, comma-separated.",
    ]
    timeout: Annotated[
        ByController[float],
        DEFAULT_TIMEOUT,
        values.by_controller(values.positive_seconds),
        "How many seconds one run may take; `NAME=60` for one controller, comma-separated.",
    ]
    threads: Annotated[int, THREADS, values.count, "How many blocking calls run at a time, each in a thread."]
    debug: Annotated[
        bool, False, values.switch, "Compute each desired state twice, and fail a run where the two differ."
    ]
    undeclared: Annotated[
        Undeclared | None,
        None,
        values.one_of(Undeclared, optional=True),
        "`refuse` writes that no declaration names, or `warn`; empty: warn, but refuse in tests.",
    ]
    client_qps: Annotated[
        float,
        CLIENT_QPS,
        values.rate,
        "How many requests a second all controllers together may make; 0: no limit.",
    ]
    client_burst: Annotated[
        int, CLIENT_BURST, values.count, "How many requests may be made at once under that limit."
    ]
    sync_seconds: Annotated[float, 120.0, values.seconds, "How long the first lists may take."]
    stop_seconds: Annotated[
        float, 30.0, values.seconds, "How long runs in progress may take to end at a stop."
    ]
    record: Annotated[
        str,
        "",
        values.path,
        "Record to this file, each replica to its own, what comes in and what is decided; empty: do not.",
    ]
    record_mb: Annotated[
        float,
        100.0,
        values.megabytes,
        "How many megabytes a recording takes at most; the oldest part goes first.",
    ]

    transport: Annotated[
        Transport | None, None, values.as_given, "What leads to the API server; None: as kubectl finds it."
    ]
    clock: Annotated[Clock, SystemClock(), values.as_given, "Wall time, chance and identity."]
    blocking: Annotated[
        Blocking | None,
        None,
        values.as_given,
        "Where blocking calls run; None: in threads, in tests in step.",
    ]
    liveness: Annotated[
        Mapping[str, Check], _NONE, checked, "Checks of /healthz, by name: functions that raise."
    ]
    readiness: Annotated[
        Mapping[str, Check], _NONE, checked, "Checks of /readyz, by name: functions that raise."
    ]
    metrics: Annotated[
        "CollectorRegistry | None",
        None,
        values.as_given,
        "Registry of prometheus-client to collect in; None: one of its own if it serves.",
    ]
    traces: Annotated[
        "TracerProvider | None",
        None,
        values.as_given,
        "OpenTelemetry's tracer provider: each run becomes a span.",
    ]
    limiter: Annotated[
        RequestLimiter | None,
        None,
        values.as_given,
        "One limit for several managers, in place of client_qps.",
    ]
    informers: Annotated[
        Mapping[type[Object], InformerOptions],
        _NONE,
        values.informer_options,
        "What is followed and kept of kinds; `Object`: of all others.",
    ]


OPTIONS: dict[str, OptionSpec] = {
    name: OptionSpec(*hint.__metadata__) for name, hint in ManagerOptions.__annotations__.items()
}
TEXT_OPTIONS: dict[str, OptionSpec] = {name: spec for name, spec in OPTIONS.items() if spec.text}
_LEASE_TIMES = ("lease_seconds", "renew_seconds", "retry_seconds")


def variable_of(name: str) -> str:
    return PREFIX + name.upper()


def flag_of(name: str) -> str:
    return "--" + name.replace("_", "-")


def read_options(given: Mapping[str, Any], source: Callable[[str], str] = str) -> ManagerOptions:
    """The values of those options. Raises ConfigurationError, which names the `source` of the option."""
    read: dict[str, Any] = {}
    for name, value in given.items():
        try:
            read[name] = OPTIONS[name].read(value)
        except ValueError as error:
            raise ConfigurationError(f"{source(name)}: {error}") from None
    return cast(ManagerOptions, read)


def complete_options(given: ManagerOptions) -> ManagerOptions:
    """All options of a constructor's call. Raises TypeError, and ConfigurationError for a value."""
    for name in given:
        if name not in OPTIONS:
            raise TypeError(f"Manager has no option {name!r}: the nearest is {_nearest(name, OPTIONS)!r}")
    defaults = {name: spec.default for name, spec in OPTIONS.items()}
    return cast(ManagerOptions, {**defaults, **read_options(given)})


_SERVICE_LINK = re.compile(r"_SERVICE_(HOST|PORT)(_[A-Z0-9_]+)?$|_PORT(_\d+_(TCP|UDP|SCTP)(_[A-Z]+)?)?$")
"""Variables that Kubernetes sets for each Service, here one whose name begins with `reconcile`."""


def from_environment(environ: Mapping[str, str]) -> ManagerOptions:
    """The options that variables set. Raises ConfigurationError for an unknown `RECONCILE_` variable."""
    names = {variable_of(name): name for name in TEXT_OPTIONS}
    given: dict[str, str] = {}
    for variable, text in environ.items():
        if variable in names:
            given[names[variable]] = text
        elif variable.startswith(PREFIX) and not _SERVICE_LINK.search(variable):
            nearest = variable_of(_nearest(variable.removeprefix(PREFIX).lower(), TEXT_OPTIONS))
            raise ConfigurationError(f"there is no option {variable}: the nearest is {nearest}")
    return read_options(given, variable_of)


def from_flags(flags: Mapping[str, str | None]) -> ManagerOptions:
    """The options that flags set, by option name; None is a flag that was not given."""
    return read_options({name: text for name, text in flags.items() if text is not None}, flag_of)


def _nearest(word: str, words: Iterable[str]) -> str:
    import difflib  # only for an error

    return difflib.get_close_matches(word, words, 1, 0.0)[0]


def overridden(options: ManagerOptions, changes: ManagerOptions) -> ManagerOptions:
    """`options` with `changes`; a changed Lease or ring keeps the rest. Raises ConfigurationError."""
    former, election = options["leader_election"], changes.get("leader_election", options["leader_election"])
    former_ring, ring = options["sharding"], changes.get("sharding", options["sharding"])
    if election is None and ring is None and any(name in changes for name in _LEASE_TIMES):
        raise ConfigurationError(
            "lease_seconds, renew_seconds and retry_seconds need leader_election or sharding"
        )
    if election is not None and former is not None:
        election = evolve(former, name=election.name, namespace=election.namespace)
    if ring is not None and former_ring is not None:
        ring = evolve(former_ring, name=ring.name, namespace=ring.namespace)
    if ring is not None and "canary" in changes:  # also of 0, which makes no canary
        ring = evolve(ring, canary=changes["canary"])
    # A choice of namespaces replaces the other way to choose them, and a rate the limiter.
    replaced: ManagerOptions = {}
    if "namespace" in changes or "namespaces" in changes:
        replaced |= {"namespace": "", "namespaces": ()}
    if "client_qps" in changes:
        replaced["limiter"] = None
    merged: ManagerOptions = {**options, **replaced, **changes, "leader_election": election, "sharding": ring}
    # A shadow never leads: a Lease is a write too.
    alone: ManagerOptions = {"leader_election": None, "sharding": None, "canary": 0.0, "loops": 1}
    return {**merged, **alone} if merged["dry_run"] else merged


def lease_terms(options: ManagerOptions) -> LeaseTerms:
    """The times of an election. Raises ConfigurationError where they leave no margin."""
    try:
        return LeaseTerms(options["lease_seconds"], options["renew_seconds"], options["retry_seconds"])
    except ValueError as error:
        raise ConfigurationError(str(error)) from None


def shown(options: ManagerOptions) -> Mapping[str, Any]:
    """The options for a log line: those that text can set. None of them is a secret."""
    election, ring = options["leader_election"], options["sharding"]
    hidden = _LEASE_TIMES if election is None and ring is None else ()
    return {
        **{name: value for name, value in options.items() if name in TEXT_OPTIONS and name not in hidden},
        "clusters": ",".join(f"{name}={_place(way)}" for name, way in options["clusters"].items()),
        "namespaces": ",".join(options["namespaces"]),
        "leader_election": "" if election is None else f"{election.namespace}/{election.name}",
        "sharding": "" if ring is None else ring.place,
        "undeclared": "refuse" if refuses_undeclared(options) else "warn",
    }


def followed_namespaces(options: ManagerOptions) -> Sequence[str]:
    return options["namespaces"] or ((options["namespace"],) if options["namespace"] else ())


def refuses_undeclared(options: ManagerOptions) -> bool:
    """Whether an undeclared write fails; by default it does where the clock is a test's."""
    if options["undeclared"] is not None:
        return options["undeclared"] == "refuse"
    return not isinstance(options["clock"], SystemClock)


def for_controller(option: "ByController[N]", name: str, own: N | None, default: N) -> N:
    """What holds for the controller `name`, which sets `own` itself, or None."""
    if not isinstance(option, Mapping):
        return option if own is None else own
    return option.get(name, option.get("", default) if own is None else own)


def _place(way: Transport | str) -> str:
    return way if isinstance(way, str) else way.server


def table() -> str:
    head = "| constructor | variable | flag of `reconcile run` | default | |\n|---|---|---|---|---|\n"
    return head + "".join(_row(name, spec) for name, spec in OPTIONS.items())


def _row(name: str, spec: OptionSpec) -> str:
    ways = (f"{name}=", variable_of(name), flag_of(name)) if spec.text else (f"{name}=", "", "")
    cells = [f"`{text}`" if text else "" for text in (*ways, spec.default_text)]
    return f"| {' | '.join([*cells, spec.help])} |\n"
