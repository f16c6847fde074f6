"""What the server makes of a pod before it is checked: its status, and what follows from its labels."""

from collections.abc import Iterator
from typing import Final

from reconcile.embedded.kinds.built_in_kind import Object
from reconcile.embedded.kinds.pod_annotations import APP_ARMOR_PREFIX, app_armor_field
from reconcile.embedded.kinds.pod_parts import containers_of, each, part
from reconcile.embedded.kinds.pod_placement import PREFERRED, REQUIRED
from reconcile.embedded.kinds.pod_resources import qos_class

# Projections whose features are off by default: ClusterTrustBundleProjection, PodCertificateRequest.
_DISABLED_PROJECTIONS: Final = ("clusterTrustBundle", "podCertificate")
_OPERATORS: Final = (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn"))


def prepare_pod(pod: Object, old: Object | None) -> None:
    """Set the first status of a new pod and what follows from its labels; keep what is written once."""
    drop_disabled(pod["spec"])
    if old is not None:
        _keep_written_once(pod, old)
        return
    pod["status"] = {"phase": "Pending", "qosClass": qos_class(pod["spec"])}
    if pod["spec"].get("schedulingGates"):
        pod["status"]["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "lastProbeTime": None,
                "lastTransitionTime": pod["metadata"].get("creationTimestamp"),
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
            }
        ]
    labels = part(pod, "metadata", "labels")
    for term in _label_terms(pod["spec"]):
        _select_by_labels(term, labels)
    _sync_app_armor(pod)


def drop_disabled(spec: Object) -> None:
    """Drop from a pod spec the fields of features that are off by default, without a warning."""
    spec.pop("schedulingGroup", None)
    for container in containers_of(spec):
        part(container, "lifecycle").pop("stopSignal", None)
    for volume in each(spec, "volumes"):
        for source in each(part(volume, "projected"), "sources"):
            for name in _DISABLED_PROJECTIONS:
                source.pop(name, None)


def _keep_written_once(pod: Object, old: Object) -> None:
    """A status that leaves out what the server or the kubelet wrote once keeps it."""
    status, before = pod.get("status") or {}, part(old, "status")
    for name in ("qosClass", "observedGeneration"):
        if not status.get(name) and before.get(name):
            status[name] = before[name]
    generations: dict[str, list[int]] = {}
    for condition in each(before, "conditions"):
        generations.setdefault(condition.get("type") or "", []).append(
            condition.get("observedGeneration") or 0
        )
    for condition in each(status, "conditions"):
        left = generations.get(condition.get("type") or "") or [0]
        generation = left.pop(0)
        if generation and not condition.get("observedGeneration"):
            condition["observedGeneration"] = generation
    if status:
        pod["status"] = status


# --- labels -----------------------------------------------------------------------------------


def _label_terms(spec: Object) -> Iterator[Object]:
    """The terms that may take values from the labels of their pod."""
    for name in ("podAffinity", "podAntiAffinity"):
        terms = part(spec, "affinity", name)
        yield from (part(weighted, "podAffinityTerm") for weighted in each(terms, PREFERRED))
        yield from each(terms, REQUIRED)
    yield from each(spec, "topologySpreadConstraints")


def _select_by_labels(term: Object, labels: Object) -> None:
    selector = term.get("labelSelector")
    if selector is None:
        return
    for name, operator in _OPERATORS:
        for key in term.get(name) or ():
            if key in labels:
                expression = {"key": key, "operator": operator, "values": [labels[key]]}
                selector["matchExpressions"] = [*(selector.get("matchExpressions") or ()), expression]


# --- AppArmor ---------------------------------------------------------------------------------


def _sync_app_armor(pod: Object) -> None:
    """Set the fields that deprecated annotations stand for (applyAppArmorVersionSkew)."""
    for _, container, field in _annotated(pod):
        if field is not None and field != part(pod["spec"], "securityContext").get("appArmorProfile"):
            container["securityContext"] = {**part(container, "securityContext"), "appArmorProfile": field}


def app_armor_warnings(pod: Object) -> list[str]:
    """Warnings for annotations that stand for a field that is not there, before it is set."""
    of_pod = part(pod["spec"], "securityContext").get("appArmorProfile")
    why = 'deprecated since v1.30; use the "appArmorProfile" field instead'
    return [
        f"metadata.annotations[{key}]: {why}"
        for key, _, field in _annotated(pod)
        if field is None or field != of_pod
    ]


def _annotated(pod: Object) -> Iterator[tuple[str, Object, Object | None]]:
    """Annotations, with the containers without a profile that they are for, and the profiles."""
    annotations = part(pod, "metadata", "annotations")
    if not annotations or part(pod["spec"], "os").get("name") == "windows":
        return
    for container in containers_of(pod["spec"]):
        key = f"{APP_ARMOR_PREFIX}{container.get('name') or ''}"
        if key in annotations and part(container, "securityContext").get("appArmorProfile") is None:
            yield key, container, app_armor_field(annotations[key])
