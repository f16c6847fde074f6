"""Request bodies: from bytes to an object of the right kind, with its faults."""

import json
import math
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

import msgspec
from attrs import frozen

from reconcile.embedded.api import APPLY_PATCH, ApiRequest, RequestTarget, patch_types
from reconcile.embedded.protocol.api_failure import ApiFailure, FieldCause
from reconcile.embedded.protocol.field_causes import (
    value_forbidden,
    value_invalid,
    value_not_supported,
    value_required,
    value_too_long,
)
from reconcile.embedded.protocol.object_metadata import type_fault
from reconcile.embedded.protocol.request_info import flag
from reconcile.embedded.refusals import (
    bad_request,
    invalid_options,
    too_deep,
    unsupported_media_type,
    wrong_kind,
)
from reconcile.embedded.schema.json_values import is_deeper, whole_numbers
from reconcile.embedded.served import ServedResource

# Twice what etcd takes, since JSON is larger than what is stored (MaxRequestBodyBytes in config.go).
MAX_BODY_BYTES = 3 * 1024 * 1024
# Nesting of an object; a real server reads 10,000, but no kind uses a hundredth of that.
MAX_DEPTH = 200
# FieldManagerMaxLength in apimachinery's meta/v1/validation.
MAX_MANAGER_LENGTH = 128
# Characters of all warnings of an answer, beyond which each is cut to MAX_LONG_WARNING: truncateAtTotalRunes
# and truncateItemRunes in apiserver's endpoints/filters/warning.go.
MAX_WARNINGS = 4096
MAX_LONG_WARNING = 256
READABLE = ("application/json", "application/yaml")
WARNING = re.compile(r'299 - "(?:[^"\\]|\\.)*"')
"""One warning of a Warning header."""

_SHOWN = 40
_VALIDATIONS = ("Ignore", "Strict", "Warn")


@frozen
class WriteOptions:
    dry_run: bool = False
    manager: str = "unknown"
    validation: str = "Warn"
    force: bool = False


def write_options(request: ApiRequest, kind: str) -> WriteOptions:
    """The options in the query; `kind` names them in errors: CreateOptions, UpdateOptions, PatchOptions."""
    query = request.query
    manager = query.get("fieldManager", "")
    causes = _patch_causes(request) if kind == "PatchOptions" else []
    if manager:
        causes += _manager_causes(manager)
    if query.get("dryRun"):
        causes += dry_run_causes([query["dryRun"]])
    validation = query.get("fieldValidation") or "Warn"
    if validation not in _VALIDATIONS:
        causes.append(value_not_supported("fieldValidation", validation, ("", *_VALIDATIONS)))
    if causes:
        raise invalid_options(kind, causes)
    dry_run = query.get("dryRun") == "All"
    agent = request.headers.get("user-agent", "").partition("/")[0][:MAX_MANAGER_LENGTH]
    return WriteOptions(dry_run, manager or agent or "unknown", validation, flag(query, "force"))


def _patch_causes(request: ApiRequest) -> list[FieldCause]:
    if media_type(request) != APPLY_PATCH:
        forced = "force" in request.query
        return [value_forbidden("force", "may not be specified for non-apply patch")] if forced else []
    if not request.query.get("fieldManager"):
        return [value_required("fieldManager", "is required for apply patch")]
    return []


def _manager_causes(manager: str) -> list[FieldCause]:
    causes: list[FieldCause] = []
    if len(manager.encode()) > MAX_MANAGER_LENGTH:
        causes.append(value_too_long("fieldManager", MAX_MANAGER_LENGTH))
    for position, letter in enumerate("" if manager.isprintable() else manager):
        if not letter.isprintable():
            why = f"invalid character U+{ord(letter):04X} (at position {position})"
            causes.append(value_invalid("fieldManager", manager, why))
    return causes


def dry_run_causes(values: Sequence[object]) -> list[FieldCause]:
    if all(value == "All" for value in values):
        return []
    return [value_not_supported("dryRun", f"{values}", ("All",))]


def media_type(request: ApiRequest) -> str:
    """The Content-Type without its parameters."""
    return _media_type(request.headers.get("content-type", ""))


@lru_cache(maxsize=64)
def _media_type(header: str) -> str:
    return header.partition(";")[0].strip().lower()


def patch_type(request: ApiRequest, resource: ServedResource) -> str:
    """The media type of a patch. Raises ApiFailure (415) if the resource does not take it."""
    kind, accepted = media_type(request), patch_types(resource)
    if kind not in accepted:
        raise unsupported_media_type(accepted)
    return kind


