"""The alerts of an operator: what must be told, to whom, and after how long.

A page wakes a person; a ticket is read on the next working day. What follows from another alert is kept
silent by `unless`: an outage of the API server is one page, not ten. Each alert is fired by a planned fault
in tests/monitoring, and has a page under docs/runbooks.
"""

import re
from typing import Final, Literal, TypeAlias

from attrs import frozen

from reconcile.monitoring.slos import FAST, FAST_FOR, RARE, SLOW, SLOW_FOR, burning

Severity: TypeAlias = Literal["page", "ticket"]

CONVERGENCE_MOST_SECONDS: Final = 900
STUCK_SECONDS: Final = 3600
FAILING_SECONDS: Final = 1800
SILENT_SECONDS: Final = 180
"""The informer opens its watch anew after 130 s at the latest: this silence has outlived that."""
LONG_RUN_SECONDS: Final = 900
"""Three times the default limit of a run: it does not end when it is cancelled."""
CERTIFICATE_DAYS: Final = 7


@frozen
class Alert:
    """An alert: PromQL that holds while something is wrong, and for how long it must hold.

    `summary` and `description` are templates of Prometheus. `slug` names the page of its runbook.
    """

    name: str
    expr: str
    for_: str
    severity: Severity
    summary: str
    description: str

    @property
    def slug(self) -> str:
        return re.sub("(?<=[a-z])(?=[A-Z])", "-", self.name.removeprefix("Reconcile")).lower()


_CONTROLLER = "by (namespace, job, controller)"
_RESOURCE = "by (namespace, job, resource)"
_JOB = "by (namespace, job)"
_INSTANCE = "by (namespace, job, instance)"

_OUTAGE = f"unless on (namespace, job) (max {_JOB} (reconcile_api_server_reachable) == 0)"
"""While no replica reaches any API server much else follows, and is over with it. A replica that is cut off
by itself, or one of several clusters that is away, silences only what is about it: `_reached`."""
_PAUSED = f"unless max {_CONTROLLER} (reconcile_paused) == 1"
_SILENCE = "(reconcile_informer_silence_seconds and reconcile_informer_bookmarked == 1)"
_FAILED = "increase(controller_runtime_reconcile_errors_total[5m])"
_BROKEN = (
    '(increase(rest_client_requests_total{code=~"5..|<error>"}[5m])\n'
    f"  unless on (namespace, job, instance) (min {_INSTANCE} (reconcile_api_server_reachable) == 0))"
)
_LATE_LOOP = "(rate(reconcile_event_loop_lag_seconds_sum[5m])) > 0.1"
_BLOCKED = f"unless on (namespace, job) (max {_JOB} {_LATE_LOOP})"
"""A blocked event loop makes everything late; one page is enough."""
_SILENT = f"unless on (namespace, job) (max {_JOB} {_SILENCE} > {SILENT_SECONDS})"


def _reached(series: str, label: str) -> str:
    """The series but those about a cluster that their replica does not reach.

    `label` has the name of a controller or resource, which begins with its cluster's if there are several.
    """
    return (
        f'(label_replace({series}, "cluster", "$1", "{label}", "(.+)/.+")\n'
        "  unless on (namespace, job, instance, cluster) reconcile_api_server_reachable == 0)"
    )


def _unreached(expr: str, label: str) -> str:
    """What has been summed over replicas, but what is about a cluster that none of them reaches."""
    return (
        f'label_replace({expr}, "cluster", "$1", "{label}", "(.+)/.+")\n'
        "unless on (namespace, job, cluster)"
        " (max by (namespace, job, cluster) (reconcile_api_server_reachable) == 0)"
    )


def _rose(metric: str, by: str = _CONTROLLER) -> str:
    """PromQL that holds for 15 minutes after a count. `increase` has none of what was counted before the
    first scrape, such as by the first run of each object: a series that is young counts from 0."""
    young = f"({metric} unless {metric} offset 15m)"
    return f"sum {by} ({young} or increase({metric}[15m])) > 0"


_PRESENCE = (
    Alert(
        "ReconcileAbsent",
        "absent(reconcile_event_loop_lag_seconds_count)",
        "10m",
        "page",
        "No manager is scraped",
        "No manager has answered a scrape for 10 minutes: none runs, or Prometheus cannot reach it.",
    ),
    Alert(
        "ReconcileNoLeader",
        f"max by (namespace, job, name) (leader_election_master_status) == 0\n{_OUTAGE}",
        "5m",
        "page",
        "No replica leads by the Lease {{ $labels.name }}",
        "Replicas run, and none has held the Lease for 5 minutes: nothing is reconciled.",
    ),
    Alert(
        "ReconcileSeveralLeaders",
        "sum by (namespace, job, name) (leader_election_master_status) > 1",
        "2m",
        "page",
        "{{ $value }} replicas say that they lead by the Lease {{ $labels.name }}",
        "Several processes take themselves for the leader, and may undo each other's writes.",
    ),
    Alert(
        "ReconcileShardsUnowned",
        f'sum {_JOB} (reconcile_shard_buckets{{state="held"}})\n'
        f"< max {_JOB} (reconcile_shard_ring_buckets)\n{_OUTAGE}",
        "5m",
        "page",
        "Only {{ $value }} buckets of the ring have a holder",
        "The objects in the other buckets have not been reconciled for 5 minutes.",
    ),
)

