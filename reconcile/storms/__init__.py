"""Keys that keep waking themselves: which news are echoes, what a loop is, and what is done about one."""

from reconcile.storms.echoes import Echoes, News, is_echo
from reconcile.storms.policy import Storms

__all__ = ["Echoes", "News", "Storms", "is_echo"]
