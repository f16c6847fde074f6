"""Webhooks that a manager serves: admission of writes, and conversion between versions."""

__all__: list[str] = []
