"""The words of the API: failures, names, selectors and the place that a request is about."""

__all__: list[str] = []
