"""Stands for a system outside, which outlives every process: a name is a file of a folder."""

import os
from pathlib import Path

NAMES = Path(os.environ["DNS_NAMES"])


def upsert(name: str) -> None:
    """Make the name point to the site."""
    (NAMES / name).touch()


def delete(name: str) -> None:
    """Take the name away."""
    (NAMES / name).unlink(missing_ok=True)
