"""The rules for annotations of pods that once stood for fields: profiles, tolerations, mirrors."""

import json
import re
from collections.abc import Iterator
from typing import Any, Final

from reconcile.embedded.kinds.built_in_kind import Object
from reconcile.embedded.kinds.path_rules import descending_path_causes
from reconcile.embedded.kinds.pod_parts import all_containers, containers_of, part
from reconcile.embedded.kinds.pod_placement import toleration_causes
from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.protocol.field_causes import value_forbidden, value_invalid

MIRROR: Final = "kubernetes.io/config.mirror"
SECCOMP_OF_POD: Final = "seccomp.security.alpha.kubernetes.io/pod"
SECCOMP_PREFIX: Final = "container.seccomp.security.alpha.kubernetes.io/"
APP_ARMOR_PREFIX: Final = "container.apparmor.security.beta.kubernetes.io/"
_TOLERATIONS: Final = "scheduler.alpha.kubernetes.io/tolerations"
_DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
_LOCALHOST: Final = "localhost/"
_COST: Final = re.compile(r"-?[1-9][0-9]*|0", re.ASCII)
_COSTS: Final = range(-(2**31), 2**31)
_APP_ARMOR_TYPES: Final = {"runtime/default": "RuntimeDefault", "unconfined": "Unconfined"}

Causes = Iterator[FieldCause]


def annotation_rule_causes(annotations: Object, spec: Object, path: str) -> Causes:
    """The faults of annotations that mean something for pods (ValidatePodSpecificAnnotations)."""
    if not annotations:
        return
    if MIRROR in annotations and not spec.get("nodeName"):
        why = "must set spec.nodeName if mirror pod annotation is set"
        yield value_invalid(f"{path}[{MIRROR}]", annotations[MIRROR], why)
    if annotations.get(_TOLERATIONS):
        yield from _toleration_causes(annotations[_TOLERATIONS], path)
    cost = annotations.get(_DELETION_COST)
    if cost is not None and not (_COST.fullmatch(cost) and int(cost) in _COSTS):
        yield value_invalid(f"{path}[{_DELETION_COST}]", cost, "must be a 32bit integer")
    names = {container.get("name") for container in containers_of(spec)}
    for key, value in annotations.items():
        if key == SECCOMP_OF_POD or key.startswith(SECCOMP_PREFIX):
            yield from _seccomp_causes(value, f"{path}.{key}")
        if key.startswith(APP_ARMOR_PREFIX):
            if key.removeprefix(APP_ARMOR_PREFIX) not in names:
                yield value_invalid(f"{path}[{key}]", key, "container not found")
            if value and value not in _APP_ARMOR_TYPES and not value.startswith(_LOCALHOST):
                yield value_invalid(f"{path}[{key}]", value, f'invalid AppArmor profile name: "{value}"')


def _toleration_causes(text: str, path: str) -> Causes:
    try:
        tolerations: Any = json.loads(text)
    except ValueError:
        tolerations = None
    if not isinstance(tolerations, list) or not all(isinstance(one, dict) for one in tolerations):
        yield value_invalid(path, _TOLERATIONS, "cannot be read as tolerations")
        return
    yield from toleration_causes(tolerations, f"{path}.{_TOLERATIONS}")


def _seccomp_causes(profile: str, path: str) -> Causes:
    if profile.startswith(_LOCALHOST):
        yield from descending_path_causes(profile.removeprefix(_LOCALHOST), path)
    elif profile not in ("runtime/default", "docker/default", "unconfined"):
        yield value_invalid(path, profile, "must be a valid seccomp profile")


def profile_annotation_causes(annotations: Object, spec: Object, path: str) -> Causes:
    """The faults of annotations that contradict the fields in their place."""
    if not annotations:
        return
    own, context = part(spec, "securityContext"), f"{path}.securityContext"
    if own.get("seccompProfile") is not None and SECCOMP_OF_POD in annotations:
        place = f"{context}.seccompProfile"
        yield from _match_causes(annotations[SECCOMP_OF_POD], own["seccompProfile"], place, "seccomp")
    for place, container in all_containers(spec, path):
        inner, name = part(container, "securityContext"), container.get("name") or ""
        annotation = annotations.get(f"{SECCOMP_PREFIX}{name}")
        if inner.get("seccompProfile") is not None and annotation is not None:
            where = f"{place}.securityContext.seccompProfile"
            yield from _match_causes(annotation, inner["seccompProfile"], where, "seccomp")
        armor, annotation = app_armor_of(container, spec), annotations.get(f"{APP_ARMOR_PREFIX}{name}")
        if armor is not None and annotation is not None and part(spec, "os").get("name") != "windows":
            where = f"{place}.securityContext.appArmorProfile"
            yield from _match_causes(annotation, armor, where, "apparmor")


def app_armor_of(container: Object, spec: Object) -> Object | None:
    """The profile of a container, which may be that of its pod."""
    own = part(container, "securityContext").get("appArmorProfile")
    profile: Object | None = part(spec, "securityContext").get("appArmorProfile") if own is None else own
    return profile


def _match_causes(annotation: str, profile: Object, path: str, what: str) -> Causes:
    defaults = ("runtime/default", "docker/default") if what == "seccomp" else ("runtime/default",)
    allowed = {"Unconfined": ("unconfined",), "RuntimeDefault": defaults}
    kind = profile.get("type")
    local = annotation.startswith(_LOCALHOST)
    if (kind in allowed and annotation not in allowed[kind]) or (kind == "Localhost" and not local):
        yield value_forbidden(f"{path}.type", f"{what} type in annotation and field must match")
    elif kind == "Localhost" and annotation.removeprefix(_LOCALHOST) != profile.get("localhostProfile"):
        yield value_forbidden(
            f"{path}.localhostProfile", f"{what} profile in annotation and field must match"
        )


def app_armor_field(annotation: str) -> Object | None:
    """The field that says what the annotation does, None if it says nothing valid."""
    if annotation.startswith(_LOCALHOST):
        name = annotation.removeprefix(_LOCALHOST)
        return {"type": "Localhost", "localhostProfile": name} if name and name.strip() == name else None
    kind = _APP_ARMOR_TYPES.get(annotation)
    return None if kind is None else {"type": kind}


def changed_annotation_causes(annotations: Object, old: Object, path: str) -> Causes:
    """The faults of adding, changing or removing what is fixed when a pod is made."""
    for key in sorted({*annotations, *old}):
        if annotations.get(key) == old.get(key):
            continue
        done = "add" if key not in old else "remove or update"
        if key.startswith(APP_ARMOR_PREFIX):
            yield value_forbidden(f"{path}[{key}]", f"may not {done} AppArmor annotations")
        if key == MIRROR:
            yield value_forbidden(f"{path}[{key}]", f"may not {done} mirror pod annotation")
