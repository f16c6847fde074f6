"""Reads and checks the spec of a PodAutoscaler. An invalid field is named, never guessed."""

import datetime
import re
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar
from zoneinfo import ZoneInfo

from attrs import frozen

from reconcile.blocks import (
    AllowedHosts,
    Behaviour,
    CustomMetric,
    ExternalMetric,
    MetricSource,
    PageMetric,
    PodMetric,
    Policy,
    Rates,
    ReplicaBounds,
    ResourceMetric,
    ScaleTarget,
    Schedule,
    Unusable,
    ZeroRules,
    milli_of,
    milliseconds_of,
)

from .models import MetricSourceSpec, PodAutoscaler, ScheduleSpec

PREFIX = "autoscaling.aibrix.ai/"
OBSERVE_SECONDS = 180
PANIC_SECONDS = 60
LONGEST_WINDOW = 3600
DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
MEBI = 1024 * 1024

MOST_SOURCES = 20
MOST_SCHEDULES = 100
NO_HOSTS = AllowedHosts()
HOSTS = "POD_AUTOSCALERS_HOSTS"
"""The environment variable with the hosts of pages that are not pods."""

_HOST = re.compile(r"(?P<host>[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(:(?P<port>[0-9]+))?")

V = TypeVar("V")


def invalid(message: str) -> Unusable:
    return Unusable("InvalidSpec", message)


def policy_of(autoscaler: PodAutoscaler, hosts: AllowedHosts = NO_HOSTS) -> Policy:
    """The policy for KPA and APA. Pages other than pods' are read only from `hosts`. Raises Unusable."""
    sources = enumerate(_sources(autoscaler))
    return Policy(
        target=target_of(autoscaler),
        sources=tuple(_source(autoscaler, number, one, hosts) for number, one in sources),
        how=behaviour_of(autoscaler),
    )


def target_of(autoscaler: PodAutoscaler) -> ScaleTarget:
    """Raises Unusable for an invalid or unsupported target."""
    ref, role = autoscaler.spec.scale_target_ref, autoscaler.spec.sub_target_selector
    if not (ref.kind and ref.name):
        raise invalid("spec.scaleTargetRef requires kind and name")
    if ref.namespace and ref.namespace != autoscaler.namespace:
        raise invalid(
            "spec.scaleTargetRef.namespace is another namespace: the target must be in the autoscaler's own"
        )
    if role is not None and role.role_name:
        raise Unusable("NotSupported", "spec.subTargetSelector: a role within a target has no /scale")
    return ScaleTarget(ref.api_version or "v1", ref.kind, ref.name)


def behaviour_of(autoscaler: PodAutoscaler) -> Behaviour:
    """Raises Unusable for an invalid field or annotation."""
    said, spec = _Annotations(autoscaler), autoscaler.spec
    observe = _window("observeWindowSeconds", spec.observe_window_seconds, OBSERVE_SECONDS)
    panic = _window("panicWindowSeconds", spec.panic_window_seconds, min(PANIC_SECONDS, observe))
    if panic > observe:
        raise invalid("spec.panicWindowSeconds is more than spec.observeWindowSeconds")
    stable = observe * 1000
    if spec.scaling_strategy == "APA":
        stable = said.read(("apa.autoscaling.aibrix.ai/window",), stable, milliseconds_of, least=1)
    to_zero = said.read((f"{PREFIX}scale-to-zero",), False, _truth)
    bounds = _bounds(autoscaler, to_zero)
    return Behaviour(
        rule="ratio" if spec.scaling_strategy == "APA" else "demand",
        bounds=bounds,
        schedules=tuple(_schedule(one, bounds) for one in _few(spec.schedules or ())),
        stable_window=stable,
        panic_window=min(stable, panic * 1000),
        panic_threshold=said.number("panic-threshold", 2000, least=1000),
        rates=Rates(
            up=said.number("max-scale-up-rate", 2000, least=1001),
            down=said.number("max-scale-down-rate", 2000, least=1001),
            tolerance_up=said.number("scale-up-tolerance", 100, older=("up-fluctuation-tolerance",)),
            tolerance_down=said.number("scale-down-tolerance", 100, older=("down-fluctuation-tolerance",)),
        ),
        up_window=said.read((f"{PREFIX}scale-up-cooldown-window",), 0, milliseconds_of),
        down_window=said.read((f"{PREFIX}scale-down-cooldown-window",), 300_000, milliseconds_of),
        zero=ZeroRules(allowed=to_zero, idle=stable),
    )


