"""What Artifact Hub shows of an operator, as annotations of a chart or of a ClusterServiceVersion.

Facts: artifacthub/hub, docs/helm_annotations.md and docs/olm_annotations.md. Pure functions.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from reconcile.shipping.documents import Document, list_as_yaml
from reconcile.shipping.project import Project

_PREFIX: Final = "artifacthub.io"
# Between a small letter and a capital, and before the last capital of an abbreviation unless it is a plural.
_WORDS: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z](?!s\b)[a-z])")


def artifact_hub_annotations(
    project: Project, definitions: Sequence[Document], samples: Sequence[Document], image: str
) -> Mapping[str, str]:
    """The annotations of the Chart.yaml of an operator: its kinds, examples of them and its image too."""
    kinds = [kind for definition in definitions for kind in _kinds(definition)]
    return {
        f"{_PREFIX}/operator": "true",
        f"{_PREFIX}/operatorCapabilities": project.capabilities,
        f"{_PREFIX}/images": list_as_yaml([{"name": project.name, "image": image}]),
        **({f"{_PREFIX}/crds": list_as_yaml(kinds)} if kinds else {}),
        **({f"{_PREFIX}/crdsExamples": list_as_yaml(samples)} if samples else {}),
        **release_annotations(project),
    }


def release_annotations(project: Project) -> Mapping[str, str]:
    """Those of a version, which a ClusterServiceVersion takes too: the rest stands in its fields."""
    changes = [{"kind": change.kind, "description": change.description} for change in project.changes]
    secure = any(change.kind == "security" for change in project.changes)
    return {
        f"{_PREFIX}/prerelease": "true" if project.is_prerelease else "false",
        **({f"{_PREFIX}/license": project.license} if project.license else {}),
        **({f"{_PREFIX}/changes": list_as_yaml(changes)} if changes else {}),
        **({f"{_PREFIX}/containsSecurityUpdates": "true"} if secure else {}),
    }


def served_versions(definition: Document) -> Sequence[Mapping[str, Any]]:
    return [version for version in definition["spec"]["versions"] if version.get("served")]


def words_of(name: str) -> str:
    """`Ray Cluster` for `RayCluster`, `Pull Secret` for `pullSecret`."""
    words = _WORDS.sub(" ", name)
    return words[:1].upper() + words[1:]


def description_of(definition: Document, version: Mapping[str, Any]) -> str:
    """What the schema of a version says of its kind, else what the kind is."""
    schema = (version.get("schema") or {}).get("openAPIV3Schema") or {}
    spec = definition["spec"]
    return schema.get("description") or f"{spec['names']['kind']} of {spec['group']}/{version['name']}."


def _kinds(definition: Document) -> Iterator[Document]:
    kind = definition["spec"]["names"]["kind"]
    for version in served_versions(definition):
        yield {
            "kind": kind,
            "version": version["name"],
            "name": definition["metadata"]["name"],
            "displayName": words_of(kind),
            "description": description_of(definition, version),
        }
