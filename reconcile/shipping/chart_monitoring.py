"""Monitoring in a chart: the objects of the kustomize base, in which values decide. Pure functions.

An operator here is one whose namespace and image are placeholders.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from attrs import evolve

from reconcile.shipping.chart_values import MONITOR
from reconcile.shipping.documents import Document
from reconcile.shipping.installation import Installation, Monitoring
from reconcile.shipping.monitoring import POD_MONITOR, SERVICE_MONITOR, monitoring_documents
from reconcile.shipping.templates import Either, Extended, Optional, Raw, Tree

RUNBOOKS_PLACE: Final = "\ue000runbooks\ue000"
"""Stands in objects for the address of the runbooks."""
_READER: Final = ".Values.monitoring.reader"
_RUNBOOKS: Final = ".Values.monitoring.runbooks"
_CONDITIONS: Final[Mapping[str, str]] = {
    "Service": f'ne {MONITOR} "{POD_MONITOR}"',
    "ClusterRoleBinding": f"{_READER}.name",
    SERVICE_MONITOR: f'eq {MONITOR} "{SERVICE_MONITOR}"',
    POD_MONITOR: f'eq {MONITOR} "{POD_MONITOR}"',
    "PrometheusRule": ".Values.monitoring.rules",
    "ConfigMap": ".Values.monitoring.dashboards",
}
"""When an object of a kind is part of a release with monitoring."""


def monitoring_trees(operator: Installation) -> Mapping[str, Sequence[Tree]]:
    """The files of the kustomize base for monitoring, by their names; none without `operator.monitoring`."""
    if operator.monitoring is None:
        return {}
    # What values decide is put into the objects below; a name of the reader is needed to get its binding.
    plain = Monitoring(reader=("", ""), runbooks=RUNBOOKS_PLACE)
    files = {
        path: list(documents)
        for path, documents in monitoring_documents(evolve(operator, monitoring=plain)).items()
    }
    by_pods = monitoring_documents(evolve(operator, monitoring=evolve(plain, pods=True)))
    pod_monitors = [one for file in by_pods.values() for one in file if one["kind"] == POD_MONITOR]
    files["monitoring.yaml"] += pod_monitors
    return {path: [_optional(operator, one) for one in documents] for path, documents in files.items()}


def _optional(operator: Installation, document: Document) -> Tree:
    return Either(_CONDITIONS[document["kind"]], [_valued(operator, document)])


def _valued(operator: Installation, document: Document) -> Tree:
    match document["kind"]:
        case "ClusterRoleBinding":
            (subject,) = document["subjects"]
            named = {part: Raw(f"{{{{ {_READER}.{part} | quote }}}}") for part in ("name", "namespace")}
            return {**document, "subjects": [{**subject, **named}]}
        case "ServiceMonitor":
            return _labelled(_scraping(operator, document, "endpoints"))
        case "PodMonitor":
            return _labelled(_scraping(operator, document, "podMetricsEndpoints"))
        case "PrometheusRule":
            groups = [_leading(group) for group in document["spec"]["groups"]]
            return _labelled({**document, "spec": {"groups": groups}})
        case _:
            return document


def _leading(group: Document) -> Document:
    """The group, whose alerts lead to runbooks if there is an address."""
    rules = []
    for rule in group["rules"]:
        annotations = rule.get("annotations")
        if annotations:
            leads = Either(_RUNBOOKS, annotations["runbook_url"])
            rule = {**rule, "annotations": {**annotations, "runbook_url": leads}}
        rules.append(rule)
    return {**group, "rules": rules}


def _labelled(document: Document) -> Document:
    """The object with the labels by which Prometheus selects it."""
    metadata = document["metadata"]
    labels = Extended(metadata["labels"], ".Values.monitoring.labels")
    return {**document, "metadata": {**metadata, "labels": labels}}


def _scraping(operator: Installation, monitor: Document, endpoints: str) -> Document:
    (endpoint,) = monitor["spec"][endpoints]
    scraped = dict(_endpoint(operator, endpoint))
    return {**monitor, "spec": {**monitor["spec"], endpoints: [scraped]}}


def _endpoint(operator: Installation, endpoint: Document) -> Iterator[tuple[str, Tree]]:
    for name, value in endpoint.items():
        match name:
            case "interval":
                yield name, Raw("{{ .Values.monitoring.interval }}")
            case "authorization":
                secret = Raw("{{ .Values.monitoring.tokenSecret | quote }}")
                yield name, {**value, "credentials": {**value["credentials"], "name": secret}}
            case _:
                yield name, value
        if name == "scheme" and operator.tls:
            yield "tlsConfig", Optional(".Values.monitoring.tlsConfig")
