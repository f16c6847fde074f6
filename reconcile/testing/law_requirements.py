"""What the laws of a kind have in common: one law without its objects, and how a broken one is described."""

from collections.abc import Callable

import msgspec
from attrs import frozen

from reconcile.client.diff import value_differences


class LawFault(Exception):
    """A law does not hold for some objects; the text says what is wrong."""


@frozen
class Requirement:
    """A law without the objects on which it is tried."""

    promise: str
    advice: str
    """The next step of an author whose functions break it."""
    check: Callable[..., None]
    """Takes `objects` examples. Raises LawFault."""
    objects: int = 1


def first_change(before: object, after: object) -> str:
    """The first field in which two objects differ, with both values."""
    path, old, new = next(value_differences(before, after), ("", before, after))
    return f"{path.removeprefix('.')} is {json_text(new)} instead of {json_text(old)}"


def cause_of(error: BaseException) -> str:
    return "" if error.__cause__ is None else f": {error.__cause__}"


def json_text(value: object) -> str:
    return "nothing" if value is None else msgspec.json.encode(value).decode()