def _bounds(autoscaler: PodAutoscaler, to_zero: bool) -> ReplicaBounds:
    spec = autoscaler.spec
    least = (0 if to_zero else 1) if spec.min_replicas is None else spec.min_replicas
    _check_bounds("spec", least, spec.max_replicas)
    return ReplicaBounds(minimum=least, maximum=spec.max_replicas)


def _check_bounds(where: str, least: int, most: int) -> None:
    if least < 0:
        raise invalid(f"{where}.minReplicas is below 0")
    if most < 1:
        raise invalid(f"{where}.maxReplicas is below 1")
    if least > most:
        raise invalid(f"{where}.minReplicas is more than maxReplicas")


def _window(name: str, seconds: int | None, otherwise: int) -> int:
    if seconds is None:
        return otherwise
    if not 0 < seconds <= LONGEST_WINDOW:
        raise invalid(f"spec.{name} is not within 1 and {LONGEST_WINDOW}")
    return seconds


# --- schedules ------------------------------------------------------------------------------------------


def _few(schedules: Sequence[ScheduleSpec]) -> Sequence[ScheduleSpec]:
    if len(schedules) > MOST_SCHEDULES:
        why = f"spec.schedules has {len(schedules)} items, and the maximum is {MOST_SCHEDULES}"
        raise Unusable("TooManySchedules", why)
    return schedules


def _schedule(one: ScheduleSpec, bounds: ReplicaBounds) -> Schedule:
    where = f"spec.schedules[{one.name}]"
    try:
        zone = datetime.UTC if one.timezone in (None, "", "UTC") else ZoneInfo(one.timezone)
    except (KeyError, ValueError, OSError):
        raise invalid(f"{where}.timezone is not a time zone that this machine knows") from None
    found = Schedule(
        name=one.name,
        start=_time(f"{where}.startTime", one.start_time),
        end=_time(f"{where}.endTime", one.end_time),
        zone=zone,
        days=frozenset(_days(where, one.days_of_week or DAYS)),
        minimum=one.min_replicas,
        maximum=one.max_replicas,
    )
    if found.start == found.end:
        raise invalid(f"{where}: startTime and endTime are the same")
    least = bounds.minimum if one.min_replicas is None else one.min_replicas
    most = bounds.maximum if one.max_replicas is None else one.max_replicas
    _check_bounds(where, least, most)
    return found


def _time(where: str, text: str) -> datetime.time:
    try:
        return datetime.datetime.strptime(text, "%H:%M").time()  # noqa: DTZ007 - a time of day
    except ValueError:
        raise invalid(f"{where}: expected a time of day such as 08:30") from None


def _days(where: str, names: Iterable[str]) -> Iterable[int]:
    for name in names:
        found = [day for day, full in enumerate(DAYS) if name.lower() in (full, full[:3])]
        if not found:
            raise invalid(f"{where}.daysOfWeek: {name!r} is not a day of the week")
        yield found[0]


# --- metrics --------------------------------------------------------------------------------------------


def _sources(autoscaler: PodAutoscaler) -> tuple[MetricSourceSpec, ...]:
    sources = autoscaler.spec.metrics_sources
    if not sources:
        raise invalid("spec.metricsSources is empty: expected a metric")
    if len(sources) > MOST_SOURCES:
        raise Unusable(
            "TooManySources",
            f"spec.metricsSources has {len(sources)} items, and the maximum is {MOST_SOURCES}",
        )
    return sources


def target_value(where: str, text: str) -> int:
    """A `targetValue` in thousandths. Raises Unusable."""
    try:
        value = milli_of(text)
    except ValueError:
        raise invalid(f"{where}.targetValue is not a number") from None
    if value <= 0:
        raise invalid(f"{where}.targetValue is not above 0")
    return value


