"""Reads groups and machines in the management cluster, nodes and pods in the workload cluster."""

import functools
import os
from collections.abc import Mapping, Sequence
from typing import Any

from attrs import field, frozen

from reconcile import Client, Object, Unstructured
from reconcile.blocks import NodeTemplate, PodNeeds, class_of, pod_needs
from reconcile.errors import ApiError, NotFound
from reconcile.kinds import ConfigMap, DaemonSet, Node, Pod
from reconcile.models import encode, unstructured_kind

from .machine import Machine, read_machine
from .node_group import NodeGroup, UnsizedObject, read_group, with_machines
from .node_view import NodeView, PodPlacement, as_template, read_node, read_pod

PRIORITIES = "cluster-autoscaler-priority-expander"
INFRASTRUCTURE_VERSIONS = ("v1beta2", "v1beta1", "v1alpha4", "v1alpha3", "v1alpha1")


class BadDiscovery(ValueError):
    """A term of discovery is invalid."""


@frozen
class ClusterApi:
    """The kinds of Cluster API in one group and version (CAPI_GROUP, CAPI_VERSION in the environment)."""

    group: str = field(factory=lambda: os.environ.get("CAPI_GROUP") or "cluster.x-k8s.io")
    version: str = field(factory=lambda: os.environ.get("CAPI_VERSION") or "v1beta2")

    def kind(self, name: str) -> type[Unstructured]:
        return _kind(f"{self.group}/{self.version}", name)


_kind = functools.cache(unstructured_kind)


@frozen
class DiscoveryTerm:
    """Selects groups that match all given parts; a `namespace` of `*` matches all."""

    namespace: str
    cluster: str = ""
    labels: tuple[tuple[str, str], ...] = ()

    @classmethod
    def parse(cls, text: str, own_namespace: str) -> "DiscoveryTerm":
        """From `clusterapi:namespace=prod,clusterName=one,team=a`. Raises BadDiscovery."""
        provider, colon, rest = text.partition(":")
        if provider != "clusterapi" or not colon:
            raise BadDiscovery(f"{text!r} does not begin with clusterapi:")
        pairs = [part.partition("=") for part in rest.split(",") if part]
        if any(not name or not equals for name, equals, _ in pairs):
            raise BadDiscovery(f"{text!r} has a part that is not name=value")
        given = {name: value for name, _, value in pairs}
        namespace = given.pop("namespace", own_namespace)
        return cls(namespace, given.pop("clusterName", ""), tuple(sorted(given.items())))

    def means(self, manifest: Mapping[str, Any]) -> bool:
        metadata, labels = manifest["metadata"], manifest["metadata"].get("labels") or {}
        cluster = (manifest.get("spec") or {}).get("clusterName")
        return (
            self.namespace in ("*", metadata["namespace"])
            and self.cluster in ("", cluster)
            and all(labels.get(name) == value for name, value in self.labels)
        )


@frozen
class GroupDiscovery:
    """The groups, the objects that are not sized, and what could not be read (`troubles`)."""

    groups: tuple[NodeGroup, ...]
    others: tuple[UnsizedObject, ...]
    troubles: tuple[str, ...] = ()


async def find_groups(client: Client, api: ClusterApi, terms: Sequence[DiscoveryTerm]) -> GroupDiscovery:
    """Every group that matches a term, with its machines. Raises the errors of requests.

    They are read live, since a decision needs the current sizes.
    """
    manifests: list[tuple[Object, dict[str, Any]]] = []
    owners: dict[str, tuple[str, ...]] = {}
    for kind in ("MachineDeployment", "MachineSet", "MachinePool"):
        for obj in await _list_all(client, api.kind(kind), terms):
            if kind == "MachineSet":
                owners[obj.uid] = tuple(one.uid for one in obj.metadata.owner_references)
            manifest = encode(obj)
            if any(term.means(manifest) for term in terms):
                manifests.append((obj, manifest))
    machines, troubles = await _machines(client, api, terms)
    groups, others = [], []
    for obj, manifest in manifests:
        infrastructure = None
        try:
            infrastructure = await _infrastructure(client, manifest) if _is_empty(manifest) else None
        except ApiError as error:
            troubles.append(f"the infrastructure template of {obj.key}: {class_of(error)}")
        found = read_group({"kind": type(obj).__name__, **manifest}, obj, infrastructure)
        if isinstance(found, NodeGroup):
            groups.append(with_machines(found, machines, owners))
        else:
            others.append(found)
    return GroupDiscovery(tuple(sorted(groups, key=lambda group: group.id)), tuple(others), tuple(troubles))


