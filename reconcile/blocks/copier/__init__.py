"""Copies of Secrets, kept where objects ask for them."""

__all__: list[str] = []