_API_SERVER = (
    Alert(
        "ReconcileApiServerUnreachable",
        "min by (namespace, job, cluster) (reconcile_api_server_reachable) == 0",
        "2m",
        "page",
        "The API server{{ with $labels.cluster }} of {{ . }}{{ end }} cannot be reached",
        "The manager has had no answer for 2 minutes. It waits, and goes on by itself afterwards.",
    ),
    Alert(
        "ReconcileRequestErrors",
        f"sum {_JOB} {_BROKEN} >= 5\n"
        f"and sum {_JOB} {_BROKEN}\n"
        f"  / sum {_JOB} (increase(rest_client_requests_total[5m])) > 0.05",
        "10m",
        "ticket",
        "Requests to the API server fail",
        "More than 5 % of the requests have been answered with 5xx, or not at all, for 10 minutes.",
    ),
    Alert(
        "ReconcileConflicts",
        f'sum {_JOB} (increase(rest_client_requests_total{{code="409"}}[5m])) >= 10\n'
        f'and sum {_JOB} (increase(rest_client_requests_total{{code="409"}}[5m]))\n'
        f"  / sum {_JOB} (increase(rest_client_requests_total[5m])) > 0.1",
        "10m",
        "ticket",
        "The API server refuses many writes with 409",
        "More than 10 % of requests have met a conflict for 10 minutes: others write the same objects.",
    ),
    Alert(
        "ReconcileThrottled",
        f'sum {_JOB} (increase(rest_client_requests_total{{code="429"}}[5m])) >= 5',
        "10m",
        "ticket",
        "The API server throttles this operator",
        "The API server has answered requests with 429 for 10 minutes: its priority level is full.",
    ),
    Alert(
        "ReconcileForbidden",
        f'sum {_JOB} (increase(rest_client_requests_total{{code=~"401|403"}}[5m])) >= 2',
        "10m",
        "ticket",
        "The API server refuses requests for lack of rights",
        "Requests have been answered with 401 or 403 for 10 minutes: a role or the token is wrong.",
    ),
    Alert(
        "ReconcileSlowRequests",
        f"histogram_quantile(0.9, sum by (namespace, job, le) "
        f"(rate(rest_client_request_duration_seconds_bucket[5m]))) > 2\n"
        f"and sum {_JOB} (increase(rest_client_request_duration_seconds_count[5m])) >= 10",
        "10m",
        "ticket",
        "Requests to the API server are slow",
        "One of ten requests has taken longer than {{ $value | humanizeDuration }}.",
    ),
)

_CACHE = (
    Alert(
        "ReconcileInformerSilent",
        f"max {_RESOURCE} {_reached(_SILENCE, 'resource')} > {SILENT_SECONDS}\n{_BLOCKED}",
        "2m",
        "page",
        "The informer of {{ $labels.resource }} hears nothing",
        "No change and no bookmark for {{ $value | humanizeDuration }}: runs may decide on an old state.",
    ),
    Alert(
        "ReconcileInformerFailing",
        f"sum {_RESOURCE} {_reached('increase(reconcile_informer_failures_total[5m])', 'resource')} >= 3",
        "10m",
        "ticket",
        "The informer of {{ $labels.resource }} fails again and again",
        "{{ $value | humanize }} of its requests and streams have broken within 5 minutes.",
    ),
    Alert(
        "ReconcileInformerNotSynced",
        f"min {_RESOURCE} {_reached('reconcile_informer_synced', 'resource')} == 0",
        "10m",
        "page",
        "The informer of {{ $labels.resource }} has not read its first list",
        "The controllers that need it have not begun to work for 10 minutes.",
    ),
    Alert(
        "ReconcileObjectsSkipped",
        _rose("reconcile_informer_skipped_total", by=_RESOURCE),
        "0m",
        "ticket",
        "Objects of {{ $labels.resource }} cannot be read",
        "States of objects have come that could not be read; they are missing in the cache.",
    ),
    Alert(
        "ReconcileFreshnessBudget",
        _unreached(f"({burning('freshness', SLOW)})", "resource"),
        SLOW_FOR,
        "ticket",
        "The cache of {{ $labels.resource }} is stale too often",
        "It was without news for longer than 90 s for {{ $value | humanizePercentage }} of the time.",
    ),
    Alert(
        "ReconcileOwnWritesLate",
        _rose("reconcile_own_write_timeouts_total"),
        "0m",
        "ticket",
        "The cache of {{ $labels.controller }} does not show its own writes",
        "Reads have waited in vain for the cache to show what the controller has written itself.",
    ),
)

