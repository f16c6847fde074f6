"""What the metadata of a million objects costs; runs only when it is asked for by name."""

from tests.bench import _scale
from tests.bench._harness import Figures


def figures() -> Figures:
    taken = _scale.million()
    return {
        "million.sync_s": taken["sync_s"],
        "million.sync_cpu_s": taken["sync_cpu_s"],
        "million.relist_s": taken["relist_s"],
        "million.mb": taken["sync_mb"],
        "million.mb_after_relist": taken["relist_mb"],
        "million.stall_p99_ms": taken["longest_p99_ms"],
        "million.stall_max_ms": taken["longest_max_ms"],
    }
