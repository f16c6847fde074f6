"""A small operator to test the test kit with."""

from attrs import frozen

from reconcile import Context, Controller, Intent, Object, ObjectMeta, resource
from reconcile.kinds import ConfigMap


@frozen
class SiteSpec:
    text: str = ""


@frozen
class SiteStatus:
    shown: str = ""


@resource("kit.example.com/v1")
class Site(Object):
    spec: SiteSpec = SiteSpec()
    status: SiteStatus = SiteStatus()


async def keep_site(ctx: Context[Site]) -> None:
    page = Intent(ConfigMap, metadata=ObjectMeta(ctx.object.name), data={"text": ctx.object.spec.text})
    await ctx.apply(page)
    ctx.status(shown=ctx.object.spec.text)


def sites() -> Controller[Site]:
    return Controller(Site, keep_site, owns=[ConfigMap])


def site(name: str = "web", text: str = "hello") -> Site:
    return Site(metadata=ObjectMeta(name, "default"), spec=SiteSpec(text))
