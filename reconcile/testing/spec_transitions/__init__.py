"""Every change of a spec that a model allows: made from its schema, played on the real controllers."""

from typing import TYPE_CHECKING

from informers.lazy_face import on_demand

if TYPE_CHECKING:
    from reconcile.testing.spec_transitions.transition_report import BrokenTransition, TransitionsReport
    from reconcile.testing.spec_transitions.transitions_mode import transitions

__all__ = ["BrokenTransition", "TransitionsReport", "transitions"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = on_demand(__name__)
