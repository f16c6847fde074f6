"""The dashboards of processes, and of what only some operators have: shards, webhooks, migrations."""

from typing import Final

from reconcile.monitoring.panels import BAD, CAREFUL, GOOD, Dashboard, Panel, Query, Row

_RATE: Final = "[$__rate_interval]"


def process(*, leads: bool, tls: bool, migrates: bool) -> Dashboard:
    """`leads`: one pod leads; `tls`: its pages have a certificate; `migrates`: definitions are applied."""
    more = [row for row, there in ((_LEADERS, leads), (_CERTIFICATE, tls), (_MIGRATION, migrates)) if there]
    return Dashboard(
        slug="process",
        title="Process",
        about="What the pods need of their nodes, and whether their event loops are free.",
        rows=[_PODS, *more],
    )


_PODS: Final = Row(
    "Pods",
    [
        Panel(
            "Answering",
            "Pods whose metrics Prometheus gets.",
            [Query("up{@pods}", "{{pod}}")],
            kind="state-timeline",
            words=[(0, "silent", BAD), (1, "up", GOOD)],
            least=None,
        ),
        Panel(
            "Delay of the event loop",
            "Slowest hundredth of its turns. Above 0.1 s something blocks or uses all of the CPU: blocking"
            " code belongs in ctx.run_sync.",
            [
                Query(
                    "histogram_quantile(0.99, sum by (le, pod)"
                    f" (rate(reconcile_event_loop_lag_seconds_bucket{{@pods}}{_RATE})))",
                    "{{pod}}",
                )
            ],
            unit="s",
            steps=[(0.1, CAREFUL)],
        ),
        Panel(
            "CPU",
            "Cores in use. A manager runs Python on one core, so at 1 it is busy all the time.",
            [Query(f"sum by (pod) (rate(process_cpu_seconds_total{{@pods}}{_RATE}))", "{{pod}}")],
            steps=[(0.8, CAREFUL)],
        ),
        Panel(
            "Memory",
            "Resident memory. Most of it is the cache, whose size the dashboard of the cache shows.",
            [Query("max by (pod) (process_resident_memory_bytes{@pods})", "{{pod}}")],
            unit="bytes",
        ),
        Panel(
            "Open files",
            "Share of the files and sockets that the process may open.",
            [
                Query(
                    "max by (pod) (process_open_fds{@pods}) / max by (pod) (process_max_fds{@pods})",
                    "{{pod}}",
                )
            ],
            unit="percentunit",
            steps=[(0.8, CAREFUL)],
        ),
        Panel(
            "Age of the processes",
            "A line that falls to 0 is a process that began anew.",
            [Query("max by (pod) (time() - process_start_time_seconds{@pods})", "{{pod}}")],
            unit="s",
        ),
    ],
)
_LEADERS: Final = Row(
    "Leader",
    [
        Panel(
            "Who leads",
            "Exactly one pod should.",
            [Query("max by (pod) (leader_election_master_status{@pods})", "{{pod}}")],
            kind="state-timeline",
            width=24,
            height=5,
            words=[(0, "stands by", "text"), (1, "leads", GOOD)],
            least=None,
        )
    ],
)
_CERTIFICATE: Final = Row(
    "Certificate of the pages",
    [
        Panel(
            "Reads of the certificate",
            "It is read again when its files change. If it cannot be read, the old one stays in use.",
            [
                Query(
                    "sum by (pod) (increase(certwatcher_read_certificate_total{@pods}[1h]))", "{{pod}} read"
                ),
                Query(
                    "sum by (pod) (increase(certwatcher_read_certificate_errors_total{@pods}[1h]))",
                    "{{pod}} failed",
                ),
            ],
            width=24,
            height=5,
        )
    ],
)
_MIGRATION: Final = Row(
    "Versions of stored objects",
    [
        Panel(
            "Definitions",
            "Finished: the definition and all stored objects are at the versions of the operator's classes.",
            [
                Query(
                    "max by (definition) (reconcile_definition_finished{@pods})",
                    "Finished",
                    unit="bool_yes_no",
                ),
                Query("max by (definition) (reconcile_definition_rewritten_objects{@pods})", "Rewritten"),
                Query(
                    "max by (definition) (reconcile_definition_failed_objects{@pods})",
                    "Could not be rewritten",
                    steps=[(1, BAD)],
                ),
            ],
            kind="table",
            width=24,
            height=6,
            by=["definition"],
        )
    ],
)
SHARDS: Final = Dashboard(
    slug="shards",
    title="Shards",
    about="Which pod works on how many of the buckets of objects, and how buckets go from one to another.",
    rows=[
        Row(
            "Ring",
            [
                Panel(
                    "Members",
                    "Pods of the ring, as the pods see it.",
                    [Query("max(reconcile_shard_members{@pods})")],
                    kind="stat",
                    width=4,
                    height=6,
                    words=[(0, "none", BAD)],
                ),
                Panel(
                    "Buckets without a pod",
                    "No pod works on their objects. During a hand-over this is normal for a moment.",
                    [
                        Query(
                            "max(reconcile_shard_ring_buckets{@pods})"
                            ' - sum(reconcile_shard_buckets{state="held",@pods})'
                        )
                    ],
                    kind="stat",
                    width=4,
                    height=6,
                    steps=[(1, CAREFUL)],
                ),
                Panel(
                    "Buckets held by each pod",
                    "Even shares are normal. A gap in the sum is a hand-over that does not end.",
                    [Query('sum by (pod) (reconcile_shard_buckets{state="held",@pods})', "{{pod}}")],
                    width=16,
                    height=6,
                    stacked=True,
                ),
            ],
        ),
        Row(
            "Hand-overs",
            [
                Panel(
                    "Buckets on their way",
                    "warming: about to be held; closing: their last runs are under way.",
                    [
                        Query(
                            'sum by (state) (reconcile_shard_buckets{state!="held",@pods})',
                            "{{state}}",
                        )
                    ],
                ),
                Panel(
                    "Hand-overs by how they came",
                    "orphaned and lost: a pod ended without giving its buckets away, or was taken for dead.",
                    [
                        Query(
                            f"sum by (outcome) (rate(reconcile_shard_hand_overs_total{{@pods}}{_RATE})) * 60",
                            "{{outcome}} a minute",
                        )
                    ],
                    stacked=True,
                ),
                Panel(
                    "Duration of hand-overs, slowest hundredth",
                    "No pod works on a bucket while it is handed over.",
                    [
                        Query(
                            "histogram_quantile(0.99, sum by (le, outcome)"
                            f" (rate(reconcile_shard_hand_over_seconds_bucket{{@pods}}{_RATE})))",
                            "{{outcome}}",
                        )
                    ],
                    unit="s",
                ),
            ],
        ),
    ],
)
WEBHOOKS: Final = Dashboard(
    slug="webhooks",
    title="Webhooks",
    about="Whether writes of users are answered in time, and how long the certificate is valid.",
    rows=[
        Row(
            "Now",
            [
                Panel(
                    "Certificate",
                    "Days until the certificate that API servers trust expires.",
                    [Query("min(reconcile_webhook_certificate_days{@pods})")],
                    kind="stat",
                    unit="d",
                    width=4,
                    steps=[(7, CAREFUL), (21, GOOD)],
                    lowest=BAD,
                ),
                Panel(
                    "Calls that got no answer of ours",
                    "failed: a function raised; timeout, busy: too slow; bad-request: no API server asked.",
                    [
                        Query(
                            "sum by (result) (rate(reconcile_webhook_calls_total"
                            f'{{result=~"failed|timeout|busy|bad-request|not-converted",@pods}}{_RATE}))'
                            ' or label_replace(vector(0), "result", "none", "", "")',
                            "{{result}}",
                        )
                    ],
                    unit="ops",
                    width=10,
                ),
                Panel(
                    "Calls by webhook, slowest hundredth",
                    "Each write of a user waits this long.",
                    [
                        Query(
                            "histogram_quantile(0.99, sum by (le, webhook)"
                            f" (rate(controller_runtime_webhook_latency_seconds_bucket{{@pods}}{_RATE})))",
                            "{{webhook}}",
                        )
                    ],
                    unit="s",
                    width=10,
                    steps=[(0.1, CAREFUL)],
                ),
            ],
        ),
        Row(
            "Calls",
            [
                Panel(
                    "Calls by result",
                    "refused: the object was not taken, with the reason to the user.",
                    [
                        Query(
                            f"sum by (result) (rate(reconcile_webhook_calls_total{{@pods}}{_RATE}))",
                            "{{result}}",
                        )
                    ],
                    unit="ops",
                    width=12,
                    stacked=True,
                ),
                Panel(
                    "Calls by webhook",
                    "How often each is called.",
                    [
                        Query(
                            "sum by (webhook)"
                            f" (rate(controller_runtime_webhook_requests_total{{@pods}}{_RATE}))",
                            "{{webhook}}",
                        )
                    ],
                    unit="ops",
                    width=12,
                    stacked=True,
                ),
            ],
        ),
    ],
)
