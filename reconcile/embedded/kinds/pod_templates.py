"""What a pod template must satisfy, and what the kinds that have one take from pods."""

from collections.abc import Iterator, Sequence
from typing import Final

from attrs import evolve

from reconcile.embedded.kinds.built_in_kind import BuiltInKind, Object, Others, same
from reconcile.embedded.kinds.pod_annotations import annotation_rule_causes, profile_annotation_causes
from reconcile.embedded.kinds.pod_checks import pod_spec_causes
from reconcile.embedded.kinds.pod_parts import part
from reconcile.embedded.kinds.pod_security import template_security_warnings
from reconcile.embedded.kinds.pod_strategy import drop_disabled
from reconcile.embedded.kinds.pod_warnings import template_warnings
from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.protocol.field_causes import value_forbidden, value_not_supported
from reconcile.embedded.protocol.object_metadata import annotation_causes, label_causes

_PLACES: Final = {
    **dict.fromkeys(
        ("DaemonSet", "Deployment", "Job", "ReplicaSet", "ReplicationController", "StatefulSet"),
        ("spec", "template"),
    ),
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
}
_GROUPS: Final = ("", "apps", "batch")


def with_template(kind: BuiltInKind) -> BuiltInKind:
    """The kind with what each kind with a pod template has beyond its own rules; others as they are.

    Fields of features that are off are dropped, and its writer is warned as that of a pod is.
    """
    place = _PLACES.get(kind.name) if kind.group in _GROUPS else None
    if place is None:
        return kind
    steps: tuple[str, ...] = place

    def prepare(obj: Object, old: Object | None) -> None:
        drop_disabled(part(obj, *steps, "spec"))
        kind.prepare(obj, old)

    def admit(obj: Object, old: Object | None, others: Others) -> list[str]:
        warnings = list((kind.admit(obj, old, others) if kind.admit is not None else None) or ())
        namespace = obj["metadata"].get("namespace") or ""
        return [*warnings, *template_security_warnings(part(obj, *steps), namespace, others)]

    def warnings(obj: Object, old: Object | None) -> list[str]:
        own = kind.warnings(obj, old)
        if old is not None and same(obj.get("spec"), old.get("spec")):
            return own
        return [*own, *template_warnings(part(obj, *steps), ".".join(steps))]

    return evolve(kind, prepare=prepare, admit=admit, warnings=warnings)


def template_causes(template: Object, path: str, policies: Sequence[str]) -> Iterator[FieldCause]:
    """The faults of the template at `path`, whose pods may have these restart policies.

    As in ValidatePodTemplateSpec: unlike those of a pod, its name and namespace are not looked at, its images
    may have blanks around them, and its ports on the host network may be left open.
    """
    spec, annotations = part(template, "spec"), part(template, "metadata", "annotations")
    yield from label_causes(part(template, "metadata", "labels"), f"{path}.labels")
    yield from annotation_causes(annotations, f"{path}.annotations")
    yield from annotation_rule_causes(annotations, spec, f"{path}.annotations")
    yield from pod_spec_causes(spec, f"{path}.spec")
    yield from profile_annotation_causes(annotations, spec, f"{path}.spec")
    if spec.get("ephemeralContainers"):
        why = "ephemeral containers not allowed in pod template"
        yield value_forbidden(f"{path}.spec.ephemeralContainers", why)
    policy = spec.get("restartPolicy") or ""
    if policy not in policies:
        yield value_not_supported(f"{path}.spec.restartPolicy", policy, policies)
