"""Manifests: the YAML or JSON text, or the mapping, that describes an object."""

import functools
from collections.abc import Mapping, Sequence
from typing import Any

from attrs import define, field

from informers import APIResource
from informers.apimachinery.yaml_scalars import loader_on
from informers.discovery import Discovery
from reconcile.models import Unstructured, decode, unstructured_kind


@define(eq=False)
class ManifestObjects:
    """Decodes manifests; each resource has one class, so that its objects compare equal."""

    _discovery: Discovery
    _models: dict[APIResource, type[Unstructured]] = field(factory=dict, init=False)

    async def object_of(self, manifest: Mapping[str, Any] | str) -> Unstructured:
        """The object that a mapping or YAML text describes. Raises UnknownKind, ValueError."""
        if isinstance(manifest, str):
            manifest = manifest_of(manifest)
        api_version, kind = manifest.get("apiVersion"), manifest.get("kind")
        if not isinstance(api_version, str) or not isinstance(kind, str):
            raise ValueError("a manifest needs apiVersion and kind")
        resource = await self._discovery.resource(api_version, kind)
        model = self._models.get(resource)
        if model is None:
            model = unstructured_kind(
                api_version, kind, plural=resource.plural, namespaced=resource.namespaced
            )
            self._models[resource] = model
        return decode(model, manifest)


def manifest_of(text: str) -> Mapping[str, Any]:
    """The one object that a text describes; times stay text.

    Raises ValueError for a text that is not YAML or does not hold exactly one object, for a duplicate member
    (YAML would silently take the last), and for a member name that is not read as text (`on` is true).
    """
    import yaml

    try:
        found = documents_in(text)
    except yaml.YAMLError as error:
        raise ValueError(f"this is not YAML: {error}") from None
    if len(found) != 1 or not isinstance(found[0], Mapping):
        raise ValueError(f"a manifest describes one object, and this text holds {len(found)} documents")
    manifest: Mapping[str, Any] = found[0]
    return manifest


def documents_in(text: str) -> Sequence[Any]:
    """The documents of a text that are not empty; times stay text. Raises yaml.YAMLError."""
    import yaml

    return [document for document in yaml.load_all(text, Loader=_loader()) if document is not None]


@functools.cache
def _loader() -> Any:
    """A loader of YAML as kubectl reads it, without duplicate members; importing yaml is slow."""
    import yaml

    made = loader_on(getattr(yaml, "CSafeLoader", yaml.SafeLoader))

    def mapping(loader: Any, node: Any) -> Any:
        own = [name for name, _ in node.value if name.tag != "tag:yaml.org,2002:merge"]
        names = [loader.construct_object(name, deep=True) for name in own]
        odd = next((name for name in names if not isinstance(name, str)), None)
        if odd is not None:
            why = f"{odd!r} is not text: write this name of a member in quotes"
            raise yaml.constructor.ConstructorError(None, None, why, node.start_mark)
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise yaml.constructor.ConstructorError(None, None, f"{twice!r} is there twice", node.start_mark)
        return yaml.SafeLoader.construct_mapping(loader, node, deep=True)

    made.add_constructor("tag:yaml.org,2002:map", mapping)
    return made
