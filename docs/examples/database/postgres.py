"""A stand-in for any blocking driver; it only keeps the data in memory."""

passwords: dict[str, str] = {}


def create_schema(host: str, password: str, *, timeout: float) -> None:
    """Create the application's schema on that server. Raises ConnectionError within `timeout` seconds."""
    passwords[host] = password
