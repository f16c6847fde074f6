"""Fleets as AIBrix defined them before #1082: with a status and without /scale. The control of the demo.

Only the definition differs. Its controllers worked; what failed was every autoscaler, whose GET of /scale was
answered with 404 (vllm-project/aibrix#986).
"""

import copy
from typing import Any

from reconcile import Object, resource

from ..models import API_VERSION, FleetSpec, FleetStatus


@resource(API_VERSION, kind="RayClusterFleet")
class FleetWithoutScale(Object):
    """A fleet that nobody but its user can size."""

    spec: FleetSpec
    status: FleetStatus = FleetStatus()


def without_scale(definition: dict[str, Any]) -> dict[str, Any]:
    """The same CustomResourceDefinition, none of whose versions has /scale."""
    bare = copy.deepcopy(definition)
    for version in bare["spec"]["versions"]:
        version.get("subresources", {}).pop("scale", None)
    return bare
