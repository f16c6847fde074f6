"""The base of all built-in kinds."""

from collections.abc import Mapping
from typing import Any

import attrs

from reconcile.models import Object, field


class BuiltIn(Object):
    """Base of the built-in kinds."""

    extra: Mapping[str, Any] = field(factory=dict, extra_fields=True)


attrs.define(BuiltIn, frozen=True, kw_only=True, slots=False)
