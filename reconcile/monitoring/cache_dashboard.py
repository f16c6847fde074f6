"""The dashboard of what the operator knows of the cluster, and how it asks for it."""

from typing import Final

from reconcile.monitoring.panels import BAD, CAREFUL, GOOD, Dashboard, Panel, Query, Row

_RATE: Final = "[$__rate_interval]"

_REQUESTS: Final = Row(
    "API server",
    [
        Panel(
            "Reachable",
            "In an outage keys wait without counting it as a failure, and go on when the server answers.",
            [Query("min by (pod, cluster) (reconcile_api_server_reachable{@pods})", "{{pod}} {{cluster}}")],
            kind="state-timeline",
            width=8,
            words=[(0, "unreachable", BAD), (1, "reachable", GOOD)],
            least=None,
        ),
        Panel(
            "Requests by answer",
            "Watches included. <error> is a request without an answer.",
            [Query(f"sum by (code) (rate(rest_client_requests_total{{@pods}}{_RATE}))", "{{code}}")],
            unit="reqps",
            stacked=True,
        ),
        Panel(
            "Requests by method",
            "An operator at rest sends next to none.",
            [Query(f"sum by (method) (rate(rest_client_requests_total{{@pods}}{_RATE}))", "{{method}}")],
            unit="reqps",
            stacked=True,
        ),
        Panel(
            "Requests that failed",
            "5xx and no answer: the server or the way to it. 429: the server throttles."
            " 409: others write the same objects. 403: a right is missing.",
            [
                Query(
                    f'sum(rate(rest_client_requests_total{{code=~"5..|<error>",@pods}}{_RATE})) or vector(0)',
                    "5xx and no answer",
                ),
                *(
                    Query(
                        f'sum(rate(rest_client_requests_total{{code="{code}",@pods}}{_RATE})) or vector(0)',
                        f"{code} {name}",
                    )
                    for code, name in ((429, "throttled"), (409, "conflict"), (403, "forbidden"))
                ),
            ],
            unit="reqps",
        ),
        Panel(
            "Duration of requests, slowest hundredth",
            "Without watches. 99 of 100 requests take less.",
            [
                Query(
                    "histogram_quantile(0.99, sum by (le, verb)"
                    f" (rate(rest_client_request_duration_seconds_bucket{{@pods}}{_RATE})))",
                    "{{verb}}",
                )
            ],
            unit="s",
        ),
        Panel(
            "Bytes sent and received",
            "Bodies of requests and answers, without watches.",
            [
                Query(f"sum(rate(rest_client_request_size_bytes_sum{{@pods}}{_RATE}))", "sent"),
                Query(f"sum(rate(rest_client_response_size_bytes_sum{{@pods}}{_RATE}))", "received"),
            ],
            unit="Bps",
        ),
    ],
)
_INFORMERS: Final = Row(
    "Informers",
    [
        Panel(
            "Informers",
            "One line for each kind that is watched: what it holds, and since when it heard nothing.",
            [
                Query("max by (resource) (reconcile_informer_objects{@pods})", "Objects"),
                Query("max by (resource) (reconcile_informer_bytes{@pods})", "Size", unit="bytes"),
                Query(
                    "min by (resource) (reconcile_informer_synced{@pods})",
                    "Synced",
                    unit="bool_yes_no",
                ),
                Query(
                    "max by (resource) (reconcile_informer_silence_seconds{@pods})",
                    "Silent for",
                    unit="s",
                    steps=[(90, CAREFUL), (300, BAD)],
                ),
                Query(
                    "max by (resource) (reconcile_informer_backlog{@pods})",
                    "Backlog",
                    steps=[(1000, CAREFUL)],
                ),
                Query(
                    "sum by (resource) (increase(reconcile_informer_failures_total{@pods}[15m]))",
                    "Failures in 15 min",
                    steps=[(1, CAREFUL), (15, BAD)],
                ),
                Query(
                    "sum by (resource) (increase(reconcile_informer_skipped_total{@pods}[15m]))",
                    "Skipped in 15 min",
                    steps=[(1, BAD)],
                ),
            ],
            kind="table",
            width=24,
            height=8,
            by=["resource"],
        ),
        Panel(
            "Silence",
            "Time since the server last sent anything. A server sends a bookmark about every minute, so more"
            " than 90 s means that the cache may be old.",
            [
                Query(
                    "max by (resource) (reconcile_informer_silence_seconds{@pods})",
                    "{{resource}}",
                )
            ],
            unit="s",
            steps=[(90, CAREFUL)],
        ),
        Panel(
            "Objects",
            "How many objects each informer holds, in the pod that has most.",
            [Query("max by (resource) (reconcile_informer_objects{@pods})", "{{resource}}")],
        ),
        Panel(
            "Size of the cache",
            "Bodies of all objects, in the pod that has most.",
            [Query("max by (resource) (reconcile_informer_bytes{@pods})", "{{resource}}")],
            unit="bytes",
            stacked=True,
        ),
        Panel(
            "Connections that broke",
            "Lists and watches that ended in an error.",
            [
                Query(
                    f"sum by (resource) (rate(reconcile_informer_failures_total{{@pods}}{_RATE})) * 60",
                    "{{resource}} failures a minute",
                )
            ],
        ),
        Panel(
            "New connections and lists",
            "Servers end watches now and then, which is a new connection and no failure. A new list costs"
            " the server most.",
            [
                Query(
                    f"sum(rate(reconcile_informer_restarts_total{{@pods}}{_RATE})) * 60",
                    "connections a minute",
                ),
                Query(f"sum(rate(reconcile_informer_relists_total{{@pods}}{_RATE})) * 60", "lists a minute"),
            ],
        ),
        Panel(
            "Backlog",
            "Changes that the slowest handler has not had yet: the event loop is busy, or a handler is slow.",
            [Query("max by (resource) (reconcile_informer_backlog{@pods})", "{{resource}}")],
        ),
    ],
)
_OWN_WRITES: Final = Row(
    "Own writes",
    [
        Panel(
            "Wait until the cache shows own writes",
            "Reads wait so that no decision is made on a state from before the last write.",
            [
                Query(
                    f"histogram_quantile({share}, sum by (le)"
                    f" (rate(reconcile_own_write_wait_seconds_bucket{{@controllers}}{_RATE})))",
                    name,
                )
                for share, name in ((0.5, "half within"), (0.99, "99 % within"))
            ],
            unit="s",
            width=12,
        ),
        Panel(
            "Waits that ran out",
            "The cache did not show a write even after a new list. Look for a proxy that caches answers.",
            [
                Query(
                    "sum by (controller)"
                    f" (rate(reconcile_own_write_timeouts_total{{@controllers}}{_RATE})) * 60",
                    "{{controller}} a minute",
                )
            ],
            width=12,
        ),
    ],
)
CACHE: Final = Dashboard(
    slug="cache",
    title="API server and cache",
    about="Requests to the API server, and whether what the operator knows of the cluster is fresh.",
    rows=[_REQUESTS, _INFORMERS, _OWN_WRITES],
)
