"""The parameters of a policy's binding."""

from collections.abc import Mapping
from typing import Any

import msgspec
from attrs import frozen

from informers.apimachinery.label_selectors import matches_labels, requirements_of
from informers.resource import Key
from reconcile.embedded.log import Log, Stored
from reconcile.embedded.registry import ResourceRegistry
from reconcile.embedded.served import ServedResource
from reconcile.embedded.stored_forms import shown

_CLUSTER_OBJECT = "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
_NONE_FOUND = "no params found for policy binding with `Deny` parameterNotFoundAction"
_CLUSTER_PARAMS = "paramRef.namespace must not be provided for a cluster-scoped `paramKind`"


class UnusableParams(Exception):
    """A policy or a binding cannot be used for a request; the text is that of a real server."""


@frozen
class PolicyParams:
    """Where parameters are looked up."""

    log: Log
    registry: ResourceRegistry

    def kind_of(self, kind: Mapping[str, Any]) -> ServedResource:
        """The resource of a `paramKind`. Raises UnusableParams if it is not served."""
        group, _, version = kind["apiVersion"].rpartition("/")
        found = self.registry.by_kind(group, kind["kind"], version)
        if found is None:
            name = f"{group}/{version}, Kind={kind['kind']}"
            raise UnusableParams(f"failed to find resource referenced by paramKind: '{name}'")
        return found

    async def find(
        self, kind: Mapping[str, Any] | None, reference: Mapping[str, Any] | None, namespace: str
    ) -> list[dict[str, Any] | None]:
        """The parameters for a request in a namespace: [None] if the policy or its binding uses none.

        Raises UnusableParams if they cannot be looked up, or there are none and that is to refuse.
        """
        if kind is None or reference is None:
            return [None]
        resource = self.kind_of(kind)
        place = _namespace(resource, reference.get("namespace") or "", namespace)
        stored = self._stored(resource, reference, place)
        found: list[dict[str, Any] | None] = [
            msgspec.json.decode(await shown(one, resource)) for one in stored
        ]
        if not found and reference.get("parameterNotFoundAction") == "Deny":
            raise UnusableParams(_NONE_FOUND)
        return found

    def _stored(self, resource: ServedResource, reference: Mapping[str, Any], place: str) -> list[Stored]:
        if name := reference.get("name"):
            stored = self.log.get(resource.storage_key, Key(place, name))
            return [] if stored is None else [stored]
        wanted = requirements_of(reference.get("selector") or {})
        key = resource.storage_key
        every = self.log.within(key, place) if resource.namespaced else self.log.snapshot(key)
        return [stored for stored in every if matches_labels(wanted, stored.labels)]


def _namespace(resource: ServedResource, given: str, namespace: str) -> str:
    if not resource.namespaced:
        if given:
            raise UnusableParams(_CLUSTER_PARAMS)
        return ""
    if not given and not namespace:
        raise UnusableParams(_CLUSTER_OBJECT)
    return given or namespace
