"""Fleets as AIBrix defined them before #1082, without /scale, for comparison in the demo only.

The controllers worked; every autoscaler failed, since GET of /scale answered 404 (vllm-project/aibrix#986).
"""

import copy
from typing import Any

from reconcile import Object, resource

from ..models import API_VERSION, FleetSpec, FleetStatus


@resource(API_VERSION, kind="RayClusterFleet")
class FleetWithoutScale(Object):
    spec: FleetSpec
    status: FleetStatus = FleetStatus()


def without_scale(definition: dict[str, Any]) -> dict[str, Any]:
    """The CustomResourceDefinition without /scale in any version."""
    bare = copy.deepcopy(definition)
    for version in bare["spec"]["versions"]:
        version.get("subresources", {}).pop("scale", None)
    return bare
