"""The dashboard that is looked at first: is the operator well, and if not, which controller is it?"""

from collections.abc import Sequence
from typing import Final

from reconcile.monitoring.panels import BAD, CAREFUL, GOOD, Dashboard, Panel, Query, Row
from reconcile.monitoring.slos import SLOS, Slo

_RATE: Final = "[$__rate_interval]"


def overview(*, sharded: bool, webhooks: bool) -> Dashboard:
    """`sharded`: all pods work, so there is no leader; `webhooks`: it answers calls of API servers."""
    return Dashboard(
        slug="overview",
        title="Overview",
        about="Whether the operator does its work, how fast, and which controller needs a look.",
        rows=[_now(sharded), _CONTROLLERS, _levels(webhooks), _USERS, _RUNS, _QUEUE, _TROUBLE],
    )


def _now(sharded: bool) -> Row:
    return Row(
        "Now",
        [
            Panel(
                "Alerts firing",
                "Alerts of this operator that fire. Each has a runbook of its name.",
                [Query('count(ALERTS{alertname=~"Reconcile.+",alertstate="firing",@pods}) or vector(0)')],
                kind="stat",
                width=3,
                height=4,
                steps=[(1, BAD)],
            ),
            Panel(
                "Pods answering",
                "Pods whose metrics Prometheus gets. If it is none, nothing else here is known.",
                [Query("sum(up{@pods}) or vector(0)")],
                kind="stat",
                width=3,
                height=4,
                words=[(0, "none", BAD)],
            ),
            _SHARDS_HELD if sharded else _LEADER,
            Panel(
                "API server",
                "Whether all pods reach their API servers. In an outage keys wait and nothing is lost.",
                [Query("min(reconcile_api_server_reachable{@pods})")],
                kind="stat",
                width=3,
                height=4,
                words=[(0, "unreachable", BAD), (1, "reachable", GOOD)],
            ),
            Panel(
                "Failing runs",
                "Share of the runs of the last 5 minutes that failed. A conflict is not a failure.",
                [
                    Query(
                        "sum(rate(controller_runtime_reconcile_errors_total{@controllers}[5m]))"
                        " / (sum(rate(controller_runtime_reconcile_total{@controllers}[5m])) > 0)"
                        " or vector(0)"
                    )
                ],
                kind="stat",
                unit="percentunit",
                width=3,
                height=4,
                steps=[(0.01, CAREFUL), (0.1, BAD)],
            ),
            Panel(
                "Oldest change not done",
                "Age of the oldest change of an object that the operator has not brought to Ready yet.",
                [Query("max(reconcile_unconverged_oldest_seconds{@controllers})")],
                kind="stat",
                unit="s",
                width=3,
                height=4,
                steps=[(300, CAREFUL), (1800, BAD)],
            ),
            Panel(
                "Keys that fail",
                "Objects whose last run failed: they wait for their next try, or for a change.",
                [Query("sum(reconcile_failing_keys{@controllers})")],
                kind="stat",
                width=3,
                height=4,
                steps=[(1, CAREFUL), (100, BAD)],
            ),
            Panel(
                "Paused",
                "Controllers and keys that someone has paused. They do not run until they are resumed.",
                [
                    Query("sum(reconcile_paused{@controllers})", "controllers"),
                    Query("sum(reconcile_paused_keys{@controllers})", "keys"),
                ],
                kind="stat",
                width=3,
                height=4,
                steps=[(1, CAREFUL)],
            ),
        ],
    )


_LEADER: Final = Panel(
    "Leader",
    "How many pods lead. Without a leader nothing runs; two are only seen for a moment, between scrapes.",
    [Query("sum(leader_election_master_status{@pods})")],
    kind="stat",
    width=3,
    height=4,
    words=[(0, "no leader", BAD), (1, "one leader", GOOD)],
    steps=[(2, CAREFUL)],
)
_SHARDS_HELD: Final = Panel(
    "Members of the ring",
    "Pods that share the objects. The dashboard Shards shows who has how many.",
    [Query("max(reconcile_shard_members{@pods})")],
    kind="stat",
    width=3,
    height=4,
    words=[(0, "none", BAD)],
)


def _levels(webhooks: bool) -> Row:
    """Whether the service levels are kept, from what the rules of the alerts record."""
    levels = [level for level in SLOS if webhooks or level.label != "webhook"]
    width = 24 // len(levels)
    return Row(
        "Service levels",
        [*(_kept(level, width) for level in levels), _burn("1h", levels), _burn("3d", levels)],
    )


