"""The values of one run of a reconciler: its request and result, its record, its failure as text."""

__all__: list[str] = []
