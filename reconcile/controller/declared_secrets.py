"""The fields that are declared secret in the kinds that controllers name."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from informers import APIResource
from reconcile.controller.declaration import Controller
from reconcile.models import Object, kind_of
from reconcile.models.secret_fields import secret_fields


def declared_secrets(
    controllers: Iterable[Controller[Any]],
) -> Mapping[APIResource, frozenset[tuple[str, ...]]]:
    """The paths of secret fields by resource, of kinds that these controllers read or write."""
    paths: dict[APIResource, frozenset[tuple[str, ...]]] = {}
    for kind in {kind for controller in controllers for kind in _kinds_of(controller)}:
        if found := secret_fields(kind):
            resource = kind_of(kind).resource
            paths[resource] = paths.get(resource, frozenset()) | found
    return paths


def _kinds_of(controller: Controller[Any]) -> Iterator[type[Object]]:
    yield from controller.kinds
    yield from (write.kind for write in controller.writes if write.kind is not Object)
