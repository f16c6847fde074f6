"""ConfigMaps and Secrets."""

import base64
import binascii
import datetime
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from reconcile.embedded.kinds.built_in_kind import BuiltInKind, Object
from reconcile.embedded.kinds.key_pairs import key_pair_fault
from reconcile.embedded.kubectl.printing import AGE, NAMES, View, at, count
from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.protocol.field_causes import (
    value_forbidden,
    value_invalid,
    value_required,
    value_too_long,
)
from reconcile.embedded.refusals import bad_request
from reconcile.embedded.served import CellColumn

# MaxSecretSize in pkg/apis/core, which ConfigMaps share.
MAX_DATA_BYTES = 1024 * 1024
_JSON_DATA = {
    "kubernetes.io/dockercfg": ".dockercfg",
    "kubernetes.io/dockerconfigjson": ".dockerconfigjson",
}
_TLS = "kubernetes.io/tls"
_REQUIRED_DATA = {
    _TLS: ("tls.crt", "tls.key"),
    **{kind: (key,) for kind, key in _JSON_DATA.items()},
}
_DATA_KEY = re.compile(r"[-._a-zA-Z0-9]+")


def _validate_config_map(config: Object, old: Object | None) -> Iterator[FieldCause]:
    data, binary = config.get("data") or {}, config.get("binaryData") or {}
    for key, value in binary.items():
        _decoded(value, f"binaryData.{key}")
    yield from _data_key_causes("data", data)
    yield from _data_key_causes("binaryData", binary)
    for key in data:
        if key in binary:
            yield value_invalid(f"data[{key}]", key, "duplicate of key present in binaryData")
    size = sum(len(value.encode()) for value in data.values())
    size += sum(len(value) * 3 // 4 for value in binary.values())
    if size > MAX_DATA_BYTES:
        yield value_too_long("[]", MAX_DATA_BYTES)
    yield from _immutable_causes(config, old, "data", "binaryData")


def _default_secret(secret: Object) -> None:
    text = secret.pop("stringData", None)
    if text:
        encoded = {key: base64.b64encode(value.encode()).decode() for key, value in text.items()}
        secret["data"] = {**(secret.get("data") or {}), **encoded}
    if not secret.get("type"):
        secret["type"] = "Opaque"
    _drop_empty(secret, "data")


def _validate_secret(secret: Object, old: Object | None) -> Iterator[FieldCause]:
    data = secret.get("data") or {}
    size = sum(len(_decoded(value, f"data.{key}")) for key, value in data.items())
    yield from _data_key_causes("data", data)
    if size > MAX_DATA_BYTES:
        yield value_too_long("data", MAX_DATA_BYTES)
    for key in _REQUIRED_DATA.get(secret["type"], ()):
        if key not in data:
            yield value_required(f"data[{key}]")
    yield from _secret_type_causes(secret, data)
    if old is not None and old.get("type") != secret["type"]:
        yield value_invalid("type", secret["type"], "field is immutable")
    yield from _immutable_causes(secret, old, "data")


def _secret_type_causes(secret: Object, data: Mapping[str, Any]) -> Iterator[FieldCause]:
    kind = secret["type"]
    if kind == "kubernetes.io/ssh-auth" and not data.get("ssh-privatekey"):
        yield value_required("data[ssh-privatekey]")
    if kind == "kubernetes.io/basic-auth" and not {"username", "password"} & data.keys():
        yield value_required("data[username]")
        yield value_required("data[password]")
    if kind == "kubernetes.io/service-account-token":
        annotation = "kubernetes.io/service-account.name"
        if not (secret["metadata"].get("annotations") or {}).get(annotation):
            yield value_required(f"metadata.annotations[{annotation}]")
    key = _JSON_DATA.get(kind)
    if key is not None and key in data and not _is_json_object(_decoded(data[key], f"data.{key}")):
        yield value_invalid(f"data[{key}]", "<secret contents redacted>", "is not a valid JSON object")


def _is_json_object(text: bytes) -> bool:
    """Whether Go reads the text into a map, into which null goes too."""
    try:
        return isinstance(msgspec.json.decode(text), dict | None)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False


def _secret_warnings(secret: Object, _old: Object | None) -> list[str]:
    if secret["type"] != _TLS:
        return []
    data = secret.get("data") or {}
    certificate, key = (_decoded(data.get(name), f"data.{name}") for name in _REQUIRED_DATA[_TLS])
    fault = key_pair_fault(certificate, key)
    return [fault] if fault else []


def _drop_empty(obj: Object, *members: str) -> None:
    for member in members:
        if member in obj and not obj[member]:
            del obj[member]


def _data_key_causes(field: str, data: Mapping[str, Any]) -> Iterator[FieldCause]:
    why = (
        "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or "
        "'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
    )
    for key in data:
        if not _DATA_KEY.fullmatch(key) or key in (".", "..") or len(key) > 253:
            yield value_invalid(f"{field}[{key}]", key, why)


def _decoded(value: object, path: str) -> bytes:
    try:
        return base64.b64decode(value or "", validate=True)  # type: ignore[arg-type]
    except (binascii.Error, TypeError, ValueError) as error:
        raise bad_request(f"{path}: illegal base64 data: {error}") from error


def _immutable_causes(obj: Object, old: Object | None, *fields: str) -> Iterator[FieldCause]:
    if old is None or not old.get("immutable"):
        return
    why = "field is immutable when `immutable` is set"
    if not obj.get("immutable"):
        yield value_forbidden("immutable", why)
    for name in fields:
        if (obj.get(name) or {}) != (old.get(name) or {}):
            yield value_forbidden(name, why)


def _configmap_data(obj: View, _now: datetime.datetime) -> int:
    return len(obj.get("data") or ()) + len(obj.get("binaryData") or ())


KINDS: Final = (
    BuiltInKind(
        "", "ConfigMap", short_names=("cm",),
        defaults=lambda config_map: _drop_empty(config_map, "data", "binaryData"),
        checks=_validate_config_map,
        names_missing_fields=True,
        metadata_fault_copies=4,
        columns=(NAMES, CellColumn("Data", _configmap_data, "integer"), AGE),
        messages={
            "ConfigMap": {
                1: "metadata:ObjectMeta", 2: "data:{string}", 3: "binaryData:{bytes}", 4: "immutable:*bool",
            },
        },
        viewed=("",),
        edited=("",),
    ),
    BuiltInKind(
        "", "Secret", selectable_fields=(".type",),
        defaults=_default_secret,
        checks=_validate_secret,
        names_missing_fields=True,
        warnings=_secret_warnings,
        metadata_fault_copies=4,
        columns=(NAMES, CellColumn("Type", at("type")), CellColumn("Data", count("data"), "integer"), AGE),
        messages={
            "Secret": {
                1: "metadata:ObjectMeta", 2: "data:{bytes}", 3: "type:string", 4: "stringData:{string}",
                5: "immutable:*bool",
            },
        },
        edited=("",),
    ),
)  # fmt: skip
