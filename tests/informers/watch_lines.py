"""What a watch of pods sends."""

import json
from typing import Any


def pod(name: str, version: int) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "ns", "uid": name, "resourceVersion": str(version)}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": metadata}


def line(kind: str, content: dict[str, Any]) -> bytes:
    return json.dumps({"type": kind, "object": content}).encode() + b"\n"


def whole(version: int) -> bytes:
    """The bookmark that ends a first state."""
    annotations = {"k8s.io/initial-events-end": "true"}
    return line("BOOKMARK", {"metadata": {"resourceVersion": str(version), "annotations": annotations}})


def error(code: int, reason: str) -> bytes:
    return line("ERROR", {"kind": "Status", "code": code, "reason": reason, "message": "no"})
