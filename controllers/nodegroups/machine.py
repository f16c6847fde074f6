"""Machines of Cluster API: their states, and the provider IDs that they share with nodes."""

import datetime
import re
from collections.abc import Mapping
from typing import Any, Literal

from attrs import frozen

from reconcile import Object

from .group_annotations import DELETE_MACHINE, MARKED

MachineState = Literal["pending", "running", "deleting", "failed"]
_SLASHES = re.compile(r"/{2,}")


@frozen
class Machine:
    """`provider` is empty before there is an instance. A `marked` machine is removed before others."""

    name: str
    uid: str
    object: Object
    created: datetime.datetime
    provider: str = ""
    marked: bool = False
    marked_by_us: bool = False
    state: MachineState = "pending"
    owners: tuple[str, ...] = ()


def provider_id(text: str) -> str:
    """Normalised: `aws:///zone/id` and `aws:////zone/id` are one instance."""
    scheme, colon, rest = text.partition(":")
    return f"{scheme}:{_SLASHES.sub('/', rest)}" if colon else text


def read_machine(manifest: Mapping[str, Any], obj: Object) -> Machine:
    """A Machine of v1beta1 or v1beta2. Raises ValueError if no server has stored it."""
    metadata, spec, status = (manifest.get(part) or {} for part in ("metadata", "spec", "status"))
    provider = spec.get("providerID") or ""
    created = obj.metadata.creation_timestamp
    if created is None:
        raise ValueError("a machine that no server has stored")
    return Machine(
        metadata["name"],
        metadata["uid"],
        obj,
        created,
        provider_id(provider),
        DELETE_MACHINE in (metadata.get("annotations") or {}),
        MARKED in (metadata.get("annotations") or {}),
        _state(metadata, status, provider),
        tuple(one["uid"] for one in metadata.get("ownerReferences") or ()),
    )


def _state(metadata: Mapping[str, Any], status: Mapping[str, Any], provider: str) -> MachineState:
    if metadata.get("deletionTimestamp") or status.get("phase") == "Deleting":
        return "deleting"
    if _has_failed(status):
        return "failed"
    return "running" if provider else "pending"


def _has_failed(status: Mapping[str, Any]) -> bool:
    """Whether there is a terminal error; v1beta2 has moved its fields into `deprecated`."""
    former = ((status.get("deprecated") or {}).get("v1beta1")) or {}
    said = [fields.get(name) for fields in (status, former) for name in ("failureReason", "failureMessage")]
    return any(said) or status.get("phase") == "Failed"
