"""An operator whose every line a type checker accepts."""

import datetime
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, assert_type

from attrs import frozen

from reconcile import (
    UNSET,
    Condition,
    Context,
    Controller,
    Intent,
    LabelSelector,
    Manager,
    Object,
    ObjectMeta,
    Quantity,
    Result,
    SyncContext,
    Unstructured,
    Watch,
    field,
    resource,
)
from reconcile.kinds import ConfigMap, Deployment, DeploymentSpec, Pod, PodSpec, PodTemplate, Secret
from reconcile.models import Column, Scale, Schema, UnsetType


@frozen
class Port:
    number: Annotated[int, Schema(minimum=1, maximum=65535)]
    protocol: Literal["TCP", "UDP"] = "TCP"


@frozen
class SiteSpec:
    image: str
    replicas: Annotated[int, Schema(minimum=0)] = 1
    pull_secret: str | None = None
    colour: str | UnsetType | None = UNSET
    every: datetime.timedelta = datetime.timedelta(minutes=5)
    memory: Quantity | None = None
    ports: Annotated[tuple[Port, ...], Schema(list_type="map", list_map_keys=("number",))] = ()
    template: Mapping[str, Any] = field(factory=dict)
    pod: PodTemplate = field(factory=PodTemplate)
    token: str = field(default="", secret=True)


@frozen
class SiteStatus:
    replicas: int = 0
    selector: str = ""
    conditions: tuple[Condition, ...] = ()


@resource("example.com/v1", columns={"Image": Column(".spec.image", priority=1)}, scale=Scale())
class Site(Object):
    spec: SiteSpec
    status: SiteStatus = SiteStatus()


def config_for(site: Site) -> Intent[ConfigMap]:
    return Intent(ConfigMap, metadata=ObjectMeta(site.name), data={"image": site.spec.image})


def pod_for(site: Site) -> Intent[Pod]:
    spec = PodSpec(containers=({"name": "web", "image": site.spec.image},), extra={"hostNetwork": True})
    pod = Pod(metadata=ObjectMeta(site.name), spec=spec, extra={})
    assert_type(pod.spec.extra, Mapping[str, Any])
    return Intent(Pod, metadata=pod.metadata, spec=pod.spec)


async def keep_site(ctx: Context[Site]) -> Result | None:
    site = ctx.object
    assert_type(site, Site)
    assert_type(site.spec.replicas, int)
    assert_type(site.spec.ports, tuple[Port, ...])
    if site.spec.colour is not UNSET:
        assert_type(site.spec.colour, str | None)
    selector = LabelSelector({"app": site.name})
    spec = DeploymentSpec(selector=selector, template=site.spec.template, replicas=site.spec.replicas)
    live = await ctx.apply(Intent(Deployment, metadata=ObjectMeta(name=site.name), spec=spec))
    assert_type(live, Deployment)
    assert_type(await ctx.client.apply(config_for(site)), ConfigMap)
    assert_type(await ctx.apply({"apiVersion": "v1", "kind": "ConfigMap"}), Unstructured)
    owned = await ctx.owned(ConfigMap)
    assert_type(owned, Sequence[ConfigMap])
    ctx.status(replicas=live.status.ready_replicas, selector=selector.text())
    ctx.condition("Ready", live.status.ready_replicas > 0, reason="Pods")
    return None if site.terminating else Result(requeue_after=30)


def keep_plainly(ctx: SyncContext[Site]) -> Result | None:
    assert_type(ctx.object, Site)
    assert_type(ctx.apply(config_for(ctx.object)), ConfigMap)
    assert_type(ctx.client.find(Deployment, "web", ctx.object.namespace), Deployment | None)
    assert_type(ctx.client.list(ConfigMap), Sequence[ConfigMap])
    with ctx.client.editing(ctx.object) as draft:
        draft.spec.replicas = 3
    return Result(requeue_after=30)


plain_sites = Controller(Site, keep_plainly, name="plain", cleanup=keep_plainly, workers=5)
sites = Controller(
    Site, keep_site, owns=[Deployment], watches=[Watch(Secret, by=lambda site: site.spec.pull_secret)]
)
manager = Manager(sites)