_SERVICE = (
    Alert(
        "ReconcileSlowReaction",
        f"({burning('reaction', FAST)})\n{_BLOCKED}",
        FAST_FOR,
        "page",
        "{{ $labels.controller }} reacts late to changes",
        "{{ $value | humanizePercentage }} of the changes have waited for longer than 1 s for their run.",
    ),
    Alert(
        "ReconcileReactionBudget",
        burning("reaction", SLOW),
        SLOW_FOR,
        "ticket",
        "{{ $labels.controller }} reacts late to too many changes",
        "{{ $value | humanizePercentage }} of the changes waited longer than 1 s: "
        "the month's budget is being used up.",
    ),
    Alert(
        "ReconcileSlowConvergence",
        burning("convergence", FAST),
        FAST_FOR,
        "page",
        "Objects of {{ $labels.controller }} become ready late",
        "{{ $value | humanizePercentage }} of the new generations have needed longer than 5 minutes.",
    ),
    Alert(
        "ReconcileConvergenceBudget",
        burning("convergence", SLOW),
        SLOW_FOR,
        "ticket",
        "Too many objects of {{ $labels.controller }} become ready late",
        "{{ $value | humanizePercentage }} of the new generations needed longer than 5 minutes: "
        "the month's budget is being used up.",
    ),
    Alert(
        "ReconcileNothingConverges",
        f"max {_CONTROLLER} {_reached('reconcile_unconverged_oldest_seconds', 'controller')}"
        f" > {CONVERGENCE_MOST_SECONDS}\n"
        f"and sum {_CONTROLLER} (reconcile_unconverged_objects)\n"
        # Objects that cannot become ready are no news, and nights are quiet: only new ones count.
        f"  - (sum {_CONTROLLER} (reconcile_unconverged_objects offset 2h)\n"
        f"    or 0 * sum {_CONTROLLER} (reconcile_unconverged_objects)) >= 3\n"
        f"and sum {_CONTROLLER} (increase(reconcile_convergence_seconds_count[15m])) == 0\n"
        f"{_PAUSED}\n{_SILENT}",
        "2m",
        "page",
        "No object of {{ $labels.controller }} becomes ready",
        "At least three more objects wait than two hours ago, one for {{ $value | humanizeDuration }}, "
        "and none has become ready for 15 minutes.",
    ),
    Alert(
        "ReconcileStuck",
        f"max {_CONTROLLER} {_reached('reconcile_unconverged_oldest_seconds', 'controller')}"
        f" > {STUCK_SECONDS}\n"
        f"unless max {_CONTROLLER} (reconcile_failing_oldest_seconds) > {FAILING_SECONDS}\n{_PAUSED}",
        "5m",
        "ticket",
        "An object of {{ $labels.controller }} does not become ready",
        "Its generation has not been ready for {{ $value | humanizeDuration }}, though its runs succeed.",
    ),
    Alert(
        "ReconcileNotQuiet",
        burning("quiet", SLOW),
        SLOW_FOR,
        "ticket",
        "{{ $labels.controller }} writes at rest",
        "{{ $value | humanizePercentage }} of its runs that no change woke have changed something.",
    ),
)