def read_body(request: ApiRequest, duplicates: list[str]) -> Any:
    """The decoded body of a request; `duplicates` receives duplicate keys."""
    kind = media_type(request)
    if kind and kind not in READABLE:
        raise unsupported_media_type(READABLE)
    if kind == "application/yaml":
        return parse_yaml(request.body, duplicates)
    return parse_json(request.body, duplicates)


def read_kind(request: ApiRequest, kind: str) -> dict[str, Any]:
    """The body of a request that a subresource takes; it may omit its kind."""
    body = read_body(request, [])
    if not isinstance(body, dict) or body.get("kind", kind) != kind:
        raise bad_request(f"the object provided is unrecognized (must be of type {kind})")
    return body


def parse_json(body: bytes, duplicates: list[str] | None = None) -> Any:
    """Decode JSON as the real server does: `1.0` is no integer yet.

    `duplicates` receives duplicate keys. Raises ApiFailure: 400 if the body is not JSON or nested too deeply,
    413 if it is too large.
    """
    obj = _parse_plain(body)
    return _checked(_parse_closely(body, duplicates) if obj is None else obj, body)


def _checked(value: Any, body: bytes) -> Any:
    return value if body.count(b"{") + body.count(b"[") <= MAX_DEPTH else check_depth(value)


def check_depth(value: Any) -> Any:
    """The value. Raises ApiFailure (400) if it is nested more than `MAX_DEPTH` deep."""
    if is_deeper(value, MAX_DEPTH):
        raise too_deep()
    return value


