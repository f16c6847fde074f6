"""What users of one version of an operator have on the server: its definitions, and their objects."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from attrs import evolve, frozen

from reconcile.models import Object, ObjectMeta, kind_of
from reconcile.models.versions import families, is_custom
from reconcile.testing.cluster_actor import ClusterActor
from reconcile.testing.law_examples import ExampleKind
from reconcile.testing.scenario import Scenario
from reconcile.testing.scenario_acts import DEFAULT_NAMESPACE, manifest_of

_TRIES: Final = 8
"""Objects drawn for each that is taken."""


@frozen
class VersionObjects:
    """What users of a version write. Unless the author has `given` them, some may be refused."""

    manifests: Sequence[Mapping[str, Any]]
    given: bool


def own_kinds(version: Scenario) -> Sequence[type[Object]]:
    """The custom kinds that the controllers of a version keep, and define."""
    kinds = [controller.kind for controller in version.make_controllers()]
    return [kind for kind in dict.fromkeys(kinds) if is_custom(kind) and not kind_of(kind).as_installed]


def kept_kinds(version: Scenario) -> Sequence[type[Object]]:
    """All kinds that the controllers of a version keep, with the other versions of these kinds."""
    kinds = dict.fromkeys(controller.kind for controller in version.make_controllers())
    others = [other for family in families(kinds) for other in family]
    return list(dict.fromkeys([*kinds, *others]))


def definitions_of(version: Scenario, actor: ClusterActor) -> Sequence[Mapping[str, Any]]:
    """The definitions that a version ships: its own manifests, which take precedence, and of its classes."""
    given = {definition["metadata"]["name"]: definition for definition in version.definitions}
    for kind in own_kinds(version):
        given.setdefault(kind_of(kind).resource.name, actor.definition_of(kind))
    return list(given.values())


def objects_of(version: Scenario, name: str, examples: int) -> VersionObjects:
    """What users of a version write: its `objects`, or else `examples` of each kind, drawn from the models.

    Those with most fields are taken. Raises TypeError for a field whose type has no strategy.
    """
    if version.objects:
        return VersionObjects(version.objects, given=True)
    kinds = own_kinds(version)
    drawn = (_drawn(kind, version.strategies.get(kind), name, examples) for kind in kinds)
    return VersionObjects([manifest for manifests in drawn for manifest in manifests], given=False)


def _drawn(kind: type[Object], strategy: Any, name: str, count: int) -> Sequence[Mapping[str, Any]]:
    from hypothesis import HealthCheck, Phase, given, settings

    from reconcile.testing.strategies import values

    judge = ExampleKind.of(kind)
    found: list[dict[str, Any]] = []

    @settings(
        max_examples=count * _TRIES,
        phases=[Phase.generate],
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(values(kind) if strategy is None else strategy)
    def draw(obj: Object) -> None:
        manifest = manifest_of(_named(obj, name))
        if manifest not in found and not judge.faults(manifest):
            found.append(manifest)

    cast(Any, draw)()
    chosen = sorted(found, key=_fields_in, reverse=True)[:count]
    return [_numbered(manifest, number) for number, manifest in enumerate(chosen, 1)]


def _named(obj: Object, name: str) -> Object:
    metadata = obj.metadata if obj.metadata.name else ObjectMeta(name, DEFAULT_NAMESPACE)
    return obj.replace(metadata=evolve(metadata, name=name))


def _numbered(manifest: Mapping[str, Any], number: int) -> Mapping[str, Any]:
    metadata = manifest["metadata"]
    return {**manifest, "metadata": {**metadata, "name": f"{metadata['name']}-{number}"}}


def _fields_in(value: Any) -> int:
    items = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return 1 + sum(map(_fields_in, items))
