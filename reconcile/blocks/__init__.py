"""Public building blocks: parts of an operator that are hard to get right, for any kind."""

from reconcile.blocks.copier import Copied, Copier, CopyFailed
from reconcile.blocks.copies import Content, Copy, Removal, Unusable, as_it_is
from reconcile.blocks.copy_plan import CopyStatus

__all__ = [
    "Content",
    "Copied",
    "Copier",
    "Copy",
    "CopyFailed",
    "CopyStatus",
    "Removal",
    "Unusable",
    "as_it_is",
]