def _parse_plain(body: bytes) -> Any:
    """JSON in the form that our own clients write, which the fast decoder reads correctly; else None."""
    if len(body) > MAX_BODY_BYTES:
        raise too_large()
    try:
        obj = _DECODER.decode(body)
        return obj if msgspec.json.encode(obj) == body else None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _parse_closely(body: bytes, duplicates: list[str] | None) -> Any:
    """Finds what the fast decoder does not: duplicate keys, and the API server's error messages."""

    def collect(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        obj = dict(pairs)
        if len(obj) < len(pairs) and duplicates is not None:
            seen: set[str] = set()
            duplicates.extend(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        return obj

    try:
        text = body.decode()  # json would guess at other encodings, and let halves of surrogate pairs pass
        obj = json.loads(
            text, object_pairs_hook=collect, parse_float=_finite, parse_constant=_refuse_constant
        )
        json.dumps(obj, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise bad_request(
            f"the object provided is unrecognized (must be of type Object): {_told(error)}"
        ) from error
    return obj


def _told(error: Exception) -> str:
    """The fault of a body, without its contents."""
    if isinstance(error, UnicodeEncodeError):
        return "invalid UTF-8: half of a surrogate pair"
    if isinstance(error, UnicodeDecodeError):
        return f"invalid UTF-8 at byte {error.start}: {error.reason}"
    if isinstance(error, RecursionError):
        return "exceeded max depth"
    return str(error)


def parse_yaml(body: bytes, duplicates: list[str] | None = None) -> Any:
    """Decode YAML 1.1, which includes JSON; times stay text. `duplicates` receives duplicate keys."""
    obj = _parse_plain(body)
    if obj is None and body.lstrip()[:1] == b"{":
        obj = _parse_json_in_yaml(body, duplicates)
    if obj is not None:
        return whole_numbers(_checked(obj, body))  # it has become JSON, where 1.0 is written as 1
    from reconcile.embedded.protocol import yaml_text

    try:
        return yaml_text.load(body, duplicates, MAX_DEPTH)
    except yaml_text.YamlError as error:
        raise bad_request(f"error decoding YAML: {error}") from error
    except yaml_text.TooDeep:
        raise too_deep() from None
    except yaml_text.TooLarge as error:
        raise ApiFailure(413, "RequestEntityTooLarge", f"Request entity too large: {error}") from None


def _parse_json_in_yaml(body: bytes, duplicates: list[str] | None) -> Any:
    """kubectl sends JSON as YAML, and reading it as JSON is much faster. None for other YAML."""
    doubled: list[str] = []
    try:
        obj = _parse_closely(body, doubled)
    except ApiFailure:
        return None
    if duplicates is not None:
        duplicates += doubled
    return obj


def too_large() -> ApiFailure:
    return ApiFailure(413, "RequestEntityTooLarge", f"Request entity too large: limit is {MAX_BODY_BYTES}")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"number {text[:_SHOWN]} is out of range")
    return value


_DECODER: Final = msgspec.json.Decoder(float_hook=_finite)


def _refuse_constant(text: str) -> Any:
    raise ValueError(f"invalid character in number {text}")


# --- the object -------------------------------------------------------------------------------


def check_type(obj: Any, target: RequestTarget) -> dict[str, Any]:
    """The object, which must be of the target's kind; `metadata` becomes a dict."""
    resource = target.resource
    if obj is None and not resource.custom:
        obj = {}
    if not isinstance(obj, dict):
        raise bad_request("the object provided is unrecognized (must be of type Object): expected an object")
    _check_kind(obj, resource)
    metadata = obj.get("metadata")
    if metadata is None:
        metadata = obj["metadata"] = {}
    if not isinstance(metadata, dict):
        raise bad_request("json: cannot unmarshal metadata: expected an object")
    _fill_in_nulls(metadata, _TEXTS_OF_METADATA)
    if not resource.custom:
        _fill_in_nulls(obj, _TEXTS_OF_DATA)
    fault = type_fault(metadata)
    if fault:
        raise bad_request(f"json: cannot unmarshal {fault}")
    return obj


_TEXTS_OF_METADATA = ("labels", "annotations")
_TEXTS_OF_DATA = ("data", "stringData", "binaryData")


def _fill_in_nulls(obj: dict[str, Any], members: Sequence[str]) -> None:
    """Null becomes the empty text, as in Go."""
    for member in members:
        values = obj.get(member)
        if isinstance(values, dict) and None in values.values():
            values.update({name: "" for name, value in values.items() if value is None})


def _check_kind(obj: dict[str, Any], resource: ServedResource) -> None:
    api_version, kind = obj.get("apiVersion"), obj.get("kind")
    if not resource.custom:
        if api_version in (None, ""):
            api_version = obj["apiVersion"] = resource.api_version
        if kind in (None, ""):
            kind = obj["kind"] = resource.kind
    if not isinstance(kind, str) or not kind:
        raise bad_request("Object 'Kind' is missing")
    if api_version != resource.api_version:
        raise bad_request(
            f"the API version in the data ({api_version}) does not match the expected API version "
            f"({resource.api_version})"
        )
    if kind == resource.kind:
        return
    if not resource.custom:
        raise bad_request(f"{resource.kind} in version {resource.version} cannot be handled as a {kind}")
    name = obj["metadata"].get("name", "") if isinstance(obj.get("metadata"), dict) else ""
    raise wrong_kind(resource, kind, name)


def place(obj: dict[str, Any], target: RequestTarget) -> None:
    """Put the object into the namespace of the path; 400 if it names another."""
    metadata = obj["metadata"]
    if not target.resource.namespaced:
        metadata.pop("namespace", None)
        return
    said = metadata.get("namespace") or target.namespace
    if said != target.namespace:
        raise bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    metadata["namespace"] = target.namespace


def strict_problems(duplicates: Sequence[str], unknown: Sequence[str]) -> list[str]:
    """The faults that Strict refuses and Warn warns of."""
    return [f'duplicate field "{path}"' for path in duplicates] + [
        f'unknown field "{path}"' for path in unknown
    ]


def judge_strictly(problems: Sequence[str], options: WriteOptions, warnings: list[str]) -> None:
    """Refuse, warn or ignore, as `fieldValidation` says."""
    if not problems or options.validation == "Ignore":
        return
    if options.validation == "Strict":
        raise bad_request(f"strict decoding error: {', '.join(problems)}")
    warnings.extend(problems)


def warning_headers(warnings: Sequence[str]) -> dict[str, str]:
    """The Warning header, if there are warnings; too long ones are cut."""
    if not warnings:
        return {}
    texts = list(dict.fromkeys(warnings))
    if sum(map(len, texts)) > MAX_WARNINGS:
        texts = [text[:MAX_LONG_WARNING] for text in texts][: MAX_WARNINGS // MAX_LONG_WARNING]
    return {"warning": ", ".join(map(warning_text, texts))}


def warning_text(text: str) -> str:
    """A warning as in its header: quoted, without characters that headers cannot hold."""
    plain = re.sub(r"[\x00-\x1f\x7f-\x9f]", " ", text)
    return '299 - "{}"'.format(re.sub(r'(["\\])', r"\\\1", plain))


def require_object_name(obj: dict[str, Any], target: RequestTarget) -> None:
    name = obj["metadata"].get("name", "")
    if not name:
        raise bad_request(
            "the name of the object (based on the body) was undeterminable: name must be provided"
        )
    if name != target.name:
        raise bad_request(
            f"the name of the object ({name}) does not match the name on the URL ({target.name})"
        )
