"""Stands for any blocking driver; it only remembers."""

passwords: dict[str, str] = {}


def create_schema(host: str, password: str, *, timeout: float) -> None:
    """Have the schema of the application on that server. Raises ConnectionError within `timeout` seconds."""
    passwords[host] = password
