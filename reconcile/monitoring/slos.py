"""The service levels of an operator: what share of events may be bad, and the rules that watch it.

An error budget is the share of events that may be bad (1 - objective). A burn rate of 1 spends it evenly
over the month. Each alert has a long window, so that it is not about a moment, and shorter ones, so that it
ends soon after its cause. It must hold for longer than the shortest of them (`FAST_FOR`, `SLOW_FOR`), or one
burst of changes would wake the people of an operator that has little else to do (https://sre.google/workbook/alerting-on-slos).
"""

from collections.abc import Sequence
from typing import Any, Final

from attrs import frozen

WINDOWS: Final = ("5m", "30m", "1h", "2h", "6h", "1d", "3d")
"""The windows for which the share of bad events is recorded."""
LONG_WINDOWS: Final = ("1h", "6h", "1d", "3d")
"""Those for which the number of events is recorded too."""

REACTION_SECONDS: Final = 1.0
CONVERGENCE_SECONDS: Final = 300.0
SILENCE_SECONDS: Final = 90.0
"""An informer that heard nothing for so long is stale: a server that sends bookmarks does so every minute."""
ADMISSION_SECONDS: Final = 0.1

LEAST_BAD_EVENTS: Final = 5
"""An operator with little traffic has hours of few events, and one bad one of ten is no trend."""

SILENT: Final = "reconcile:informer_silent:bool"
"""Recorded: 1 while an informer is stale, else 0."""


@frozen
class Slo:
    """A service level. `label` tells its series apart; `bad` and `total` count events within `$window`.

    Both are PromQL that is summed by that label. `objective` is the share of events that must be good.
    """

    name: str
    objective: float
    label: str
    bad: str
    total: str
    description: str

    @property
    def budget(self) -> float:
        """The share of events that may be bad."""
        return round(1 - self.objective, 9)


@frozen
class Burn:
    """A burn rate at which an alert fires: in a long window, and still in shorter ones."""

    rate: float
    long: str
    still: Sequence[str]
    before: str = ""
    """A window that must have burned before the present one of its length did, too: one burst does not."""


FAST: Final = (Burn(14.4, "1h", ["5m"]), Burn(6, "6h", ["30m", "5m"]))
"""2 % of a month's budget within an hour, or 5 % within six: someone has to act now."""
FAST_FOR: Final = "10m"
RARE: Final = Burn(6, "6h", ["30m"], before="30m")
"""As above, where events are so rare that 5 minutes often have none. For events of which a burst is no
better than one: those of a webhook that fails."""
SLOW: Final = (
    Burn(3, "1d", ["2h", "30m"]),
    Burn(1, "3d", ["6h", "30m"]),
    Burn(1, "3d", ["6h"], before="6h"),  # with little traffic half an hour often has no event
)
"""10 % of a month's budget within one or three days: someone has to act this week."""
SLOW_FOR: Final = "45m"


def _above(histogram: str, bound: float) -> str:
    """The observations of a histogram within the window that are above one of its bounds."""
    within = f'increase({histogram}_bucket{{le="{bound}"}}[$window])'
    return f"increase({histogram}_count[$window]) - ignoring(le) {within}"


def _latency(name: str, objective: float, label: str, histogram: str, bound: float, description: str) -> Slo:
    return Slo(
        name,
        objective,
        label,
        _above(histogram, bound),
        f"increase({histogram}_count[$window])",
        description,
    )


SLOS: Final = (
    _latency(
        "reaction",
        0.99,
        "controller",
        "reconcile_reaction_seconds",
        REACTION_SECONDS,
        "99 % of changes lead to a run within 1 s",
    ),
    _latency(
        "convergence",
        0.99,
        "controller",
        "reconcile_convergence_seconds",
        CONVERGENCE_SECONDS,
        "99 % of new generations are observed and ready within 5 minutes",
    ),
    Slo(
        "quiet",
        0.99,
        "controller",
        'increase(reconcile_idle_runs_total{wrote="true"}[$window])',
        "increase(reconcile_idle_runs_total[$window])",
        "99 % of the runs at rest write nothing",
    ),
    Slo(
        "freshness",
        0.999,
        "resource",
        f"sum_over_time({SILENT}[$window])",
        f"count_over_time({SILENT}[$window])",
        "for 99.9 % of the time, informers have heard from the API server within 90 s",
    ),
    Slo(
        "admission",
        0.999,
        "webhook",
        'increase(reconcile_webhook_calls_total{result=~"failed|timeout|busy|bad-request|not-converted"}[$window])',
        "increase(reconcile_webhook_calls_total[$window])",
        "99.9 % of the calls of webhooks are answered without a failure",
    ),
    _latency(
        "admission-latency",
        0.99,
        "webhook",
        "controller_runtime_webhook_latency_seconds",
        ADMISSION_SECONDS,
        "99 % of the calls of webhooks are answered within 100 ms",
    ),
)


def slo(name: str) -> Slo:
    """The service level of that name. Raises KeyError."""
    return {one.name: one for one in SLOS}[name]


def burning(name: str, burns: Sequence[Burn]) -> str:
    """PromQL that holds while a service level burns its budget at one of these rates."""
    return "\nor\n".join(_burning(slo(name), burn) for burn in burns)


def _burning(level: Slo, burn: Burn) -> str:
    series, threshold = f'{{slo="{level.name}"}}', f"{burn.rate * level.budget:g}"
    ratio, events = "reconcile:sli_error:ratio_rate", "reconcile:sli_events:increase"
    burns = [f"{ratio}{window}{series} > {threshold}" for window in (burn.long, *burn.still)]
    if burn.before:
        burns.append(f"{ratio}{burn.before}{series} offset {burn.before} > {threshold}")
    enough = f"{ratio}{burn.long}{series} * {events}{burn.long}{series} >= {LEAST_BAD_EVENTS}"
    return "(" + "\n  and ".join([*burns, enough]) + ")"


def recording_rules() -> list[dict[str, Any]]:
    """The rules that record the share of bad events and the number of events."""
    return [
        {
            "record": SILENT,
            "expr": "max by (namespace, job, resource) (\n"
            "  reconcile_informer_silence_seconds and reconcile_informer_bookmarked == 1\n"
            f") > bool {SILENCE_SECONDS:g}",
        },
        *(rule for level in SLOS for rule in _recorded(level)),
    ]


def _recorded(level: Slo) -> list[dict[str, Any]]:
    labels = {"slo": level.name}
    by = f"sum by (namespace, job, {level.label})"
    ratios = [
        {
            "record": f"reconcile:sli_error:ratio_rate{window}",
            "expr": f"{by} ({_within(level.bad, window)})\n/\n"
            # Without events there is no share: `> 0` leaves no division by nothing.
            f"({by} ({_within(level.total, window)}) > 0)",
            "labels": labels,
        }
        for window in WINDOWS
    ]
    events = [
        {
            "record": f"reconcile:sli_events:increase{window}",
            "expr": f"{by} ({_within(level.total, window)})",
            "labels": labels,
        }
        for window in LONG_WINDOWS
    ]
    return [*ratios, *events]


def _within(expr: str, window: str) -> str:
    return expr.replace("$window", window)
