"""The verbs of the API: what a request does."""

__all__: list[str] = []
