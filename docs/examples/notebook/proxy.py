"""A stand-in for the blocking client of a proxy; it keeps everything in memory."""

from datetime import datetime

routes: dict[str, str] = {}
used: dict[str, datetime] = {}


def add_route(name: str, target: str) -> None:
    """Route requests for /name to the target, replacing an existing route."""
    routes[name] = target


def drop_route(name: str) -> None:
    """Remove a route. It is not an error if there is none."""
    routes.pop(name, None)


def last_used(name: str) -> datetime | None:
    """When /name was last requested; None: never."""
    return used.get(name)