def _kept(level: Slo, width: int) -> Panel:
    return Panel(
        f"{level.name.capitalize().replace('-', ' ')}, last day",
        f"Objective: {level.description}. Shown is the worst {level.label}; 100 % if nothing happened.",
        [Query(f"1 - {_bad(level, '1d')} or 1 + {_none(level, '1d')}")],
        kind="stat",
        unit="percentunit",
        width=width,
        height=4,
        steps=[(round(1 - 10 * level.budget, 9), CAREFUL), (level.objective, GOOD)],
        lowest=BAD,
    )


def _bad(level: Slo, window: str) -> str:
    """The share of bad events, as the rules have recorded it; nothing if there was no event."""
    return f'max(reconcile:sli_error:ratio_rate{window}{{slo="{level.name}",@pods}})'


def _none(level: Slo, window: str) -> str:
    """0, for a level without any event: no panel is empty because nothing happened."""
    return f'0 * max(reconcile:sli_events:increase{window}{{slo="{level.name}",@pods}})'


def _burn(window: str, levels: Sequence[Slo]) -> Panel:
    return Panel(
        f"Burn rate of the error budgets, over {window}",
        "1 spends the budget of a month within a month. Alerts page at 14.4 over 1h and at 6 over 6h, and"
        " make a ticket at 3 over 1d and at 1 over 3d.",
        [
            Query(f"{_bad(level, window)} / {level.budget:g} or {_none(level, window)}", level.name)
            for level in levels
        ],
        width=12,
        steps=[(14.4 if window == "1h" else 1, BAD)],
    )


_CONTROLLERS: Final = Row(
    "Controllers",
    [
        Panel(
            "Controllers",
            "One line each. Look for colours: failures, keys that wait, runs that take long, storms.",
            [
                Query(
                    "sum by (controller) (rate(controller_runtime_reconcile_total{@controllers}[5m])) * 60",
                    "Runs a minute",
                ),
                Query(
                    "sum by (controller)"
                    " (rate(controller_runtime_reconcile_errors_total{@controllers}[5m])) * 60",
                    "Failures a minute",
                    steps=[(0.2, CAREFUL), (6, BAD)],
                ),
                Query("sum by (controller) (workqueue_depth{@controllers})", "Ready", steps=[(100, CAREFUL)]),
                Query(
                    "sum by (controller) (reconcile_failing_keys{@controllers})",
                    "Keys that fail",
                    steps=[(1, CAREFUL), (100, BAD)],
                ),
                Query(
                    "max by (controller) (reconcile_failing_oldest_seconds{@controllers})",
                    "Failing for",
                    unit="s",
                    steps=[(300, CAREFUL), (1800, BAD)],
                ),
                Query(
                    "sum by (controller) (reconcile_unconverged_objects{@controllers})",
                    "Changes not done",
                ),
                Query(
                    "max by (controller) (reconcile_unconverged_oldest_seconds{@controllers})",
                    "Oldest change not done",
                    unit="s",
                    steps=[(300, CAREFUL), (1800, BAD)],
                ),
                Query(
                    "max by (controller) (workqueue_longest_running_processor_seconds{@controllers})",
                    "Longest run now",
                    unit="s",
                    steps=[(60, CAREFUL), (300, BAD)],
                ),
                Query(
                    "sum by (controller) (controller_runtime_active_workers{@controllers})"
                    " / sum by (controller) (controller_runtime_max_concurrent_reconciles{@controllers})",
                    "Workers in use",
                    unit="percentunit",
                    steps=[(0.9, CAREFUL)],
                ),
                Query(
                    "sum by (controller) (reconcile_storms_active{@controllers})",
                    "Storms",
                    steps=[(1, BAD)],
                ),
            ],
            kind="table",
            width=24,
            height=6,
            by=["controller"],
        )
    ],
)


def _quantiles(metric: str, *, by: str = "") -> list[Query]:
    """The half, the slowest tenth and the slowest hundredth of a histogram; with `by` that one alone."""
    if by:
        series = f"sum by (le, {by}) (rate({metric}_bucket{{@controllers}}{_RATE}))"
        return [Query(f"histogram_quantile(0.99, {series})", f"{{{{{by}}}}}")]
    series = f"sum by (le) (rate({metric}_bucket{{@controllers}}{_RATE}))"
    return [Query(f"histogram_quantile({share}, {series})", name) for share, name in _SHARES]


