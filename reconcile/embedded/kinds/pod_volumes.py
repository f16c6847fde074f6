"""The rules for the volumes of a pod: their names and sources."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from informers.apimachinery.name_rules import label_faults, subdomain_faults
from informers.apimachinery.quantities import quantity_value
from reconcile.embedded.kinds.built_in_kind import Object, required
from reconcile.embedded.kinds.claim_rules import claim_spec_causes
from reconcile.embedded.kinds.path_rules import descending_path_causes
from reconcile.embedded.kinds.pod_parts import each, part
from reconcile.embedded.kinds.projected_volumes import (
    config_map_causes,
    downward_causes,
    projected_causes,
    secret_causes,
)
from reconcile.embedded.kinds.volume_sources import csi_driver_causes, source_causes
from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.protocol.field_causes import (
    all_invalid,
    value_duplicate,
    value_forbidden,
    value_invalid,
    value_not_supported,
    value_required,
)
from reconcile.embedded.protocol.object_metadata import annotation_causes, label_causes

PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")
# Total length of <volume name>:<targetPortal> in validateVolumeSource.
_MAX_PORTAL: Final = 64
_ALLOWED_METADATA: Final = ("annotations", "labels")

Causes = Iterator[FieldCause]


def volume_causes(
    spec: Object, path: str, pod_name: str | None
) -> tuple[dict[str, Object], list[FieldCause]]:
    """The valid volumes by name, and the faults of the others; `pod_name` is None in a template."""
    volumes: dict[str, Object] = {}
    causes: list[FieldCause] = []
    given = each(spec, "volumes")
    made = {
        f"{pod_name}-{one.get('name') or ''}"
        for one in given
        if pod_name and one.get("ephemeral") is not None
    }
    for index, volume in enumerate(given):
        place, name = f"{path}.volumes[{index}]", volume.get("name") or ""
        own = list(_source_causes(volume, place, pod_name))
        own += (
            all_invalid(f"{place}.name", name, label_faults(name))
            if name
            else [value_required(f"{place}.name")]
        )
        if name in volumes:
            own.append(value_duplicate(f"{place}.name", name))
        if not own:
            volumes[name] = volume
        causes += own
        claimed = part(volume, "persistentVolumeClaim").get("claimName")
        if claimed in made:
            why = "must not reference a PVC that gets created for an ephemeral volume"
            causes.append(value_invalid(f"{place}.persistentVolumeClaim.claimName", claimed, why))
    return volumes, causes


def _source_causes(volume: Object, path: str, pod_name: str | None) -> Causes:
    name = volume.get("name") or ""
    given = [source for source in _SOURCES if volume.get(source) is not None]
    if not given:
        yield value_required(path, "must specify a volume type")
        return
    first, *more = given
    yield from _one_source_causes(first, volume[first], path)
    for source in more:
        yield value_forbidden(
            f"{path}.{_MISNAMED.get(source, source)}", "may not specify more than 1 volume type"
        )
    iscsi = part(volume, "iscsi")
    if (
        iscsi.get("initiatorName") is not None
        and len(f"{name}:{iscsi.get('targetPortal') or ''}") > _MAX_PORTAL
    ):
        why = f"Total length of <volume name>:<iscsi.targetPortal> must be under {_MAX_PORTAL} characters"
        yield value_invalid(f"{path}.name", name, why)
    if first == "ephemeral" and pod_name and name:
        yield from all_invalid(f"{path}.name", name, subdomain_faults(f"{pod_name}-{name}"))
    if first == "image" and pod_name is not None and not volume["image"].get("reference"):
        yield value_required(f"{path}.image.reference")


# --- sources that only pods have --------------------------------------------------------------


def _empty_dir(source: Object, path: str) -> Causes:
    limit = source.get("sizeLimit")
    if limit is not None and quantity_value(str(limit)) < 0:
        yield value_forbidden(f"{path}.sizeLimit", "SizeLimit field must be a valid resource quantity")


def _git_repo(source: Object, path: str) -> Causes:
    yield from required(source, path, "repository")
    yield from descending_path_causes(source.get("directory") or "", f"{path}.directory")


def _claim(source: Object, path: str) -> Causes:
    yield from required(source, path, "claimName")


def _csi(source: Object, path: str) -> Causes:
    yield from csi_driver_causes(source.get("driver") or "", f"{path}.driver")
    reference = source.get("nodePublishSecretRef")
    if reference is None:
        return
    name = reference.get("name") or ""
    if not name:
        yield value_required(f"{path}.nodePublishSecretRef.name")
    else:
        yield from all_invalid(f"{path}.name", name, subdomain_faults(name))


def _ephemeral(source: Object, path: str) -> Causes:
    template = source.get("volumeClaimTemplate")
    if template is None:
        yield value_required(f"{path}.volumeClaimTemplate")
        return
    path = f"{path}.volumeClaimTemplate"
    metadata = part(template, "metadata")
    yield from annotation_causes(part(metadata, "annotations"), f"{path}.metadata.annotations")
    yield from label_causes(part(metadata, "labels"), f"{path}.metadata.labels")
    for name, value in metadata.items():
        if value and name not in _ALLOWED_METADATA:
            yield value_forbidden(f"{path}.metadata.{'uID' if name == 'uid' else name}", "cannot be set")
    yield from claim_spec_causes(part(template, "spec"), f"{path}.spec")


def _image(source: Object, path: str) -> Causes:
    yield from pull_policy_causes(source.get("pullPolicy") or "", f"{path}.pullPolicy")


def pull_policy_causes(policy: str, path: str) -> Causes:
    """The faults of an image pull policy."""
    if not policy:
        yield value_required(path)
    elif policy not in PULL_POLICIES:
        yield value_not_supported(path, policy, PULL_POLICIES)


# --- sources that a PersistentVolume has too --------------------------------------------------


def _one_source_causes(name: str, source: Object, path: str) -> Causes:
    """The faults of a source by itself; those that PersistentVolumes have too have the same rules there."""
    if name in _RULES:
        yield from _RULES[name](source, f"{path}.{name}")
        return
    if name not in _WITH_SECRETS or source.get("secretRef") is None:
        yield from source_causes({name: source}, "", path)
        return
    # The secrets of a PersistentVolume have namespaces; those of a pod are in its own.
    whole = {**source, "secretRef": {"name": "-", "namespace": "-"}}
    yield from source_causes({name: whole}, "", path)
    if _WITH_SECRETS[name]:
        yield from required(source["secretRef"], f"{path}.{name}.secretRef", "name")


_WITH_SECRETS: Final = {"iscsi": False, "cinder": True, "storageos": True}
"""Sources that may refer to a secret, and whether its name is asked for."""
_RULES: Final[Mapping[str, Callable[[Object, str], Causes]]] = {
    "emptyDir": _empty_dir,
    "gitRepo": _git_repo,
    "secret": secret_causes,
    "persistentVolumeClaim": _claim,
    "downwardAPI": downward_causes,
    "configMap": config_map_causes,
    "projected": projected_causes,
    "csi": _csi,
    "ephemeral": _ephemeral,
    "image": _image,
}
_SOURCES: Final = (
    "emptyDir", "hostPath", "gitRepo", "gcePersistentDisk", "awsElasticBlockStore", "secret", "nfs", "iscsi",
    "glusterfs", "flocker", "persistentVolumeClaim", "rbd", "cinder", "cephfs", "quobyte", "downwardAPI",
    "fc", "flexVolume", "configMap", "azureFile", "vsphereVolume", "photonPersistentDisk", "portworxVolume",
    "azureDisk", "storageos", "projected", "scaleIO", "csi", "ephemeral", "image",
)  # fmt: skip
"""In the order in which the real server counts them."""
_MISNAMED: Final = {"cephfs": "cephFS", "downwardAPI": "downwarAPI"}
"""What the real server calls a field that is one of several."""
