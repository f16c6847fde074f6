"""What one run of a reconciler is about: its request, its record, its failure as text."""

__all__: list[str] = []
