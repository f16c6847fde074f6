"""An operator that keeps web sites: a Deployment and a DNS name for each Site."""

import dns
from attrs import frozen

from reconcile import (
    Condition,
    Context,
    Controller,
    Intent,
    Manager,
    Object,
    ObjectMeta,
    Result,
    Watch,
    resource,
)
from reconcile.kinds import Deployment, DeploymentSpec, LabelSelector, Secret


@frozen
class SiteSpec:
    image: str
    replicas: int = 1
    pull_secret: str | None = None


@frozen
class SiteStatus:
    ready: int = 0
    conditions: tuple[Condition, ...] = ()


@resource("example.com/v1", columns={"Ready": ".status.ready"})
class Site(Object):
    spec: SiteSpec
    status: SiteStatus = SiteStatus()


def deployment_for(site: Site) -> Intent[Deployment]:
    labels = {"site": site.name}
    pod = {"containers": [{"name": "web", "image": site.spec.image}]}
    if site.spec.pull_secret is not None:
        pod["imagePullSecrets"] = [{"name": site.spec.pull_secret}]
    return Intent(
        Deployment,
        metadata=ObjectMeta(site.name),
        spec=DeploymentSpec(
            selector=LabelSelector(labels),
            template={"metadata": {"labels": labels}, "spec": pod},
            replicas=site.spec.replicas,
        ),
    )


async def keep_site(ctx: Context[Site]) -> Result | None:
    site = ctx.object  # an immutable typed snapshot; never absent, never deleting
    live = await ctx.apply(deployment_for(site))  # owned by site; no request when nothing would change
    await ctx.run_sync(dns.upsert, site.name)  # blocking code: own thread, inline under the test kit
    ready = live.status.ready_replicas
    ctx.status(ready=ready)  # collected, written once at the end, only if changed
    ctx.condition("Ready", ready >= site.spec.replicas, reason="Pods", message=f"{ready} ready")
    return None  # or Result(requeue_after=30); an exception is a retry with back-off


async def drop_site(ctx: Context[Site]) -> None:  # cleanup= is what adds the finalizer
    await ctx.run_sync(dns.delete, ctx.object.name)


sites = Controller(
    Site,
    keep_site,
    cleanup=drop_site,
    owns=[Deployment],
    watches=[Watch(Secret, by=lambda site: site.spec.pull_secret)],
)
manager = Manager(sites)
