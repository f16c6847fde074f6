"""A kind with functions that complete and refuse its objects, and reviews of it."""

from typing import Any

import msgspec
from attrs import evolve, frozen

from reconcile import Object, resource
from reconcile.webhooks import Admission, AdmissionRequest, Refusal, Warn


@frozen
class BoxSpec:
    size: int = 0
    color: str = ""


@frozen
class BoxStatus:
    boxes: int = 0


@resource("shop.example.com/v1")
class Box(Object):
    spec: BoxSpec = BoxSpec()
    status: BoxStatus = BoxStatus()


def paint(box: Box, request: AdmissionRequest) -> Box:
    return box if box.spec.color else evolve(box, spec=evolve(box.spec, color="red"))


def bounds(box: Box, old: Box | None, request: AdmissionRequest) -> list[Refusal | Warn]:
    found: list[Refusal | Warn] = []
    if box.spec.size > 9:
        found.append(Refusal(f"must be at most 9, got {box.spec.size}", "spec.size"))
    if old is not None and old.spec.color != box.spec.color:
        found.append(Warn("the color\nchanges"))
    return found


BOXES = Admission(Box, defaults=paint, refuses=bounds)


def box(spec: dict[str, Any] | None = None, **metadata: Any) -> dict[str, Any]:
    named = {"name": "a", "namespace": "default", **metadata}
    return {"apiVersion": "shop.example.com/v1", "kind": "Box", "metadata": named, "spec": spec or {}}


def review(operation: str, obj: Any = None, old: Any = None, **more: Any) -> bytes:
    """As an API server posts it: members without a value are null."""
    kind = {"group": "shop.example.com", "version": "v1", "kind": "Box"}
    request = {"uid": "u-1", "operation": operation, "kind": kind, "object": obj, "oldObject": old, **more}
    return msgspec.json.encode(
        {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    )
