"""Which finalizer belongs to which operator: written into manifests, read from a cluster. Pure functions.

The Deployment of an operator and the definitions of its kinds carry the annotation FINALIZERS. It stays on
the definitions when the operator is gone, so it can be found out whose cleanup an object waits for.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from attrs import frozen

from informers import APIResource
from reconcile.controller.declaration import Controller
from reconcile.models import kind_of
from reconcile.shipping.documents import Document

NAME: Final = "app.kubernetes.io/name"
"""The label with the name of the operator, on each object of its manifests."""
FINALIZERS: Final = "reconcile-runtime/finalizers"
"""The annotation: `GROUP/VERSION/PLURAL=FINALIZER`, separated by commas."""
_ENTRY: Final = re.compile(r"(?:([a-z0-9.-]+)/)?(v[a-z0-9]+)/([a-z0-9]+)=([A-Za-z0-9./_-]+)")


@frozen
class Held:
    """Objects of a resource, and the finalizer with which an operator holds them."""

    group: str
    version: str
    plural: str
    finalizer: str

    @property
    def resource(self) -> str:
        """As RBAC writes it: `sites.example.com`, or `pods`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def __str__(self) -> str:
        group = f"{self.group}/" if self.group else ""
        return f"{group}{self.version}/{self.plural}={self.finalizer}"


@frozen
class Owner:
    """The operator that handles a finalizer, and its namespace: empty if it is gone."""

    name: str
    namespace: str = ""

    @property
    def is_gone(self) -> bool:
        return not self.namespace

    def __str__(self) -> str:
        return f"{self.name}, which is gone" if self.is_gone else f"{self.namespace}/{self.name}"


def held_by(controllers: Iterable[Controller[Any]]) -> Sequence[Held]:
    """What these controllers hold with `cleanup=` and `former_finalizers=`."""
    return [
        _held(kind_of(controller.kind).resource, finalizer)
        for controller in controllers
        for finalizer in controller.finalizers
    ]


def _held(resource: APIResource, finalizer: str) -> Held:
    return Held(resource.group, resource.version, resource.plural, finalizer)


def annotated(document: Document, held: Iterable[Held]) -> Document:
    """The object with the annotation; as it is if nothing is held."""
    text = ",".join(sorted(set(map(str, held))))
    if not text:
        return document
    annotations = {**document["metadata"].get("annotations", {}), FINALIZERS: text}
    return {**document, "metadata": {**document["metadata"], "annotations": annotations}}


def held_of(document: Mapping[str, Any]) -> Sequence[Held]:
    """What the annotation of an object says; entries that no manifests can have are left out."""
    text = (document.get("metadata", {}).get("annotations") or {}).get(FINALIZERS) or ""
    entries = map(_ENTRY.fullmatch, str(text).split(","))
    return [Held(entry[1] or "", entry[2], entry[3], entry[4]) for entry in entries if entry]


def owners_of_finalizers(
    definitions: Iterable[Mapping[str, Any]], deployments: Iterable[Mapping[str, Any]]
) -> Mapping[tuple[str, str], Owner]:
    """Owners by resource (`sites.example.com`) and finalizer.

    An owner that definitions name, and no Deployment, is gone: nothing removes its finalizers any more.
    """
    owners: dict[tuple[str, str], Owner] = {}
    for document in definitions:
        for held in held_of(document):
            owners[held.resource, held.finalizer] = Owner(_operator(document))
    for document in deployments:
        metadata = document["metadata"]
        for held in held_of(document):
            owners[held.resource, held.finalizer] = Owner(_operator(document), metadata["namespace"])
    return owners


def _operator(document: Mapping[str, Any]) -> str:
    metadata = document["metadata"]
    return str((metadata.get("labels") or {}).get(NAME) or metadata["name"])
