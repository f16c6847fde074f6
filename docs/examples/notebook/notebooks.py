"""An operator that keeps notebooks, and scales unused ones to 0: a port from kopf."""

from datetime import timedelta
from typing import Annotated

import proxy
from attrs import frozen

from reconcile import (
    Condition,
    Context,
    Controller,
    Intent,
    Manager,
    Object,
    ObjectMeta,
    Predecessor,
    resource,
)
from reconcile.kinds import (
    Deployment,
    DeploymentSpec,
    LabelSelector,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    Service,
    ServicePort,
    ServiceSpec,
)
from reconcile.models import Schema

EVERY = 60.0  # the proxy sends no events, so each run asks it when the notebook was last used


@frozen
class NotebookSpec:
    image: str
    storage: Annotated[str, Schema(rules="self == oldSelf")] = "1Gi"  # the size of a claim cannot be changed
    idle_after: Annotated[timedelta, Schema(rules="self > duration('0s')")] = timedelta(hours=1)


@frozen
class NotebookStatus:
    url: str = ""
    conditions: tuple[Condition, ...] = ()


@resource("example.com/v1", columns={"URL": ".status.url"})
class Notebook(Object):
    spec: NotebookSpec
    status: NotebookStatus = NotebookStatus()


def claim_for(notebook: Notebook) -> Intent[PersistentVolumeClaim]:
    resources = {"requests": {"storage": notebook.spec.storage}}
    spec = PersistentVolumeClaimSpec(access_modes=("ReadWriteOnce",), resources=resources)
    return Intent(PersistentVolumeClaim, metadata=ObjectMeta(notebook.name), spec=spec)


def service_for(notebook: Notebook) -> Intent[Service]:
    spec = ServiceSpec(selector={"notebook": notebook.name}, ports=(ServicePort(80, target_port=8888),))
    return Intent(Service, metadata=ObjectMeta(notebook.name), spec=spec)


def deployment_for(notebook: Notebook, *, awake: bool) -> Intent[Deployment]:
    labels, claim = {"notebook": notebook.name}, {"claimName": notebook.name}
    mounts = [{"name": "home", "mountPath": "/home/jovyan"}]
    pod = {
        "containers": [{"name": "notebook", "image": notebook.spec.image, "volumeMounts": mounts}],
        "volumes": [{"name": "home", "persistentVolumeClaim": claim}],
    }
    template = {"metadata": {"labels": labels}, "spec": pod}
    spec = DeploymentSpec(LabelSelector(labels), template, replicas=int(awake))
    return Intent(Deployment, metadata=ObjectMeta(notebook.name), spec=spec)


async def keep_notebook(ctx: Context[Notebook]) -> None:
    notebook = ctx.object
    used = await ctx.run_sync(proxy.last_used, notebook.name) or notebook.metadata.creation_timestamp
    awake = used is None or ctx.clock.now() < used + notebook.spec.idle_after
    await ctx.apply(claim_for(notebook))
    await ctx.apply(service_for(notebook))
    deployment = await ctx.apply(deployment_for(notebook, awake=awake))
    await ctx.run_sync(proxy.add_route, notebook.name, f"{notebook.name}.{notebook.namespace}.svc")
    ctx.status(url=f"https://notebooks.example.com/{notebook.name}")
    ctx.condition("Ready", deployment.status.ready_replicas > 0, reason="Running" if awake else "Idle")


async def drop_notebook(ctx: Context[Notebook]) -> None:
    await ctx.run_sync(proxy.drop_route, ctx.object.name)


notebooks = Controller(
    Notebook,
    keep_notebook,
    cleanup=drop_notebook,
    predecessor=Predecessor.kopf("notebooks on kopf", deployments="notebook-operator"),
    owns=[Deployment, Service, PersistentVolumeClaim],
    every=EVERY,
)
manager = Manager(notebooks)
