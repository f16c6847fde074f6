"""What a pod template must satisfy, and what its kind's strategy and warnings take from pods."""

from collections.abc import Iterator, Sequence

from reconcile.embedded.kinds.built_in_kind import Object
from reconcile.embedded.kinds.pod_annotations import annotation_rule_causes, profile_annotation_causes
from reconcile.embedded.kinds.pod_checks import pod_spec_causes
from reconcile.embedded.kinds.pod_parts import part
from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.protocol.field_causes import value_forbidden, value_not_supported
from reconcile.embedded.protocol.object_metadata import annotation_causes, label_causes


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
