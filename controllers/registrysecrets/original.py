"""How Kubero's helm-operator planned `copy`: the control of the demo, never used otherwise.

The flaw is kept as it was (kubero-dev/kubero#420): the candidate is rendered in a dry run, where
Helm's `lookup` finds nothing and a default stands in for the source. It therefore differs from
what is deployed every time, every pass is an upgrade, and the upgrade's own release Secret is an
event that starts the next pass.
"""

from collections.abc import Mapping, Sequence

from .copies import CREDENTIALS, DOCKER_CONFIG_KEY, DOCKER_CONFIG_TYPE, PULL_SECRET, SecretCopy
from .plan import ConditionValue, CopyPlan, NewNamespace, Write, target_namespaces
from .views import NamespaceView, PipelineView, SecretView, ownership_labels

RELEASE_TYPE = "helm.sh/release.v1"
RELEASES_KEPT = 10
# "empty" in base64: the chart's default for whatever the lookup did not find.
_NOT_FOUND = "ZW1wdHk="
_KEYS = {PULL_SECRET: (DOCKER_CONFIG_KEY,), CREDENTIALS: ("username", "password")}
_TYPES = {PULL_SECRET: DOCKER_CONFIG_TYPE, CREDENTIALS: "Opaque"}


def plan_copies(
    pipeline: PipelineView,
    source: SecretView | None,
    namespaces: Sequence[NamespaceView],
    existing: Sequence[SecretView],
) -> CopyPlan:
    """The original as a stand-in for `plan.plan_copies`.

    `existing` must also hold the release Secrets that it wrote into the pipeline's namespace.
    """
    candidate = _rendered(pipeline, lookup=None)
    standing = {(secret.namespace, secret.name): secret for secret in existing}
    if all(_is_deployed(copy, standing) for copy in candidate):
        return CopyPlan(conditions=(ConditionValue("Ready", "True", "Deployed"),))
    present = {space.name for space in namespaces}
    missing = [name for name in target_namespaces(pipeline) if name not in present]
    releases = _releases(pipeline, existing)
    copies = [*_rendered(pipeline, lookup=source), _release(pipeline, max(releases, default=0) + 1)]
    return CopyPlan(
        namespaces=tuple(NewNamespace(name, ownership_labels(pipeline)) for name in missing),
        write=tuple(_upgrade(copy, standing.get((copy.namespace, copy.name))) for copy in copies),
        delete=_outdated(releases),
        conditions=(ConditionValue("Ready", "True", "Deployed"),),
    )


def _rendered(pipeline: PipelineView, lookup: SecretView | None) -> list[SecretCopy]:
    found = {} if lookup is None else lookup.data
    return [
        SecretCopy(target, name, _TYPES[name], _values(name, found), ownership_labels(pipeline))
        for target in target_namespaces(pipeline)
        for name in (PULL_SECRET, CREDENTIALS)
    ]


def _values(name: str, found: Mapping[str, str]) -> dict[str, str]:
    return {key: found.get(key) or _NOT_FOUND for key in _KEYS[name]}


def _is_deployed(copy: SecretCopy, standing: Mapping[tuple[str, str], SecretView]) -> bool:
    stands = standing.get((copy.namespace, copy.name))
    return stands is not None and dict(stands.data) == dict(copy.data)


def _upgrade(copy: SecretCopy, stands: SecretView | None) -> Write:
    return Write(copy, "create" if stands is None else "update", stands)


def _releases(pipeline: PipelineView, existing: Sequence[SecretView]) -> dict[int, SecretView]:
    prefix = f"sh.helm.release.v1.{pipeline.name}.v"
    own = [one for one in existing if one.namespace == pipeline.namespace and one.name.startswith(prefix)]
    versions = {one.name.removeprefix(prefix): one for one in own if one.type == RELEASE_TYPE}
    return {int(version): one for version, one in versions.items() if version.isdecimal()}


def _outdated(releases: Mapping[int, SecretView]) -> tuple[SecretView, ...]:
    """The oldest ones, so that with the one to come there are as many as Helm keeps."""
    surplus = max(0, len(releases) + 1 - RELEASES_KEPT)
    return tuple(releases[version] for version in sorted(releases)[:surplus])


def _release(pipeline: PipelineView, version: int) -> SecretCopy:
    return SecretCopy(
        namespace=pipeline.namespace,
        name=f"sh.helm.release.v1.{pipeline.name}.v{version}",
        type=RELEASE_TYPE,
        data={},
        labels={**ownership_labels(pipeline), "owner": "helm", "version": str(version)},
    )
