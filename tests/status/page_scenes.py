"""What the pictures of the status page show: a manager on a day on which something fails."""

from typing import Any, Final

from tests.helpers.status_pages import NOW, Row, ScriptedManager, controller_facts, life, overview, row

ERROR: Final = "ApiError: 403 Forbidden: deployments.apps is forbidden: exceeded quota: team-web"
STORM: Final = "woken by its own writes to .data.stamp of ConfigMap team-web/ticker"
_TEAMS: Final = ("default", "team-web", "team-data", "checkout", "search", "billing")
_NAMES: Final = ("shop", "blog", "docs", "api", "landing", "status", "admin", "media", "login", "cart")


def key_of(number: int) -> str:
    return f"{_TEAMS[number % len(_TEAMS)]}/{_NAMES[number // 6 % len(_NAMES)]}-{number:04}"


def many_rows(number: int, first: int = 100) -> list[Row]:
    """Objects of which most are healthy: one in 97 is progressing, one in 401 is being deleted."""
    return [_common_row(first + at) for at in range(number)]


def _common_row(number: int) -> Row:
    facts: dict[str, Any] = {"created": NOW - 3600 * (number % 700 + 1), "ended": NOW - number % 590}
    facts["controller"] = 1 if number % 5 == 0 else 0
    if number % 97 == 0:
        return row(
            number,
            key_of(number),
            "progressing",
            reason="Ready=False: RolloutUnderway",
            **facts,
            state="later",
            sentence="its last run asked to run again, in 20 s",
            next_at=NOW + 20 + number % 9,
        )
    if number % 401 == 0:
        return row(number, key_of(number), "deleting", **facts)
    return row(number, key_of(number), **facts)


def sample_rows(number: int = 480) -> list[Row]:
    return [
        row(
            1,
            "default/shop",
            "failing",
            reason=ERROR,
            state="back-off",
            failures=4,
            ended=NOW - 3.4,
            next_at=NOW + 12,
            sentence=f"failed 4 times in a row, last with {ERROR}; tries again in 12 s",
        ),
        row(
            2,
            "team-data/warehouse",
            "failing",
            reason="Stalled=True: NoSuchImage",
            state="resting",
            ended=NOW - 900,
            created=NOW - 7_000,
            conditions=["Ready=False", "Stalled=True"],
        ),
        row(
            3,
            "team-web/ticker",
            "progressing",
            reason="generation 8 is not observed yet",
            state="throttled",
            sentence=f"slowed down, next run in 15 s: {STORM}",
            next_at=NOW + 15,
            ended=NOW - 5,
        ),
        row(
            4,
            "checkout/cart",
            "progressing",
            reason="Ready=False: RolloutUnderway",
            state="running",
            sentence="running for 1.2 s, at site.py:41",
        ),
        row(
            5,
            "billing/ledger",
            "healthy",
            state="paused",
            sentence="paused by hand: resume it to have it run",
            controller=1,
        ),
        *many_rows(number),
    ]


def sample_overview() -> dict[str, Any]:
    sites = controller_facts(
        objects={"failing": 2, "deleting": 1, "progressing": 6, "waiting": 0, "healthy": 380},
        queue={"ready": 3, "later": 10, "backoff": 1, "oldest": 1.4},
        running=2,
        runs_last_minute=48,
        failures_last_minute=4,
        behind=1.4,
        storms=[
            {
                "key": "team-web/ticker",
                "message": STORM,
                "throttled_for": 15.0,
            }
        ],
    )
    databases = controller_facts(
        "databases",
        kind="Database",
        resource="databases.example.com",
        objects={"progressing": 1, "healthy": 95},
        runs_last_minute=6,
        workers=2,
    )
    informers = [
        ("sites.example.com", 389, 402_000, 0.4, 0),
        ("databases.example.com", 96, 88_000, 3.1, 0),
        ("deployments.apps", 1_912, 3_410_000, 0.2, 0),
        ("configmaps", 801, 730_000, 12.0, 1),
    ]
    home = {
        "name": "",
        "reachable": True,
        "synced": True,
        "down_seconds": None,
        "informers": [
            {
                "resource": name,
                "objects": objects,
                "bytes": size,
                "synced": True,
                "silence": silence,
                "restarts": restarts,
                "failures": 0,
            }
            for name, objects, size, silence, restarts in informers
        ],
    }
    east = {**home, "name": "east", "reachable": False, "down_seconds": 74.0}
    east["informers"] = [{**home["informers"][0], "silence": 131.0, "failures": 6}]  # type: ignore[index]
    members = [
        {"identity": f"sites-operator-{at}", "held": held, "state": state}
        for at, held, state in ((0, 96, "leads"), (1, 84, ""), (2, 72, "leaving"))
    ]
    shards = {
        "ring": "operators/sites",
        "identity": "sites-operator-0",
        "buckets": 256,
        "held": 96,
        "members": members,
    }
    return overview(
        sites, databases, clusters=[home, east], shards=shards, webhooks={"certificate_days": 80.1}
    )


