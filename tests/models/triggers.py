"""A union of classes that a tag tells apart."""

from typing import Literal

from attrs import frozen


@frozen
class Cron:
    """By the clock."""

    schedule: str
    type: Literal["Cron"] = "Cron"


@frozen
class Burst:
    """By demand."""

    target: int
    type: Literal["Burst"] = "Burst"
    note: str | None = None
