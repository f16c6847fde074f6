"""Field managers: the names under which fields of objects are written."""

FIELD_MANAGER_LENGTH = 128
"""Characters; the API server refuses longer ones."""
STORMS = "-storms"
"""Suffix of a controller's field manager for the writes of a storm's condition."""


def check_field_manager(name: str) -> str:
    """Returns the name. Raises ValueError for one that the API server would refuse."""
    if not 0 < len(name) <= FIELD_MANAGER_LENGTH or not name.isprintable():
        raise ValueError(
            f"field manager {name!r}: expected 1 to {FIELD_MANAGER_LENGTH} printable characters, "
            f"got {len(name)}"
        )
    return name
