"""An operator on kopf that leaves on objects what Dask's operator leaves, as far as that is documented."""

import os
import uuid
from collections.abc import Mapping
from typing import Any

import kopf
from kubernetes import client, config

API = {"group": "kubernetes.dask.org", "version": "v1"}
CLUSTERS, GROUPS, JOBS, AUTOSCALERS = (
    {**API, "plural": f"dask{plural}"} for plural in ("clusters", "workergroups", "jobs", "autoscalers")
)
NAME, GROUP, PART = (f"dask.org/{name}" for name in ("cluster-name", "workergroup-name", "component"))
RUNNERS = {PART: "job-runner"}
ENDS = {"Succeeded": "Successful", "Failed": "Failed"}


@kopf.on.startup()
def connect(settings: kopf.OperatorSettings, **_: Any) -> None:
    config.load_kube_config()
    settings.posting.enabled = False


def of_dask(body: dict[str, Any], kind: str, plural: Mapping[str, str], namespace: str) -> None:
    made = {"apiVersion": "kubernetes.dask.org/v1", "kind": kind, **body}
    kopf.adopt(made)
    client.CustomObjectsApi().create_namespaced_custom_object(namespace=namespace, body=made, **plural)


def patch_of_dask(plural: Mapping[str, str], name: str, namespace: str, body: dict[str, Any]) -> None:
    client.CustomObjectsApi().patch_namespaced_custom_object(
        namespace=namespace, name=name, body=body, **plural
    )


def make_deployment(name: str, labels: Mapping[str, str], pod: Mapping[str, Any], namespace: str) -> None:
    template = {"metadata": {"labels": labels}, "spec": dict(pod)}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    made = {"metadata": {"name": name, "labels": labels}, "spec": spec}
    kopf.adopt(made)
    client.AppsV1Api().create_namespaced_deployment(namespace, made)


# --- clusters and groups ------------------------------------------------------------------------------


@kopf.on.create(**CLUSTERS)
def begin_cluster(patch: kopf.Patch, **_: Any) -> None:
    patch.status["phase"] = "Created"


@kopf.on.field(**CLUSTERS, field="status.phase", new="Created")
def make_components(spec: kopf.Spec, name: str, namespace: str, patch: kopf.Patch, **_: Any) -> None:
    labels = {NAME: name, PART: "scheduler"}
    make_deployment(f"{name}-scheduler", labels, spec["scheduler"]["spec"], namespace)
    service = {"metadata": {"name": f"{name}-scheduler", "labels": labels}}
    service["spec"] = dict(spec["scheduler"]["service"])
    kopf.adopt(service)
    client.CoreV1Api().create_namespaced_service(namespace, service)
    metadata = {"name": f"{name}-default", "labels": {NAME: name, PART: "workergroup"}}
    group = {"cluster": name, "worker": dict(spec["worker"])}
    of_dask({"metadata": metadata, "spec": group}, "DaskWorkerGroup", GROUPS, namespace)
    patch.status["phase"] = "Running"


@kopf.on.create(**GROUPS)
@kopf.on.field(**GROUPS, field="spec.worker.replicas")
def make_workers(spec: kopf.Spec, name: str, namespace: str, **_: Any) -> None:
    labels = {NAME: spec["cluster"], GROUP: name, PART: "worker"}
    chosen = ",".join(f"{label}={text}" for label, text in labels.items())
    there = client.AppsV1Api().list_namespaced_deployment(namespace, label_selector=chosen).items
    for _missing in range(spec["worker"]["replicas"] - len(there)):
        unique = f"{name}-worker-{uuid.uuid4().hex[:10]}"
        environment = [{"name": "DASK_WORKER_NAME", "value": unique}]
        containers = [{**one, "env": environment} for one in spec["worker"]["spec"]["containers"]]
        make_deployment(unique, labels, {"containers": containers}, namespace)


@kopf.timer(**AUTOSCALERS, interval=0.5, backoff=0.5)
def follow_demand(spec: kopf.Spec, namespace: str, **_: Any) -> None:
    workers = min(spec["maximum"], max(spec["minimum"], int(os.environ["DEMAND"])))
    patch_of_dask(
        GROUPS, f"{spec['cluster']}-default", namespace, {"spec": {"worker": {"replicas": workers}}}
    )


# --- jobs ---------------------------------------------------------------------------------------------


@kopf.on.create(**JOBS)
def begin_job(patch: kopf.Patch, **_: Any) -> None:
    patch.status["jobStatus"] = "JobCreated"


@kopf.on.field(**JOBS, field="status.jobStatus", new="JobCreated")
def make_cluster(spec: kopf.Spec, name: str, namespace: str, patch: kopf.Patch, **_: Any) -> None:
    metadata = {"name": name, "labels": {NAME: name}}
    of_dask({"metadata": metadata, "spec": dict(spec["cluster"]["spec"])}, "DaskCluster", CLUSTERS, namespace)
    patch.status["clusterName"] = name
    patch.status["jobStatus"] = "ClusterCreated"


@kopf.on.field(**JOBS, field="status.jobStatus", new="ClusterCreated")
def make_runner(spec: kopf.Spec, name: str, namespace: str, **_: Any) -> None:
    labels = {NAME: name, **RUNNERS}
    pod = {"metadata": {"name": f"{name}-runner", "labels": labels}, "spec": dict(spec["job"]["spec"])}
    kopf.adopt(pod)
    client.CoreV1Api().create_namespaced_pod(namespace, pod)


@kopf.on.field("pods", field="status.phase", labels=RUNNERS)
def follow_runner(name: str, namespace: str, labels: kopf.Labels, new: str, **_: Any) -> None:
    job, status = labels[NAME], {"Running": "Running", **ENDS}.get(new)
    if status is not None:
        body = {"status": {"jobStatus": status, "jobRunnerPodName": name}}
        client.CustomObjectsApi().patch_namespaced_custom_object_status(
            namespace=namespace, name=job, body=body, **JOBS
        )
    if new in ENDS:
        client.CustomObjectsApi().delete_namespaced_custom_object(namespace=namespace, name=job, **CLUSTERS)
