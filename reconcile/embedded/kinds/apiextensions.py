"""CustomResourceDefinitions, the kind; `custom_definitions` has their rules."""

from functools import partial
from typing import Final

from attrs import evolve

from reconcile.embedded.kinds.built_in_kind import BuiltInKind
from reconcile.embedded.kinds.custom_definitions import (
    definition_warnings,
    prepare_definition,
    validate_definition,
)
from reconcile.embedded.kubectl.printing import CREATED, NAMES
from reconcile.embedded.schema.json_schema import JSON_SCHEMA

KINDS: Final = (
    BuiltInKind(
        "apiextensions.k8s.io", "CustomResourceDefinition", short_names=("crd", "crds"),
        categories=("api-extensions",), namespaced=False, has_status=True, has_generation=True,
        answers_object_on_delete=True, unconditional_update=False,
        grafts={("spec", "versions", "", "schema", "openAPIV3Schema"): JSON_SCHEMA},
        defaults=prepare_definition,
        checks=validate_definition,
        warnings=definition_warnings,
        columns=(NAMES, CREATED),
    ),
)  # fmt: skip

CONVERTIBLE_KINDS: Final = tuple(
    evolve(kind, checks=partial(validate_definition, converts=True)) for kind in KINDS
)
"""The same on a server with a converter."""