_RUNS = (
    Alert(
        "ReconcileErrors",
        f"sum {_CONTROLLER} {_reached(_FAILED, 'controller')} >= 5\n"
        f"and sum {_CONTROLLER} ({_FAILED})\n"
        f"  / sum {_CONTROLLER} (increase(controller_runtime_reconcile_time_seconds_count[5m])) > 0.1",
        "10m",
        "ticket",
        "Runs of {{ $labels.controller }} fail",
        "More than 10 % of its runs have failed for 10 minutes.",
    ),
    Alert(
        "ReconcileKeysFailing",
        f"max {_CONTROLLER} {_reached('reconcile_failing_oldest_seconds', 'controller')} > {FAILING_SECONDS}",
        "5m",
        "ticket",
        "A key of {{ $labels.controller }} fails run after run",
        "It has not succeeded for {{ $value | humanizeDuration }}.",
    ),
    Alert(
        "ReconcileTerminalErrors",
        _rose("controller_runtime_terminal_reconcile_errors_total"),
        "0m",
        "ticket",
        "Runs of {{ $labels.controller }} have failed for good",
        "Nothing tries these keys again until their objects change.",
    ),
    Alert(
        "ReconcilePanics",
        _rose("controller_runtime_reconcile_panics_total"),
        "0m",
        "ticket",
        "Runs of {{ $labels.controller }} fail by an error in its code",
        "Such as a TypeError or a KeyError: a new version has to mend it.",
    ),
    Alert(
        "ReconcileTimeouts",
        _rose("controller_runtime_reconcile_timeouts_total"),
        "0m",
        "ticket",
        "Runs of {{ $labels.controller }} take longer than their limit",
        "They were cancelled, and count as failed.",
    ),
    Alert(
        "ReconcileLongRun",
        f"max {_CONTROLLER} (workqueue_longest_running_processor_seconds) > {LONG_RUN_SECONDS}",
        "5m",
        "ticket",
        "A run of {{ $labels.controller }} does not end",
        "It has been under way for {{ $value | humanizeDuration }}, and holds a worker.",
    ),
    Alert(
        "ReconcileQueueGrowing",
        f"sum {_CONTROLLER} ({_reached('min_over_time(workqueue_depth[10m])', 'controller')}\n"
        # A standby collects keys, and works on none.
        "  unless on (namespace, job, instance) leader_election_master_status == 0) > 10\n"
        f"{_PAUSED}",
        "10m",
        "ticket",
        "The workers of {{ $labels.controller }} do not keep up",
        "At least {{ $value }} keys have been ready at any time for 20 minutes.",
    ),
    Alert(
        "ReconcileStorm",
        f"max {_CONTROLLER} (reconcile_storms_active) > 0",
        "5m",
        "ticket",
        "Keys of {{ $labels.controller }} wake themselves",
        "{{ $value }} keys have been slowed for 5 minutes, as each run causes the next one.",
    ),
    Alert(
        "ReconcilePaused",
        f"max {_CONTROLLER} (reconcile_paused) == 1\nor max {_CONTROLLER} (reconcile_paused_keys) > 0",
        "2h",
        "ticket",
        "{{ $labels.controller }} is paused, or keys of it are",
        "It was paused 2 hours ago or longer. Was it forgotten?",
    ),
    Alert(
        "ReconcileEventLoopBlocked",
        f"max {_INSTANCE} {_LATE_LOOP}",
        "10m",
        "page",
        "Code blocks the event loop of {{ $labels.instance }}",
        "Probes and the Lease wait with everything else: the process may be restarted, or lose its lead.",
    ),
)

_WEBHOOKS = (
    Alert(
        "ReconcileWebhookErrors",
        burning("admission", (*FAST, RARE)),
        FAST_FOR,
        "page",
        "Calls of the webhook {{ $labels.webhook }} fail",
        "{{ $value | humanizePercentage }} of the calls have failed: writes of users are refused.",
    ),
    Alert(
        "ReconcileWebhookSlow",
        f"({burning('admission-latency', FAST)})\n{_BLOCKED}",
        FAST_FOR,
        "page",
        "The webhook {{ $labels.webhook }} is slow",
        "{{ $value | humanizePercentage }} of the calls have taken longer than 100 ms: writes of users wait.",
    ),
    Alert(
        "ReconcileAdmissionBudget",
        f"{burning('admission', SLOW)}\nor\n{burning('admission-latency', SLOW)}",
        SLOW_FOR,
        "ticket",
        "The webhook {{ $labels.webhook }} fails or is slow too often",
        "{{ $value | humanizePercentage }} of the calls were bad: the month's budget is being used up.",
    ),
    Alert(
        "ReconcileCertificateExpires",
        f"min {_JOB} (reconcile_webhook_certificate_days) < {CERTIFICATE_DAYS}",
        "15m",
        "ticket",
        "The certificate of the webhooks expires in {{ $value | humanize }} days",
        "It ought to have been renewed by now.",
    ),
    Alert(
        "ReconcileCertificateExpired",
        f"min {_JOB} (reconcile_webhook_certificate_days) < 1",
        "0m",
        "page",
        "The certificate of the webhooks has expired, or does so today",
        "With it the API server calls the webhooks no more: it refuses the writes that need them.",
    ),
    Alert(
        "ReconcileCertificateUnreadable",
        _rose("certwatcher_read_certificate_errors_total", by=_JOB),
        "10m",
        "ticket",
        "The serving certificate cannot be read",
        "The manager goes on with the one that it has, until that expires.",
    ),
    Alert(
        "ReconcileDefinitionStuck",
        "max by (namespace, job, definition) (reconcile_definition_finished) == 0\n"
        "or max by (namespace, job, definition) (reconcile_definition_failed_objects) > 0",
        "1h",
        "ticket",
        "{{ $labels.definition }} is not at the versions of the classes",
        "The definition, or objects stored by it, have not been brought there for an hour.",
    ),
)

ALERTS: Final = (*_PRESENCE, *_API_SERVER, *_CACHE, *_SERVICE, *_RUNS, *_WEBHOOKS)