_SHARES: Final = ((0.5, "half within"), (0.9, "90 % within"), (0.99, "99 % within"))
_USERS: Final = Row(
    "What users notice",
    [
        Panel(
            "Reaction: from a change to its run",
            "Time from when the operator saw a change until the run that it led to began.",
            _quantiles("reconcile_reaction_seconds"),
            unit="s",
            width=8,
        ),
        Panel(
            "Convergence: from a change to Ready",
            "Time from when a new generation of an object was seen until its status said that it is done.",
            _quantiles("reconcile_convergence_seconds"),
            unit="s",
            width=8,
        ),
        Panel(
            "Oldest change not done",
            "Age of the oldest generation that its controller has not brought to Ready. A straight line"
            " upwards is an object that is stuck.",
            [
                Query(
                    "max by (controller) (reconcile_unconverged_oldest_seconds{@controllers})",
                    "{{controller}}",
                )
            ],
            unit="s",
            width=8,
        ),
    ],
)
_RUNS: Final = Row(
    "Runs",
    [
        Panel(
            "Runs by result",
            "requeue: it runs again at once, as after a conflict; requeue_after: later, as it asked.",
            [
                Query(
                    f"sum by (result) (rate(controller_runtime_reconcile_total{{@controllers}}{_RATE}))",
                    "{{result}}",
                )
            ],
            unit="ops",
            stacked=True,
        ),
        Panel(
            "Failures by controller",
            "Runs that raised, terminal ones, panics and timeouts included.",
            [
                Query(
                    "sum by (controller)"
                    f" (rate(controller_runtime_reconcile_errors_total{{@controllers}}{_RATE}))",
                    "{{controller}}",
                )
            ],
            unit="ops",
            stacked=True,
        ),
        Panel(
            "Failures that a retry does not mend",
            "Terminal errors wait for a change of the object; panics are errors in the code of the operator;"
            " timeouts are runs that took longer than the controller allows.",
            [
                Query(f"sum(rate(controller_runtime_{metric}_total{{@controllers}}{_RATE}))", name)
                for metric, name in (
                    ("terminal_reconcile_errors", "terminal"),
                    ("reconcile_panics", "panics"),
                    ("reconcile_timeouts", "timeouts"),
                )
            ],
            unit="ops",
        ),
        Panel(
            "Duration of runs, slowest hundredth",
            "99 of 100 runs take less.",
            _quantiles("controller_runtime_reconcile_time_seconds", by="controller"),
            unit="s",
        ),
        Panel(
            "Longest run at work",
            "Age of the oldest run in progress. A straight line upwards is a run that hangs.",
            [
                Query(
                    "max by (controller) (workqueue_longest_running_processor_seconds{@controllers})",
                    "{{controller}}",
                )
            ],
            unit="s",
        ),
        Panel(
            "Workers in use",
            "At 100 % keys wait for a worker although they are ready.",
            [
                Query(
                    "sum by (controller) (controller_runtime_active_workers{@controllers})"
                    " / sum by (controller) (controller_runtime_max_concurrent_reconciles{@controllers})",
                    "{{controller}}",
                )
            ],
            unit="percentunit",
            most=1,
            steps=[(0.9, CAREFUL)],
        ),
    ],
)
_QUEUE: Final = Row(
    "Queue",
    [
        Panel(
            "Keys that are ready",
            "They wait for a worker. A few for a moment are normal; a growing number is not.",
            [Query("sum by (controller) (workqueue_depth{@controllers})", "{{controller}}")],
        ),
        Panel(
            "Wait for a worker, slowest hundredth",
            "Time from when a key was ready until a worker took it.",
            _quantiles("workqueue_queue_duration_seconds", by="controller"),
            unit="s",
        ),
        Panel(
            "Keys that fail, and retries",
            "Keys whose last run failed, and how often such keys are put back.",
            [
                Query("sum(reconcile_failing_keys{@controllers})", "keys that fail"),
                Query(f"sum(rate(workqueue_retries_total{{@controllers}}{_RATE})) * 60", "retries a minute"),
            ],
        ),
    ],
)
_TROUBLE: Final = Row(
    "Quiet",
    [
        Panel(
            "Storms",
            "Keys that wake themselves by what they write, and are slowed for that.",
            [Query("sum by (controller) (reconcile_storms_active{@controllers})", "{{controller}}")],
        ),
        Panel(
            "Runs at rest that wrote",
            "Share of an hour's runs of objects that had not changed which wrote something all the same."
            " Such a controller fights with something, or intends something else each time.",
            [
                Query(
                    "sum by (controller)"
                    ' (increase(reconcile_idle_runs_total{wrote="true",@controllers}[1h]))'
                    " / (sum by (controller) (increase(reconcile_idle_runs_total{@controllers}[1h])) > 0)"
                    " or 0 * sum by (controller) (reconcile_idle_runs_total{@controllers})",
                    "{{controller}}",
                )
            ],
            unit="percentunit",
        ),
        Panel(
            "Own writes not in the cache yet",
            "Time that reads waited for what the same controller had written, slowest hundredth.",
            _quantiles("reconcile_own_write_wait_seconds", by="controller"),
            unit="s",
        ),
    ],
)
