"""Values in the query of a request."""

from collections.abc import Mapping


def flag(query: Mapping[str, str], name: str) -> bool:
    """A boolean: whatever is there and is neither `false` nor `0` is true, also nothing."""
    value = query.get(name)
    return value is not None and value.lower() not in ("false", "0")
