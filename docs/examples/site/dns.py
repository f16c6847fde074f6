"""A stand-in for any blocking library; it only keeps the names in memory."""

names: set[str] = set()


def upsert(name: str) -> None:
    """Make the name point to the site."""
    names.add(name)


def delete(name: str) -> None:
    """Remove the name."""
    names.discard(name)
