"""Copies of Secrets, kept where an object wants them."""

__all__: list[str] = []
