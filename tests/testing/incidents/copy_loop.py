"""A copy is compared with one that was made without looking (kubero-dev/kubero#420)."""

from collections.abc import Mapping

from attrs import frozen

from reconcile import Context, Controller, Intent, Object, ObjectMeta, Watch, resource
from reconcile.kinds import ConfigMap
from reconcile.testing import Apply, Scenario


@frozen
class PipelineSpec:
    login: str = ""


@resource("kit.example.com/v1")
class Pipeline(Object):
    spec: PipelineSpec = PipelineSpec()


def chart(login: Mapping[str, str]) -> dict[str, str]:
    return {"login": login.get("login", "empty")}


async def keep(ctx: Context[Pipeline]) -> None:
    pipeline = ctx.object
    login = await ctx.client.find(ConfigMap, pipeline.spec.login, pipeline.namespace)
    found = {} if login is None else login.data
    owned = {one.name: one for one in await ctx.owned(ConfigMap)}
    release = owned.get(f"{pipeline.name}-release")
    candidate = chart({})
    if release is not None and release.data["manifest"] == str(candidate):
        return
    copy = chart(found)
    revision = 1 if release is None else int(release.data["revision"]) + 1
    await ctx.apply(Intent(ConfigMap, metadata=ObjectMeta(f"{pipeline.name}-login"), data=copy))
    data = {"manifest": str(copy), "revision": str(revision)}
    await ctx.apply(Intent(ConfigMap, metadata=ObjectMeta(f"{pipeline.name}-release"), data=data))


LOGIN = ConfigMap(metadata=ObjectMeta("registry", "default"), data={"login": "somebody"})

scenario = Scenario(
    controllers=lambda: Controller(
        Pipeline, keep, owns=[ConfigMap], watches=[Watch(ConfigMap, by=lambda pipeline: pipeline.spec.login)]
    ),
    objects=[LOGIN],
    steps=[Apply(Pipeline(metadata=ObjectMeta("shop"), spec=PipelineSpec("registry")))],
    limit_seconds=60,
)
