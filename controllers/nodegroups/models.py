"""`autoscaling.reconcile-runtime.dev/v1alpha1 NodeAutoscaler`: which groups are sized, and how.

The groups are objects of Cluster API. This kind has the settings that are flags of cluster-autoscaler; its
status is what one run remembers for the next.
"""

import datetime
from typing import Annotated, Any, Literal

from attrs import frozen

from reconcile import Condition, Object, resource
from reconcile.models import Schema, definition_of

from .group_health import GroupState

ExpanderName = Literal["priority", "least-waste", "random"]


@frozen
class ScaleDownSpec:
    """Whether nodes are removed, and how many seconds after the last growth. The rest are annotations."""

    enabled: bool = True
    delay_after_add: Annotated[int, Schema(minimum=0)] = 600


@frozen
class NodeAutoscalerSpec:
    """Which groups are sized, and how.

    Attributes:
        discovery: Terms as of `--node-group-auto-discovery`, such as
            `clusterapi:namespace=prod,clusterName=one,team=a`; by default all groups of the own namespace.
        expanders: They choose among groups, one after the other.
        priorities: The namespace, in the workload cluster, of the ConfigMap
            `cluster-autoscaler-priority-expander`.
        workload: The manager's name for the cluster of the nodes; empty if the groups are in the same one.
        scan: Seconds between runs.
    """

    discovery: tuple[str, ...] = ()
    expanders: tuple[ExpanderName, ...] = ("least-waste",)
    priorities: str = "kube-system"
    workload: str = ""
    scan: Annotated[int, Schema(minimum=1)] = 10
    scale_down: ScaleDownSpec = ScaleDownSpec()


@frozen
class Unneeded:
    """A node without which all pods would fit, and since when."""

    node: str
    since: datetime.datetime


@frozen
class NodeAutoscalerStatus:
    """The result of the last run, which the next one reads."""

    observed_generation: int | None = None
    conditions: tuple[Condition, ...] = ()
    groups: tuple[GroupState, ...] = ()
    unneeded: tuple[Unneeded, ...] = ()
    last_growth: datetime.datetime | None = None
    warned: tuple[str, ...] = ()


@resource(
    "autoscaling.reconcile-runtime.dev/v1alpha1",
    columns={"Ready": ".status.conditions[?(@.type=='Ready')].status"},
)
class NodeAutoscaler(Object):
    """Sizes groups of nodes for the pods that have to run."""

    spec: NodeAutoscalerSpec = NodeAutoscalerSpec()
    status: NodeAutoscalerStatus = NodeAutoscalerStatus()


def definition() -> dict[str, Any]:
    """The CustomResourceDefinition of NodeAutoscaler."""
    return definition_of(NodeAutoscaler)