async def _list_all(
    client: Client, model: type[Unstructured], terms: Sequence[DiscoveryTerm]
) -> Sequence[Object]:
    """Empty if the server does not have the kind."""
    found: dict[str, Object] = {}
    try:
        for namespace in sorted({"" if term.namespace == "*" else term.namespace for term in terms}):
            for obj in await client.list(model, namespace, live=True):
                found[obj.uid] = obj
    except NotFound:
        return ()
    return list(found.values())


async def _machines(
    client: Client, api: ClusterApi, terms: Sequence[DiscoveryTerm]
) -> tuple[list[Machine], list[str]]:
    machines, troubles = [], []
    for obj in await _list_all(client, api.kind("Machine"), terms):
        try:
            machines.append(read_machine(encode(obj), obj))
        except (ValueError, KeyError, AttributeError, TypeError):
            troubles.append(f"machine {obj.key} cannot be read")
    return machines, troubles


def _is_empty(manifest: Mapping[str, Any]) -> bool:
    """Whether the group may lack a ready node to learn from what another one would offer."""
    status = manifest.get("status") or {}
    return not (manifest.get("spec") or {}).get("replicas") or not status.get("readyReplicas")


async def _infrastructure(client: Client, manifest: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The status of a group's infrastructure template, if it can be read."""
    template = ((manifest.get("spec") or {}).get("template") or {}).get("spec") or {}
    reference = template.get("infrastructureRef") or {}
    versions = [reference["apiVersion"]] if reference.get("apiVersion") else []
    if not versions and reference.get("apiGroup"):
        versions = [f"{reference['apiGroup']}/{version}" for version in INFRASTRUCTURE_VERSIONS]
    for version in versions:
        try:
            asked = await client.raw.unstructured({"apiVersion": version, "kind": reference["kind"]})
            # Only from the group's own namespace, as in Cluster API: its author may have no access to
            # another.
            namespace = manifest["metadata"]["namespace"]
            found = await client.find(type(asked), reference["name"], namespace, live=True)
        except (LookupError, NotFound):
            continue
        if found is not None:
            return encode(found).get("status") or {}
    return None


@frozen
class WorkloadCluster:
    """Nodes and pods of the workload cluster; `daemons` are the pods that every node runs."""

    nodes: tuple[NodeView, ...]
    pods: tuple[PodPlacement, ...]
    daemons: tuple[PodNeeds, ...] = ()
    troubles: tuple[str, ...] = ()

    @property
    def by_node(self) -> Mapping[str, tuple[PodPlacement, ...]]:
        found: dict[str, list[PodPlacement]] = {}
        for pod in self.pods:
            if pod.node:
                found.setdefault(pod.node, []).append(pod)
        return {node: tuple(pods) for node, pods in found.items()}

    @property
    def waiting(self) -> tuple[PodPlacement, ...]:
        return tuple(pod for pod in self.pods if pod.is_waiting)

    @property
    def providers(self) -> Mapping[str, NodeView]:
        return {node.provider: node for node in self.nodes if node.provider}


async def read_workload(client: Client) -> WorkloadCluster:
    """Invalid objects are left out, and named in `troubles`."""
    nodes, pods, daemons, troubles = [], [], [], []
    for node in await client.list(Node):
        try:
            nodes.append(read_node(node))
        except (ValueError, KeyError):
            troubles.append(f"node {node.name} cannot be read")
    for pod in await client.list(Pod):
        try:
            view = read_pod(pod)
        except (ValueError, KeyError):
            troubles.append(f"pod {pod.key} cannot be read")
            continue
        if view is not None:
            pods.append(view)
    for one in await client.list(DaemonSet):
        template = (encode(one).get("spec") or {}).get("template") or {}
        daemons.append(pod_needs(template))
    nodes.sort(key=lambda node: node.name)
    return WorkloadCluster(tuple(nodes), tuple(pods), tuple(daemons), tuple(troubles))


def template_for(
    group: NodeGroup, nodes: Sequence[NodeView], workload: WorkloadCluster
) -> NodeTemplate | None:
    """What another node of the group would offer: like a ready node, or else as its objects say."""
    ready = [node for node in nodes if node.ready and node.draining is None and not node.cordoned]
    if ready:
        node = ready[0]
        return as_template(node, workload.by_node.get(node.name, ()))
    template = group.template
    for daemon in workload.daemons:
        if template is not None and not template.bars(daemon.shape):
            template = template.with_pod(daemon.shape)
    return template


async def priorities_text(client: Client, namespace: str) -> str | None:
    """None if the ConfigMap or its key is missing."""
    try:
        found = await client.find(ConfigMap, PRIORITIES, namespace)
    except ApiError:
        return None
    return None if found is None else found.data.get("priorities")
