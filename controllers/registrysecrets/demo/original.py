"""How Kubero's helm-operator copied, for comparison in the demo only.

The flaw is kept (kubero-dev/kubero#420): the candidate is rendered in a dry run, where Helm's `lookup` finds
nothing and a default replaces the source. So it always differs from what is deployed, every run is an
upgrade, and the upgrade's own release Secret is an event that starts the next run.
"""

from collections.abc import Iterable, Mapping, Sequence

from attrs import frozen

from reconcile import Context, Controller, Key, ObjectMeta, Request, Storms, Watch, Write
from reconcile.blocks import Content
from reconcile.kinds import Namespace, Secret

from ... import OPERATOR
from ..controller import NAME
from ..desired_copies import CREDENTIALS, MAIN_NAMESPACE, PULL_SECRET, SOURCE_NAME, phase_namespaces
from ..models import KuberoPipeline, PipelineRegistry
from ..secret_contents import DOCKER_CONFIG_KEY, DOCKER_CONFIG_TYPE, given_login

RELEASE_TYPE = "helm.sh/release.v1"
RELEASES_KEPT = 10
RELEASE_OF = "release-of"
# "empty" in base64: the chart's default for whatever the lookup did not find.
_NOT_FOUND = "ZW1wdHk="
_KEYS = {PULL_SECRET: (DOCKER_CONFIG_KEY,), CREDENTIALS: ("username", "password")}
_TYPES = {PULL_SECRET: DOCKER_CONFIG_TYPE, CREDENTIALS: "Opaque"}


@frozen
class Upgrade:
    """The Secrets to overwrite, and the old releases to delete."""

    write: tuple[Secret, ...]
    delete: tuple[Secret, ...]


def plan_upgrade(
    pipeline: KuberoPipeline,
    source: Secret | None,
    standing: Mapping[Key, Secret],
    releases: Sequence[Secret],
) -> Upgrade | None:
    """The upgrade of a run; None if the candidate is what is deployed."""
    candidate = _rendered(pipeline, lookup=None)
    if all(copy.key in standing and standing[copy.key].data == copy.data for copy in candidate):
        return None
    numbered = {int(release.name.rpartition(".v")[2]): release for release in releases}
    surplus = max(0, len(numbered) + 1 - RELEASES_KEPT)
    return Upgrade(
        write=(*_rendered(pipeline, lookup=source), _release(pipeline, max(numbered, default=0) + 1)),
        delete=tuple(numbered[number] for number in sorted(numbered)[:surplus]),
    )


async def keep(ctx: Context[KuberoPipeline]) -> None:
    pipeline, client = ctx.object, ctx.client
    for name in phase_namespaces(pipeline):
        if await client.find(Namespace, name) is None:
            await client.create(Namespace(metadata=ObjectMeta(name)))
    places = [place for place in used_by(pipeline) if place.name in _KEYS]
    found = [await client.find(Secret, place.name, place.namespace) for place in places]
    standing = {secret.key: secret for secret in found if secret is not None}
    source = await client.find(Secret, SOURCE_NAME, _main_namespace(pipeline))
    upgrade = plan_upgrade(pipeline, source, standing, await _releases(ctx))
    for old in upgrade.delete if upgrade else ():
        await ctx.delete(old)
    for secret in upgrade.write if upgrade else ():
        stands = standing.get(Key(*secret.key))
        if stands is None:
            await client.create(secret)
        elif stands.data != secret.data:
            await client.raw.merge(stands, {"data": dict(secret.data)})
    ctx.condition("Ready", True, reason="Deployed")


async def remove(ctx: Context[KuberoPipeline]) -> None:
    """Uninstall: delete the rendered Secrets and the releases."""
    for place in used_by(ctx.object):
        stands = await ctx.client.find(Secret, place.name, place.namespace)
        if stands is not None and place.name in _KEYS and not stands.terminating:
            await ctx.delete(stands)
    for release in await _releases(ctx):
        await ctx.delete(release)


def used_by(pipeline: KuberoPipeline) -> Sequence[Key]:
    """The objects of a release, all of which helm-operator watched."""
    return [copy.key for copy in _rendered(pipeline, lookup=None)]


def pipeline_of_release(secret: Secret) -> Iterable[Request]:
    """The pipeline whose release a Secret records; helm-operator watched these as well."""
    name = secret.metadata.labels.get(RELEASE_OF)
    return [Request(secret.namespace, name)] if name and secret.type == RELEASE_TYPE else []


async def _releases(ctx: Context[KuberoPipeline]) -> Sequence[Secret]:
    return await ctx.client.list(Secret, ctx.object.namespace, labels={RELEASE_OF: ctx.object.name})


def _main_namespace(pipeline: KuberoPipeline) -> str:
    return pipeline.spec.mainnamespace or MAIN_NAMESPACE


def _rendered(pipeline: KuberoPipeline, lookup: Secret | None) -> list[Secret]:
    registry = pipeline.spec.registry or PipelineRegistry()
    if registry.create_secret not in ("copy", "create"):
        return []
    config, login = given_login(registry)
    given = {PULL_SECRET: config, CREDENTIALS: login}
    rendered = []
    for namespace in phase_namespaces(pipeline):
        for name, content in given.items():
            data = _looked_up(name, lookup)
            if isinstance(content, Content) and registry.create_secret == "create":
                data = dict(content.data)
            rendered.append(Secret(metadata=ObjectMeta(name, namespace), type=_TYPES[name], data=data))
    return rendered


def _looked_up(name: str, lookup: Secret | None) -> dict[str, str]:
    found: Mapping[str, str] = {} if lookup is None else lookup.data
    return {key: found.get(key) or _NOT_FOUND for key in _KEYS[name]}


def _release(pipeline: KuberoPipeline, version: int) -> Secret:
    labels = {RELEASE_OF: pipeline.name, "owner": "helm", "version": str(version)}
    name = f"sh.helm.release.v1.{pipeline.name}.v{version}"
    return Secret(metadata=ObjectMeta(name, pipeline.namespace, labels=labels), type=RELEASE_TYPE)


def make_original_controller(*, detect_storms: bool = False) -> Controller[KuberoPipeline]:
    """Without a storm guard by default, as helm-operator."""
    return Controller(
        KuberoPipeline,
        keep,
        cleanup=remove,
        watches=[
            Watch(Secret, by=used_by, everywhere=True),
            Watch(Secret, to=pipeline_of_release, everywhere=True),
        ],
        writes=[Secret, Write(Namespace, ("create",))],
        storms=Storms(detect=detect_storms),
        name=NAME,
        operator=OPERATOR,
    )