def metric_name(where: str, name: str) -> str:
    """The name, if it can be one segment of a path in the cluster's metrics APIs. Raises Unusable."""
    if name in (".", "..") or "/" in name or "%" in name:
        raise invalid(f"{where}.targetMetric is not a name of a metric: it must not contain / or %")
    return name


def _source(
    autoscaler: PodAutoscaler, number: int, one: MetricSourceSpec, hosts: AllowedHosts
) -> MetricSource:
    where = f"spec.metricsSources[{number}]"
    if not one.target_metric:
        raise invalid(f"{where}.targetMetric is empty")
    target = target_value(where, one.target_value)
    match one.metric_source_type:
        case "pod":
            return PodMetric(
                metric=one.target_metric,
                target=target,
                port=_port(where, one.port),
                path=one.path or "/metrics",
                scheme=one.protocol_type or "http",
                sampled=autoscaler.spec.scaling_strategy == "KPA",
            )
        case "resource":
            return _resource(where, one, target)
        case "custom":
            return CustomMetric(metric=metric_name(where, one.target_metric), target=target)
        case "external" if not one.endpoint:
            return ExternalMetric(metric=metric_name(where, one.target_metric), target=target)
        case "external" | "domain":
            return PageMetric(metric=one.target_metric, target=target, url=_url(where, one, hosts))


def _resource(where: str, one: MetricSourceSpec, target: int) -> ResourceMetric:
    plain = is_plain(one.target_value)
    if one.target_metric == "cpu":
        return ResourceMetric(resource="cpu", target=target, of_requests=plain)
    if one.target_metric == "memory":
        return ResourceMetric(resource="memory", target=target * MEBI if plain else target)
    raise invalid(f"{where}.targetMetric is neither cpu nor memory")


def is_plain(text: str) -> bool:
    """Whether a `targetValue` is a bare number: percent of the requests for cpu, mebibytes for memory."""
    return not text[-1].isalpha()


def _port(where: str, text: str | None) -> int:
    try:
        port = int(text or 0)
    except ValueError:
        port = 0
    if not 0 < port < 65536:
        raise invalid(f"{where}.port: expected a port from 1 to 65535")
    return port


def _url(where: str, one: MetricSourceSpec, hosts: AllowedHosts) -> str:
    endpoint = one.endpoint or ""
    address, _, rest = endpoint.partition("/")
    # The text that is compared with the allowed hosts must be the one that is connected to, so it must not be
    # in any form that a library would normalise.
    found = _HOST.fullmatch(address)
    if found is None:
        raise invalid(f"{where}.endpoint has no valid host")
    host, written = found["host"], found["port"] or ""
    if one.port and written:
        raise invalid(f"{where} has two ports: in endpoint and in port")
    port = _port(where, one.port or written) if one.port or written else None
    scheme = one.protocol_type or "http"
    if not hosts.allows(host, port or (443 if scheme == "https" else 80)):
        raise Unusable(
            "HostNotAllowed",
            f"{where}.endpoint is not a host that the operator allows: have it added to {HOSTS}",
        )
    path = (one.path or rest or "metrics").lstrip("/")
    return f"{scheme}://{host}{'' if port is None else f':{port}'}/{path}"


# --- annotations ----------------------------------------------------------------------------------------


@frozen
class _Annotations:
    autoscaler: PodAutoscaler

    def number(self, name: str, otherwise: int, *, older: Iterable[str] = (), least: int = 0) -> int:
        names = (f"{PREFIX}{one}" for one in (name, *older))
        return self.read(names, otherwise, milli_of, least=least)

    def read(
        self, names: Iterable[str], otherwise: V, parse: Callable[[str], V], *, least: int | None = None
    ) -> V:
        """The value of the first annotation that exists. Raises Unusable, which names it."""
        for name in names:
            text = self.autoscaler.metadata.annotations.get(name)
            if text is None:
                continue
            try:
                value = parse(text)
            except ValueError:
                raise invalid(f"annotation {name} is not {_WORDS.get(parse, 'a number')}") from None
            if least is not None and isinstance(value, int) and value < least:
                raise invalid(f"annotation {name} is too small")
            return value
        return otherwise


def _truth(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError
    return text.lower() == "true"


_WORDS: dict[Callable[[str], object], str] = {_truth: "true or false", milliseconds_of: "a duration"}
