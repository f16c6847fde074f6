"""The rules for volumes that the kubelet writes files into: keys of maps, fields of the pod, projections."""

from collections.abc import Iterator
from typing import Final

from reconcile.embedded.kinds.built_in_kind import Object, required
from reconcile.embedded.kinds.label_selectors import selector_causes
from reconcile.embedded.kinds.path_rules import local_path_causes
from reconcile.embedded.kinds.pod_environment import OF_FILES, field_causes, resource_causes
from reconcile.embedded.kinds.pod_parts import each
from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.protocol.field_causes import value_forbidden, value_invalid, value_required

_MAX_MODE: Final = 0o777
# A token that is good for less than ten minutes or more than 2**32 seconds is refused.
_TOKEN_SECONDS: Final = (600, 2**32)

Causes = Iterator[FieldCause]


def secret_causes(source: Object, path: str) -> Causes:
    yield from required(source, path, "secretName")
    yield from _files_causes(source, path)


def config_map_causes(source: Object, path: str) -> Causes:
    yield from required(source, path, "name")
    yield from _files_causes(source, path)


def _files_causes(source: Object, path: str) -> Causes:
    yield from _mode_causes(source, f"{path}.defaultMode")
    for index, item in enumerate(each(source, "items")):
        yield from _key_causes(item, f"{path}.items[{index}]")


def _key_causes(item: Object, path: str) -> Causes:
    yield from required(item, path, "key", "path")
    yield from local_path_causes(item.get("path") or "", f"{path}.path")
    yield from _mode_causes(item, f"{path}.mode")


def _mode_causes(holder: Object, path: str) -> Causes:
    mode = holder.get(path.rpartition(".")[2])
    if mode is not None and not 0 <= mode <= _MAX_MODE:
        yield value_invalid(path, mode, "must be a number between 0 and 0777 (octal), both inclusive")


def downward_causes(source: Object, path: str) -> Causes:
    yield from _mode_causes(source, f"{path}.defaultMode")
    for item in each(source, "items"):
        yield from _downward_file_causes(item, path)


def _downward_file_causes(item: Object, path: str) -> Causes:
    """The faults of one file; the real server does not say which one of the list it is."""
    yield from required(item, path, "path")
    yield from local_path_causes(item.get("path") or "", f"{path}.path")
    field, resource = item.get("fieldRef"), item.get("resourceFieldRef")
    if field is not None:
        yield from field_causes(field, f"{path}.fieldRef", OF_FILES)
        if resource is not None:
            yield value_invalid(
                path, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously"
            )
    elif resource is not None:
        yield from resource_causes(resource, f"{path}.resourceFieldRef", of_volume=True)
    else:
        yield value_required(path, "one of fieldRef and resourceFieldRef is required")
    yield from _mode_causes(item, f"{path}.mode")


# --- projections ------------------------------------------------------------------------------


def projected_causes(source: Object, path: str) -> Causes:
    """The faults of a projected volume, whose sources must not write to the same path."""
    yield from _mode_causes(source, f"{path}.defaultMode")
    written: set[str] = set()
    for index, projection in enumerate(each(source, "sources")):
        place = f"{path}.sources[{index}]"
        yield from _projection_causes(projection, place, path)
        for file in _written_by(projection):
            if file in written:
                yield value_invalid(path, file, "conflicting duplicate paths")
            written.add(file)
        if sum(part is not None for part in projection.values()) > 1:
            yield value_forbidden(place, "may not specify more than 1 volume type per source")


def _written_by(projection: Object) -> Iterator[str]:
    for name in ("secret", "configMap", "downwardAPI"):
        for item in each(projection.get(name) or {}, "items"):
            yield from filter(None, (item.get("path"),))
    bundle = projection.get("clusterTrustBundle")
    if bundle is not None:
        yield bundle.get("path") or ""


def _projection_causes(projection: Object, place: str, path: str) -> Causes:
    for name in ("secret", "configMap"):
        source = projection.get(name)
        if source is not None:
            yield from required(source, f"{place}.{name}", "name")
            for index, item in enumerate(each(source, "items")):
                yield from _key_causes(item, f"{place}.{name}.items[{index}]")
    for item in each(projection.get("downwardAPI") or {}, "items"):
        yield from _downward_file_causes(item, f"{place}.downwardAPI")
    if projection.get("serviceAccountToken") is not None:
        yield from _token_causes(projection["serviceAccountToken"], f"{place}.serviceAccountToken", path)
    if projection.get("clusterTrustBundle") is not None:
        yield from _bundle_causes(projection["clusterTrustBundle"], f"{place}.clusterTrustBundle")


def _token_causes(token: Object, place: str, path: str) -> Causes:
    least, most = _TOKEN_SECONDS
    seconds = token.get("expirationSeconds") or 0
    if seconds < least:
        why = "may not specify a duration less than 10 minutes"
        yield value_invalid(f"{place}.expirationSeconds", seconds, why)
    if seconds > most:
        why = "may not specify a duration larger than 2^32 seconds"
        yield value_invalid(f"{place}.expirationSeconds", seconds, why)
    # The real server looks for the path of a token at the volume.
    if not token.get("path"):
        yield value_required(f"{path}.path")
    else:
        yield from local_path_causes(token["path"], f"{path}.path")


def _bundle_causes(bundle: Object, path: str) -> Causes:
    name, signer, selector = (bundle.get(one) for one in ("name", "signerName", "labelSelector"))
    if name is not None and signer is not None:
        yield value_invalid(path, "", "only one of name and signerName may be used")
    elif name is not None:
        if not name:
            yield value_required(f"{path}.name", "must be a valid object name")
        if selector is not None:
            yield value_invalid(
                f"{path}.labelSelector", "", "labelSelector must be unset if name is specified"
            )
    elif signer is not None:
        if not signer:
            yield value_required(f"{path}.signerName", "must be a valid signer name")
        yield from selector_causes(selector, f"{path}.labelSelector")
    else:
        yield value_required(path, "either name or signerName must be specified")
    yield from required(bundle, path, "path")
    yield from local_path_causes(bundle.get("path") or "", f"{path}.path")
