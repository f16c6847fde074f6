"""`autoscaling.reconcile-runtime.dev/v1alpha1 NodeAutoscaler`: which groups are sized, and how.

The groups themselves are objects of Cluster API, which is what users have already. This kind says what
cluster-autoscaler is told by flags, and its status is what a pass remembers for the next.
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
    """Whether nodes are taken away, and how long (s) after the last growth they are not.

    The rest is said for each group by its annotations.
    """

    enabled: bool = True
    delay_after_add: Annotated[int, Schema(minimum=0)] = 600


@frozen
class NodeAutoscalerSpec:
    """What is sized. `discovery` are terms as of `--node-group-auto-discovery`, such as
    `clusterapi:namespace=prod,clusterName=one,team=a`; without any, all groups of the own namespace are.

    `expanders` choose one after the other. `priorities` is the namespace, in the workload cluster, of the
    ConfigMap `cluster-autoscaler-priority-expander`. `workload` is the manager's name of the cluster that
    the nodes belong to; empty where it is the one with the groups. `scan` is the time between passes (s).
    """

    discovery: tuple[str, ...] = ()
    expanders: tuple[ExpanderName, ...] = ("least-waste",)
    priorities: str = "kube-system"
    workload: str = ""
    scan: Annotated[int, Schema(minimum=1)] = 10
    scale_down: ScaleDownSpec = ScaleDownSpec()


@frozen
class Unneeded:
    """A node without which all pods would have a place, and since when."""

    node: str
    since: datetime.datetime


@frozen
class NodeAutoscalerStatus:
    """What the last pass found and what the next one needs to know."""

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
    """Sizes groups of nodes by the pods that want to run."""

    spec: NodeAutoscalerSpec = NodeAutoscalerSpec()
    status: NodeAutoscalerStatus = NodeAutoscalerStatus()


def definition() -> dict[str, Any]:
    """The CustomResourceDefinition of NodeAutoscaler."""
    return definition_of(NodeAutoscaler)
