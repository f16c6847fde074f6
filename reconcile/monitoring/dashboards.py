"""The Grafana dashboards of an operator, as it is installed: none has a panel that must stay empty."""

from collections.abc import Sequence

from attrs import frozen

from reconcile.monitoring.cache_dashboard import CACHE
from reconcile.monitoring.overview_dashboard import overview
from reconcile.monitoring.panels import Dashboard
from reconcile.monitoring.process_dashboards import SHARDS, WEBHOOKS, process


@frozen
class Features:
    """What an operator may or may not have, and has metrics of."""

    sharding: bool = False
    """All pods work, each on a part of the objects; otherwise one leads."""
    webhooks: bool = False
    tls: bool = False
    """Its pages are served with a certificate."""
    migrations: bool = False
    """It applies definitions and rewrites stored objects."""


def dashboards_of(features: Features) -> Sequence[Dashboard]:
    """Those of an operator with these features, the one that is looked at first before the others."""
    return [
        overview(sharded=features.sharding, webhooks=features.webhooks),
        CACHE,
        process(leads=not features.sharding, tls=features.tls, migrates=features.migrations),
        *([SHARDS] if features.sharding else []),
        *([WEBHOOKS] if features.webhooks else []),
    ]
