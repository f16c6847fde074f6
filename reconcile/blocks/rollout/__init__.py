"""A new template in place of the old one, step by step."""

__all__: list[str] = []
