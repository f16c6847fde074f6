"""Writes of the number of replicas, through the subresource /scale: no other field is touched."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any

import anyio
import msgspec

from informers import Invalid, PreconditionFailed, Snapshot, StaleVersion
from reconcile.client.object_reads import object_path
from reconcile.client.object_writes import ObjectWrites
from reconcile.client.patch_types import APPLY, JSON_PATCH, PatchType
from reconcile.client.sender import json_object
from reconcile.models import Object, kind_of
from reconcile.runs.write_events import Answered, Sent

SCALE_ATTEMPTS = 5
SCALE_WAIT = 0.1
"""Seconds, varied by up to half."""


class _ScaleSpec(msgspec.Struct):
    replicas: int | None = None


class _ScaleMetadata(msgspec.Struct):
    uid: Annotated[str, msgspec.Meta(min_length=1)]  # a write of the number is guarded by it


class _Scale(msgspec.Struct):
    metadata: _ScaleMetadata
    spec: _ScaleSpec | None = None


async def scale(writes: ObjectWrites, obj: Object, decide: Callable[[int], int]) -> int:
    refused: tuple[Invalid, Any] | None = None
    for _ in range(SCALE_ATTEMPTS):
        current = await _read_scale(writes, obj)
        # A failed `test` and a number that the server refuses are both Invalid. If the spec is still the
        # one that was tested, then it was the number.
        if refused is not None and refused[1] == current["spec"]:
            raise refused[0]
        replicas = current["spec"].get("replicas") or 0
        desired = decide(replicas)
        if desired == replicas:
            return replicas
        try:
            await _replace_scale(writes, obj, current, desired)
        except Invalid as error:
            refused = error, current["spec"]
        except StaleVersion:
            refused = None
        else:
            return desired
        await anyio.sleep(SCALE_WAIT * (0.5 + writes.core.clock.random()))
    raise StaleVersion(409, "Conflict", f"others keep changing the replicas of {str(obj.key)!r}")


async def set_scale(writes: ObjectWrites, obj: Object, replicas: int, expect: int) -> None:
    current = await _read_scale(writes, obj)
    actual = current["spec"].get("replicas") or 0
    stale = StaleVersion(409, "Conflict", f"{str(obj.key)!r} has {actual} replicas, not {expect}")
    if actual != expect:
        raise stale
    try:
        await _replace_scale(writes, obj, current, replicas)
    except Invalid as error:
        if (await _read_scale(writes, obj))["spec"] == current["spec"]:
            raise
        raise stale from error


async def apply_scale(writes: ObjectWrites, obj: Object, replicas: int, force: bool) -> int:
    metadata = {"name": obj.name, "namespace": obj.namespace, "uid": obj.uid}
    body = {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {name: value for name, value in metadata.items() if value},
        "spec": {"replicas": replicas},
    }
    query = {"force": "true" if force else "false"}
    _, scaled = await _send_scale(writes, obj, body, APPLY, query)
    return scaled


async def _read_scale(writes: ObjectWrites, obj: Object) -> dict[str, Any]:
    resource = kind_of(obj).resource
    key = writes.core.key_of(resource, obj.key)
    path = object_path(resource, key, "scale")
    current = await writes.reads.ask(resource, key, path, read=_readable_scale)
    if obj.uid and current["metadata"]["uid"] != obj.uid:
        raise PreconditionFailed(409, "Conflict", f"{str(obj.key)!r} was replaced by another of its name")
    return current


async def _replace_scale(
    writes: ObjectWrites, obj: Object, current: Mapping[str, Any], replicas: int
) -> None:
    # Spec is compared whole: a Scale of 0 replicas leaves the number out.
    operations = [
        {"op": "test", "path": "/metadata/uid", "value": current["metadata"]["uid"]},
        {"op": "test", "path": "/spec", "value": current["spec"]},
        {"op": "replace", "path": "/spec", "value": {"replicas": replicas}},
    ]
    await _send_scale(writes, obj, operations, JSON_PATCH)


async def _send_scale(
    writes: ObjectWrites,
    obj: Object,
    body: Any,
    patch_type: PatchType,
    query: Mapping[str, str] | None = None,
) -> tuple[Snapshot, int]:
    resource = kind_of(obj).resource
    key = writes.core.key_of(resource, obj.key)
    return await writes.send(
        "PATCH", resource, key, body, patch_type.headers, _scale_answered, _scale_in, "scale", query
    )


def _scale_answered(sent: Sent, reply: tuple[Snapshot, int]) -> Answered:
    return Answered(sent, scale=reply[0])


def _readable_scale(answer: bytes) -> dict[str, Any]:
    """A Scale with a uid, and a spec whose replicas, if any, are a number."""
    current = json_object(answer)
    msgspec.convert(current, _Scale)
    return {**current, "spec": current.get("spec") or {}}


def _scale_in(answer: bytes) -> tuple[Snapshot, int]:
    return Snapshot.from_json(answer), _readable_scale(answer)["spec"].get("replicas") or 0
