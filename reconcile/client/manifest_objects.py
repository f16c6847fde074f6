"""Manifests as objects: the server is asked for their resource."""

from collections.abc import Mapping
from typing import Any

from attrs import define, field

from informers import APIResource
from informers.discovery import Discovery
from reconcile.client.manifest_text import manifest_of
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