def _run(number: int, ended: float, result: str, **facts: Any) -> dict[str, Any]:
    started = NOW - ended - 0.412
    return {
        "id": f"{number}f3c01aa77d24f0b",
        "started": started,
        "ended": NOW - ended,
        "attempt": 0,
        "result": result,
        "error": "",
        "at": "",
        "next_at": None,
        "woken_by": [],
        "reads": [
            {"kind": "Site", "key": "default/shop"},
            {"kind": "Deployment", "key": "default/shop"},
        ],
        "writes": [],
    } | facts


def sample_life() -> dict[str, Any]:
    """A site whose quota keeps it from growing: two runs that failed, and the one that began it."""
    earlier = {"controller": "sites", "key": "default/shop", "run": "2f3c01aa77d24f0b"}
    pipeline = {"controller": "databases", "key": "billing/ledger", "run": "77ab10c2d4e5f601"}
    retried = {
        "what": "a retry",
        "at": NOW - 3.9,
        "verb": "retried",
        "kind": "",
        "key": "",
        "from": earlier,
    }
    scaled = {
        "what": "sites default/shop updated at version 48213 by kubectl: .spec.replicas",
        "at": NOW - 30.9,
        "verb": "updated",
        "kind": "Site",
        "key": "default/shop",
        "from": pipeline,
    }
    applied = {
        "verb": "apply",
        "kind": "Deployment",
        "key": "default/shop",
        "at": NOW - 30.2,
        "seconds": 0.0114,
        "text": "apply deployments default/shop: .spec.replicas -> version 12",
        "fields": [
            {"path": ".spec.replicas", "pointer": "/spec/replicas", "old": "3", "new": "12"},
            {
                "path": '.metadata.annotations["example.com/revision"]',
                "pointer": "/metadata/annotations/example.com~1revision",
                "old": "",
                "new": '"8"',
            },
            {
                "path": ".spec.template.spec.containers[0].env[2].value",
                "pointer": "/spec/template/spec/containers/0/env/2/value",
                "old": '"<hidden>"',
                "new": '"<hidden>"',
            },
        ],
    }
    runs = [
        _run(3, 3.4, "error", attempt=4, error=ERROR, at="site.py:64", next_at=NOW + 12, woken_by=[retried]),
        _run(
            2,
            11.0,
            "error",
            attempt=3,
            error=ERROR,
            at="site.py:64",
            woken_by=[{**retried, "at": NOW - 12.4}],
            next_at=NOW - 3.8,
        ),
        _run(1, 30.0, "success", woken_by=[scaled], writes=[applied]),
    ]
    pods = [_node("Pod", f"default/shop-7c9d-{name}", "healthy") for name in ("4xkzp", "9dw2m", "tq8vh")]
    replica_set = _node("ReplicaSet", "default/shop-7c9d", "healthy", children=pods, more=0)
    drift = [{"path": ".spec.replicas", "desired": "12", "live": "3"}]
    children = [
        _node("Deployment", "default/shop", "progressing", "differs", fields=drift, children=[replica_set]),
        _node("Service", "default/shop", "healthy", "same"),
        _node("ConfigMap", "default/shop-routes", "failing", "missing"),
    ]
    conditions = [
        {
            "type": "Ready",
            "status": "False",
            "reason": "QuotaExceeded",
            "message": "3 of 12 replicas run",
            "since": NOW - 27.0,
        },
        {
            "type": "Available",
            "status": "True",
            "reason": "MinimumAvailable",
            "message": "",
            "since": NOW - 86_000.0,
        },
    ]
    return life(
        health="failing",
        reason=ERROR,
        generation=8,
        observed=7,
        conditions=conditions,
        runs=runs,
        why={
            "state": "back-off",
            "sentence": f"failed 4 times in a row, last with {ERROR}; tries again in 12 s",
            "next_at": NOW + 12,
        },
        tree=_node("Site", "default/shop", "failing", children=children),
    )


def _node(kind: str, key: str, health: str, desired: str = "unknown", **facts: Any) -> dict[str, Any]:
    return {
        "kind": kind,
        "key": key,
        "uid": f"{kind}-{key}",
        "health": health,
        "desired": desired,
        "fields": [],
        "children": [],
        "more": 0,
    } | facts


def sample_manager(number: int = 480) -> ScriptedManager:
    manager = ScriptedManager(sample_rows(number), sample_overview())
    manager.lives["default/shop"] = sample_life()
    return manager
