"""One run of a reconciler as values: its request and result, its record, its failure as text."""

__all__: list[str] = []
