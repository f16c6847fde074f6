"""Classes for the objects of the API, their JSON, and their CustomResourceDefinitions."""

from reconcile.models.codec import DoesNotFit, decode, decode_snapshot, encode, structure, unstructure
from reconcile.models.definition import definition_of
from reconcile.models.objects import (
    Condition,
    Kind,
    Object,
    ObjectMeta,
    OwnerReference,
    Unstructured,
    field,
    kind_of,
    resource,
    unstructured,
)

__all__ = [
    "Condition",
    "DoesNotFit",
    "Kind",
    "Object",
    "ObjectMeta",
    "OwnerReference",
    "Unstructured",
    "decode",
    "decode_snapshot",
    "definition_of",
    "encode",
    "field",
    "kind_of",
    "resource",
    "structure",
    "unstructure",
    "unstructured",
]
