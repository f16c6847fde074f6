"""What has Prometheus and Grafana watch an operator: the objects of prometheus-operator, and dashboards.

All of them are labelled as those of `NAME-metrics`, so none is taken for one of the operator's own.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from attrs import evolve

from reconcile.monitoring.dashboards import Features, dashboards_of
from reconcile.monitoring.panels import rendered
from reconcile.monitoring.rules import rule_groups
from reconcile.shipping.documents import BlockText, Document
from reconcile.shipping.finalizers import NAME
from reconcile.shipping.installation import PORT, RBAC, Installation, Monitoring, head_of, metrics_reader

SERVICE_MONITOR: Final = "ServiceMonitor"
POD_MONITOR: Final = "PodMonitor"
INTERVAL: Final = "30s"
"""How often pages are collected. The rules want at least four values in their shortest window, 5 minutes."""
_API: Final = "monitoring.coreos.com/v1"
_OWN_TOKEN: Final = "/var/run/secrets/kubernetes.io/serviceaccount/token"
"""The token of Prometheus's own account, in its pods."""
_LARGEST: Final = 200_000
"""Bytes of a dashboard: `kubectl apply` keeps a copy in an annotation, and takes 256 KiB."""


def monitoring_documents(operator: Installation) -> Mapping[str, Sequence[Document]]:
    """The files of a kustomize base for monitoring, by their names; none without `operator.monitoring`."""
    monitoring = operator.monitoring
    if monitoring is None:
        return {}
    return {
        "monitoring.yaml": list(_collected(operator, monitoring)),
        "alerts.yaml": [_rules(operator, monitoring)],
        "dashboards.yaml": list(_dashboards(operator)),
    }


def metrics_name(operator: Installation) -> str:
    """The name of the Service and of the monitor, and the label of all objects here."""
    return f"{operator.name}-metrics"


def token_secret(operator: Installation) -> str:
    """The Secret with the token that a PodMonitor sends; nobody makes it but those who run Prometheus."""
    return f"{operator.name}-metrics-token"


# --- collecting ---------------------------------------------------------------------------------------


def _collected(operator: Installation, monitoring: Monitoring) -> Iterator[Document]:
    if not monitoring.pods:
        yield _service(operator)
    if operator.review and monitoring.reader is not None:
        yield _reader(operator, *monitoring.reader)
    yield _pod_monitor(operator, monitoring) if monitoring.pods else _service_monitor(operator, monitoring)


def _service(operator: Installation) -> Document:
    port = {"name": "metrics", "port": PORT, "targetPort": "serve", "protocol": "TCP"}
    service = _head(operator, "v1", "Service", metrics_name(operator))
    return {**service, "spec": {"selector": operator.selected, "ports": [port]}}


def _reader(operator: Installation, namespace: str, account: str) -> Document:
    """What lets the account that collects metrics get them."""
    name = metrics_reader(operator.name)
    binding = head_of(f"{RBAC}/v1", "ClusterRoleBinding", operator, name, "")
    role = {"apiGroup": RBAC, "kind": "ClusterRole", "name": name}
    subject = {"kind": "ServiceAccount", "name": account, "namespace": namespace}
    return {**binding, "roleRef": role, "subjects": [subject]}


def _service_monitor(operator: Installation, monitoring: Monitoring) -> Document:
    # The token file is Prometheus's own, which the kubelet renews: a Secret would hold one that is not.
    token = {"bearerTokenFile": _OWN_TOKEN} if operator.review else {}
    endpoint = {"port": "metrics", **_endpoint(operator, monitoring), **token}
    selector = {"matchLabels": {NAME: metrics_name(operator)}}
    return {
        **_selected_by_prometheus(operator, monitoring, SERVICE_MONITOR, metrics_name(operator)),
        "spec": {"selector": selector, "endpoints": [endpoint]},
    }


def _pod_monitor(operator: Installation, monitoring: Monitoring) -> Document:
    token = {"type": "Bearer", "credentials": {"name": token_secret(operator), "key": "token"}}
    endpoint = {
        "port": "serve",
        **_endpoint(operator, monitoring),
        **({"authorization": token} if operator.review else {}),
    }
    return {
        **_selected_by_prometheus(operator, monitoring, POD_MONITOR, metrics_name(operator)),
        "spec": {"selector": {"matchLabels": operator.selected}, "podMetricsEndpoints": [endpoint]},
    }


def _endpoint(operator: Installation, monitoring: Monitoring) -> Document:
    # Series have the operator's name as their job in both forms, since rules and dashboards go by it.
    job = {"action": "replace", "targetLabel": "job", "replacement": operator.name}
    tls = tls_config(operator, monitoring)
    return {
        "path": "/metrics",
        "interval": INTERVAL,
        **({"scheme": "https"} if operator.tls else {}),
        **({"tlsConfig": tls} if tls else {}),
        "relabelings": [job],
    }


def tls_config(operator: Installation, monitoring: Monitoring) -> Document:
    """How Prometheus checks the certificate of the pods; empty: by the CAs of its own."""
    if not operator.tls or not monitoring.authority:
        return {}
    authority = {"secret": {"name": monitoring.authority, "key": "ca.crt"}}
    return {"ca": authority, "serverName": f"{metrics_name(operator)}.{operator.namespace}.svc"}


# --- alerts and dashboards ----------------------------------------------------------------------------


def _rules(operator: Installation, monitoring: Monitoring) -> Document:
    groups = rule_groups(series_of(operator), runbooks=monitoring.runbooks)
    head = _selected_by_prometheus(operator, monitoring, "PrometheusRule", f"{operator.name}-alerts")
    return {**head, "spec": {"groups": [_readable(group) for group in groups]}}


def _readable(group: Document) -> Document:
    """The group, whose expressions keep their lines in YAML."""
    rules = [{**rule, "expr": BlockText(rule["expr"])} for rule in group["rules"]]
    return {**group, "rules": rules}


def series_of(operator: Installation) -> str:
    """The labels that tell the operator's series from all others."""
    return f'namespace="{operator.namespace}",job="{operator.name}"'


def features_of(operator: Installation) -> Features:
    return Features(
        sharding=operator.ring is not None,
        webhooks=bool(operator.routes),
        tls=operator.tls,
        migrations=operator.applies_definitions,
    )


def _dashboards(operator: Installation) -> Iterator[Document]:
    """ConfigMaps with the label by which Grafana's sidecar finds dashboards."""
    for dashboard in dashboards_of(features_of(operator)):
        made = _head(operator, "v1", "ConfigMap", f"{operator.name}-dashboard-{dashboard.slug}")
        metadata = made["metadata"]
        labels = {**metadata["labels"], "grafana_dashboard": "1"}
        shown = rendered(dashboard, operator.name, operator.namespace)
        text = json.dumps(shown, indent=1, ensure_ascii=False)
        assert len(text) < _LARGEST, dashboard.slug
        data = {f"{operator.name}-{dashboard.slug}.json": BlockText(text)}
        yield {**made, "metadata": {**metadata, "labels": labels}, "data": data}


# --- heads --------------------------------------------------------------------------------------------


def _selected_by_prometheus(
    operator: Installation, monitoring: Monitoring, kind: str, name: str
) -> dict[str, Any]:
    head = _head(operator, _API, kind, name)
    labels = {**head["metadata"]["labels"], **monitoring.labels}
    return {**head, "metadata": {**head["metadata"], "labels": labels}}


def _head(operator: Installation, api_version: str, kind: str, name: str) -> Document:
    return head_of(api_version, kind, evolve(operator, name=metrics_name(operator)), name)
