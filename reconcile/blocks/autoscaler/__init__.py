"""Sizes what has a /scale by what is measured."""

__all__: list[str] = []
