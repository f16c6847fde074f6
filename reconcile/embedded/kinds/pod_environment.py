"""The rules for environment variables, and for fields that files and variables take from their pod."""

import re
from collections.abc import Collection, Iterator
from typing import Final

from informers.apimachinery.name_rules import label_faults, label_key_faults, subdomain_faults
from informers.apimachinery.quantities import canonical_quantity
from reconcile.embedded.kinds.built_in_kind import Object
from reconcile.embedded.kinds.path_rules import local_path_causes
from reconcile.embedded.kinds.pod_parts import each
from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.protocol.field_causes import (
    all_invalid,
    value_invalid,
    value_not_supported,
    value_required,
)

_OF_VARIABLES: Final = (
    "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName",
    "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs",
)  # fmt: skip
OF_FILES: Final = (
    "metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid",
)  # fmt: skip
"""The fields that a file of a volume can show."""
_SUBSCRIPTED: Final = ("metadata.annotations", "metadata.labels")
# ConvertDownwardAPIFieldLabel in pkg/apis/core/pods/helpers.go.
_CONVERTED: Final = frozenset(
    {*_OF_VARIABLES, *OF_FILES, "spec.restartPolicy", "spec.schedulerName", "status.phase", "spec.host"}
)
_RESOURCES: Final = tuple(
    f"{kind}.{name}" for kind in ("limits", "requests") for name in ("cpu", "ephemeral-storage", "memory")
)
_HUGE_PAGES: Final = ("limits.hugepages-", "requests.hugepages-")
_CPU_DIVISORS: Final = ("1m", "1")
_BYTE_DIVISORS: Final = ("1", *(f"1{unit}" for unit in "kMGTPE"), *(f"1{unit}i" for unit in "KMGTPE"))
_SUBSCRIPT: Final = re.compile(r"(?P<path>.+?)\['(?P<key>.*)'\]", re.DOTALL)
_DATA_KEY: Final = re.compile("[-._a-zA-Z0-9]+")
_LONGEST_KEY: Final = 253


# --- variables --------------------------------------------------------------------------------


def environment_causes(container: Object, path: str) -> Iterator[FieldCause]:
    """The faults of `env` and `envFrom` of a container."""
    for index, variable in enumerate(each(container, "env")):
        place = f"{path}.env[{index}]"
        if not variable.get("name"):
            yield value_required(f"{place}.name")
        else:
            yield from all_invalid(f"{place}.name", variable["name"], _variable_name_faults(variable["name"]))
        if variable.get("valueFrom") is not None:
            yield from _source_causes(variable, f"{place}.valueFrom")
    for index, source in enumerate(each(container, "envFrom")):
        yield from _collective_causes(source, f"{path}.envFrom", index)


def _variable_name_faults(name: str) -> list[str]:
    """The relaxed rule: printable ASCII but for `=`."""
    if name and all(" " <= sign <= "~" and sign != "=" for sign in name):
        return []
    return [
        "a valid environment variable name must consist only of printable ASCII characters other than '='"
    ]


def _source_causes(variable: Object, path: str) -> Iterator[FieldCause]:
    source = variable["valueFrom"]
    given = [name for name in _SOURCE_RULES if source.get(name) is not None]
    for name in given:
        yield from _SOURCE_RULES[name](source[name], f"{path}.{name}")
    if not given:
        named = "`, `".join(_SOURCE_RULES)
        yield value_invalid(path, "", f"must specify one of: `{named}`")
    elif variable.get("value"):
        yield value_invalid(path, "", "may not be specified when `value` is not empty")
    elif len(given) > 1:
        yield value_invalid(path, "", "may not have more than one field specified at a time")


def _variable_field_causes(reference: Object, path: str) -> Iterator[FieldCause]:
    return field_causes(reference, path, _OF_VARIABLES)


def _variable_resource_causes(reference: Object, path: str) -> Iterator[FieldCause]:
    return resource_causes(reference, path, of_volume=False)


def _key_causes(selector: Object, path: str) -> Iterator[FieldCause]:
    name, key = selector.get("name") or "", selector.get("key") or ""
    yield from all_invalid(f"{path}.name", name, subdomain_faults(name))
    if not key:
        yield value_required(f"{path}.key")
    else:
        yield from all_invalid(f"{path}.key", key, _data_key_faults(key))


