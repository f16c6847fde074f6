"""Values in the query of a request."""

from collections.abc import Mapping


def flag(query: Mapping[str, str], name: str) -> bool:
    """A boolean: present and neither `false` nor `0`; a value may be missing."""
    value = query.get(name)
    return value is not None and value.lower() not in ("false", "0")
