"""An operator in which every line that is marked is wrong, and a type checker says so."""

from typing import Annotated

from attrs import frozen

from reconcile import (
    Context,
    Controller,
    Intent,
    LabelSelector,
    Object,
    ObjectMeta,
    Result,
    SyncContext,
    field,
    resource,
)
from reconcile.kinds import ConfigMap, DeploymentSpec, PodSpec
from reconcile.models import Scale, Schema


@frozen
class SiteSpec:
    image: str
    replicas: int = field(default="one")  # wrong
    size: int = field(default=1, minimim=0)  # wrong
    length: int = field(default=1, minimum=0)  # wrong
    token: str = field(secret=True)  # wrong
    wire: Annotated[str, Schema(wire=1)] = ""  # wrong to pyright
    ports: Annotated[tuple[int, ...], Schema(list_type="bag")] = ()  # wrong to pyright


@frozen
class PortSpec:
    name: Annotated[str, Schema(min_length=1)]
    number: Annotated[int, Schema(minimum=1, maximum=65535)]
    host_ip: Annotated[str, Schema(wire="hostIP")]
    weight: Annotated[int, Schema(minimum=0)] = 1


PortSpec(name="a", number=1, host_ip="::1")
PortSpec(name="a", number=1)  # wrong
PortSpec(name="a", host_ip="::1")  # wrong
PortSpec(number=1, host_ip="::1")  # wrong
PortSpec(name=1, number=1, host_ip="::1")  # wrong


@resource("example.com/v1")
class Site(Object):
    spec: SiteSpec


@resource("example.com/v1", scale=".spec.replicas")  # wrong
class Scaled(Object):
    spec: SiteSpec


@resource("example.com/v1")  # wrong to pyright
class NoObject:  # wrong to mypy
    spec: SiteSpec


Site(metadata=ObjectMeta("a"))  # wrong
Site(spec=SiteSpec())  # wrong
Site(spec=SiteSpec(image=1))  # wrong
Site(spec=SiteSpec(image="i"), status={})  # wrong
Site(SiteSpec(image="i"))  # wrong
PodSpec(more={"volumes": []})  # wrong
ConfigMap(further=["a"])  # wrong
Scale(replica=".spec.size")  # wrong
LabelSelector(match_labels={"a": 1})  # wrong
DeploymentSpec(selector={"a": "b"}, template={})  # wrong


async def keep_site(ctx: Context[Site]) -> Result | None:
    site = ctx.object
    site.spec.image = "other"  # wrong
    site.metadata = ObjectMeta("b")  # wrong
    site.metadata.labels["a"] = "b"  # wrong
    print(site.spec.colour)  # wrong
    print(site.spec.replicas + "1")  # wrong
    await ctx.apply(site.spec)  # wrong
    await ctx.apply(site)  # wrong
    await ctx.client.apply(await ctx.client.get(ConfigMap, "a"))  # wrong
    await ctx.apply((await ctx.owned(ConfigMap))[0])  # wrong
    await ctx.apply(Intent(site))  # wrong
    await ctx.apply(Intent(ConfigMap, dta={"a": "b"}))  # wrong
    await ctx.apply(Intent(ConfigMap, data={"a": 1}))  # wrong
    await ctx.owned(SiteSpec)  # wrong
    ctx.condition("Ready", "Maybe", reason="R")  # wrong
    found: ConfigMap = await ctx.client.get(Site, "a")  # wrong
    return found.name  # wrong


async def keep_config(ctx: Context[ConfigMap]) -> Result | None:
    return None


Controller(Site, keep_config)  # wrong


def keep_plainly(ctx: SyncContext[Site]) -> Result | None:
    print(ctx.object.spec.colour)  # wrong
    found: ConfigMap = ctx.client.get(Site, "a")  # wrong
    return found.name  # wrong


def keep_config_plainly(ctx: SyncContext[ConfigMap]) -> None:
    return None


Controller(Site, keep_config_plainly)  # wrong
