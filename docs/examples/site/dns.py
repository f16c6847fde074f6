"""Stands for any blocking library; it only remembers."""

names: set[str] = set()


def upsert(name: str) -> None:
    """Make the name point to the site."""
    names.add(name)


def delete(name: str) -> None:
    """Take the name away."""
    names.discard(name)
