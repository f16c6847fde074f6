"""Keys that keep waking themselves: detected, reported and slowed down."""

from reconcile.storms.echoes import Echoes, Origin, is_echo
from reconcile.storms.storm_options import Storms

__all__ = ["Echoes", "Origin", "Storms", "is_echo"]
