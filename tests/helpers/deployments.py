"""Deployments for tests, as manifests."""

from collections.abc import Mapping, Sequence
from typing import Any

LABELS = {"a": "b"}
CONTAINER = {"name": "c", "image": "i"}


def deployment(
    name: str = "d", *, containers: Sequence[Mapping[str, Any]] = (CONTAINER,), **spec: Any
) -> dict[str, Any]:
    """A manifest that a server accepts; further arguments are fields of its spec."""
    template = {"metadata": {"labels": LABELS}, "spec": {"containers": [*containers]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"matchLabels": LABELS}, "template": template, **spec},
    }
