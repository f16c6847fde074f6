"""Classes for the objects of the API, their JSON, and their CustomResourceDefinitions."""

from typing import TYPE_CHECKING

from informers.lazy_face import on_demand
from reconcile.models.codec import decode, decode_snapshot, encode, structure, unstructure
from reconcile.models.extra_fields import ExtraFields
from reconcile.models.fields import UNSET, Rule, Schema, UnsetType, field
from reconcile.models.frozen import FrozenList, FrozenMapping, freeze, thaw
from reconcile.models.intents import Intent
from reconcile.models.label_selector import LabelRequirement, LabelSelector
from reconcile.models.objects import (
    Column,
    Condition,
    Kind,
    Object,
    ObjectMeta,
    OwnerReference,
    Unstructured,
    kind_of,
    resource,
    unstructured_kind,
)
from reconcile.models.reading import DecodeError, FieldError
from reconcile.models.scale import Scale
from reconcile.models.values import Quantity
from reconcile.models.writing import MicroTime, ResourceAmounts

if TYPE_CHECKING:
    from reconcile.models.definition import definition_of

__all__ = [
    "UNSET",
    "Column",
    "Condition",
    "DecodeError",
    "ExtraFields",
    "FieldError",
    "FrozenList",
    "FrozenMapping",
    "Intent",
    "Kind",
    "LabelRequirement",
    "LabelSelector",
    "MicroTime",
    "Object",
    "ObjectMeta",
    "OwnerReference",
    "Quantity",
    "ResourceAmounts",
    "Rule",
    "Scale",
    "Schema",
    "UnsetType",
    "Unstructured",
    "decode",
    "decode_snapshot",
    "definition_of",
    "encode",
    "field",
    "freeze",
    "kind_of",
    "resource",
    "structure",
    "thaw",
    "unstructure",
    "unstructured_kind",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = on_demand(__name__)
