"""Stands for the client of a proxy, which blocks; it only remembers."""

from datetime import datetime

routes: dict[str, str] = {}
used: dict[str, datetime] = {}


def add_route(name: str, target: str) -> None:
    """Send what asks for /name to the target. A route that there is already is set anew."""
    routes[name] = target


def drop_route(name: str) -> None:
    """Take a route away. It is not an error if there is none."""
    routes.pop(name, None)


def last_used(name: str) -> datetime | None:
    """When somebody last asked for /name; None: never."""
    return used.get(name)