def _data_key_faults(key: str) -> list[str]:
    """The rule for the keys of ConfigMaps and Secrets (IsConfigMapKey)."""
    faults = [] if len(key) <= _LONGEST_KEY else [f"must be no more than {_LONGEST_KEY} bytes"]
    if not _DATA_KEY.fullmatch(key):
        faults.append("a valid config key must consist of alphanumeric characters, '-', '_' or '.'")
    if key in (".", ".."):
        faults.append(f"must not be '{key}'")
    elif key.startswith(".."):
        faults.append("must not start with '..'")
    return faults


def _file_key_causes(selector: Object, path: str) -> Iterator[FieldCause]:
    volume, key, file = (selector.get(name) or "" for name in ("volumeName", "key", "path"))
    if not volume:
        yield value_required(f"{path}.volumeName")
    else:
        yield from all_invalid(f"{path}.volumeName", volume, label_faults(volume))
    if not file:
        yield value_required(f"{path}.path")
    else:
        yield from local_path_causes(file, f"{path}.path")
    if not key:
        yield value_required(f"{path}.key")
    else:
        yield from all_invalid(f"{path}.key", key, _variable_name_faults(key))


_SOURCE_RULES: Final = {
    "fieldRef": _variable_field_causes,
    "resourceFieldRef": _variable_resource_causes,
    "configMapKeyRef": _key_causes,
    "secretKeyRef": _key_causes,
    "fileKeyRef": _file_key_causes,
}


def _collective_causes(source: Object, path: str, index: int) -> Iterator[FieldCause]:
    place, prefix = f"{path}[{index}]", source.get("prefix") or ""
    if prefix:
        yield from all_invalid(f"{place}.prefix", prefix, _variable_name_faults(prefix))
    given = [name for name in ("configMapRef", "secretRef") if source.get(name) is not None]
    for name in given:
        named = source[name].get("name") or ""
        if not named:
            yield value_required(f"{place}.{name}.name")
        else:
            # Checked as the beginning of a name, which may end in a dash.
            yield from all_invalid(f"{place}.{name}.name", named, subdomain_faults(_without_last_dash(named)))
    if not given:
        yield value_invalid(path, "", "must specify one of: `configMapRef` or `secretRef`")
    elif len(given) > 1:
        yield value_invalid(path, "", "may not have more than one field specified at a time")


def _without_last_dash(name: str) -> str:
    """The name with a letter in place of its last dash (maskTrailingDash)."""
    return f"{name[:-2]}a" if len(name) > 1 and name.endswith("-") else name


# --- what is taken from the pod ---------------------------------------------------------------


def field_causes(reference: Object, path: str, allowed: Collection[str]) -> Iterator[FieldCause]:
    """The faults of an ObjectFieldSelector."""
    version, field = reference.get("apiVersion") or "", reference.get("fieldPath") or ""
    for name, value in (("apiVersion", version), ("fieldPath", field)):
        if not value:
            yield value_required(f"{path}.{name}")
            return
    found = _SUBSCRIPT.fullmatch(field)
    known = found["path"] in _SUBSCRIPTED if found else field in _CONVERTED
    if version != "v1" or not known:
        yield value_invalid(f"{path}.fieldPath", field, "error converting fieldPath: it is not supported")
    elif found:
        key = found["key"].lower() if found["path"] == "metadata.annotations" else found["key"]
        yield from all_invalid(path, key, label_key_faults(key))
    elif field.replace("spec.host", "spec.nodeName") not in allowed and field not in allowed:
        yield value_not_supported(f"{path}.fieldPath", field, sorted(allowed))


def resource_causes(reference: Object, path: str, *, of_volume: bool) -> Iterator[FieldCause]:
    """The faults of a ResourceFieldSelector; a file also says of which container."""
    resource = reference.get("resource") or ""
    if of_volume and not reference.get("containerName"):
        yield value_required(f"{path}.containerName")
    elif not resource:
        yield value_required(f"{path}.resource")
    elif resource not in _RESOURCES and not resource.startswith(_HUGE_PAGES):
        yield value_not_supported(f"{path}.resource", resource, _RESOURCES)
    divisor = reference.get("divisor")
    divisors = _divisors_of(resource)
    if divisor is not None and divisors and _canonical(divisor) not in ("0", *divisors):
        why = f"only divisor's values {', '.join(divisors)} are supported with this resource"
        yield value_invalid(f"{path}.divisor", resource, why)


def _divisors_of(resource: str) -> tuple[str, ...]:
    if resource.endswith(".cpu"):
        return _CPU_DIVISORS if resource in _RESOURCES else ()
    return _BYTE_DIVISORS if resource in _RESOURCES or resource.startswith(_HUGE_PAGES) else ()


def _canonical(quantity: object) -> str:
    try:
        return canonical_quantity(str(quantity))
    except ValueError:
        return ""
