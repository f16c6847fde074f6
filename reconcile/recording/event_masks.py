"""Makes events that are fit to be written: with secrets masked, in the thread that writes."""

from collections.abc import Mapping, Sequence
from functools import lru_cache

import msgspec

from informers import Snapshot
from informers.transport import HttpRequest
from reconcile.recording.recorded_events import (
    Answered,
    Began,
    Changed,
    Ended,
    RecordedCause,
    Sent,
    Stored,
    resource_of,
    resource_text,
)
from reconcile.recording.secret_masks import Place, SecretMasks
from reconcile.runs.run_request import Cause

_REFUSED = 400
"""The least status of an answer that may quote what it refuses."""


def began(
    at: int,
    run: int,
    cluster: str,
    controller: str,
    namespace: str,
    name: str,
    attempt: int,
    epoch: int,
    causes: Sequence[Cause],
    masks: SecretMasks,
) -> Began:
    recorded = [_cause(cause) for cause in causes]
    return Began(at, run, cluster, controller, namespace, name, attempt, epoch, recorded)


def _cause(cause: Cause) -> RecordedCause:
    return RecordedCause(
        cause.verb,
        "" if cause.resource is None else resource_text(cause.resource),
        *(cause.key or ("", "")),
        cause.version,
        cause.note,
        cause.echo,
        cause.since,
        list(cause.paths),
        cause.manager,
    )


def sent(
    at: int,
    run: int,
    number: int,
    cluster: str,
    request: HttpRequest,
    secrets: Sequence[bytes],
    masks: SecretMasks,
) -> Sent:
    body = request.body if request.body is None else _masked(masks, request.path, request.body, secrets)
    query = {name: _text(masks, value, secrets) for name, value in request.query.items()}
    kind = request.headers.get("content-type", "")
    return Sent(at, run, number, cluster, request.method, request.path, query, kind, body)


def answered(
    at: int,
    run: int,
    number: int,
    request: HttpRequest,
    status: int,
    headers: Mapping[str, str],
    body: bytes,
    secrets: Sequence[bytes],
    masks: SecretMasks,
) -> Answered:
    if status >= _REFUSED:
        secrets = (*secrets, *masks.fields_of(place_in(request.path)[0], request.body))
    return Answered(at, run, number, status, dict(headers), _masked(masks, request.path, body, secrets))


def failed(
    at: int,
    run: int,
    number: int,
    error: str,
    message: str,
    secrets: Sequence[bytes],
    masks: SecretMasks,
) -> Answered:
    return Answered(at, run, number, 0, {}, b"", error, _text(masks, message, secrets))


def changed(event: Changed, masks: SecretMasks) -> Changed:
    place = _place_of(event.resource)
    event.objects = [masks.exposed(masks.body(place, "", body)) for body in event.objects]
    if masks.is_sensitive(place):
        for body in event.objects:
            (masks.drop if event.op in ("remove", "leave") else masks.keep)(event.cluster, place, body)
        if event.op == "lose":
            masks.forget(event.cluster, place, event.namespace, event.name)
    return event


def ended(event: Ended, secrets: Sequence[bytes], masks: SecretMasks) -> Ended:
    event.message = _text(masks, event.message, secrets)
    return event


def stored(
    at: int,
    cluster: str,
    resource: str,
    part: str,
    version: int,
    snapshots: Sequence[Snapshot],
    notes: Sequence[bytes],
    masks: SecretMasks,
) -> Stored:
    place, objects = _place_of(resource), []
    for snapshot, note in zip(snapshots, notes, strict=True):
        if masks.is_sensitive(place):
            # Marks of applies are those of the secrets themselves: the whole object has to be marked anew.
            kept = masks.kept(cluster, place, *snapshot.key, snapshot.version)
            objects.append((kept or masks.body(place, "", snapshot.raw), b"", b""))
        else:
            objects.append((masks.exposed(snapshot.raw), snapshot.applied, note))
    return Stored(at, cluster, resource, part, version, objects)


def _masked(masks: SecretMasks, path: str, body: bytes, secrets: Sequence[bytes]) -> bytes:
    place, subresource = place_in(path)
    masked = masks.body(place, subresource, body)
    return masks.elsewhere(masked, secrets) if secrets else masks.exposed(masked)


def _text(masks: SecretMasks, text: str, secrets: Sequence[bytes]) -> str:
    if not text:
        return text
    body = msgspec.json.encode(text)
    shown: str = msgspec.json.decode(masks.elsewhere(body, secrets) if secrets else masks.exposed(body))
    return shown


@lru_cache(1_000)
def _place_of(resource: str) -> Place:
    found = resource_of(resource)
    return found.group, found.plural


@lru_cache(1_000)
def place_in(path: str) -> tuple[Place, str]:
    """Group and plural of the resource that a path names, and the subresource; empty for other paths."""
    parts = path.strip("/").split("/")
    if parts[0] == "api" and len(parts) > 2:
        group, rest = "", parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, rest = parts[1], parts[3:]
    else:
        return ("", ""), ""
    if rest[0] == "namespaces" and len(rest) > 2:
        rest = rest[2:]
    return (group, rest[0]), rest[2] if len(rest) > 2 else ""
