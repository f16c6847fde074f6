"""The status of PodDisruptionBudgets, as a cluster's disruption controller keeps it."""

from reconcile.embedded.engine import Engine
from reconcile.embedded.log import StoredChange
from reconcile.embedded.verbs.eviction import BUDGETS, current_status


class Disruptions:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.dirty = False
        """Whether `sync` has anything to do."""
        engine.log.on_change(self._note)

    def _note(self, change: StoredChange) -> None:
        if self._engine.log.count(BUDGETS):
            self.dirty = True

    def sync(self) -> None:
        if not self.dirty:
            return
        for stored in self._engine.log.snapshot(BUDGETS):
            budget = stored.decode()
            status = current_status(self._engine, budget)
            if budget.get("status") != status:
                self._engine.put_if_it_fits(stored.encoded_by, {**budget, "status": status})
        self.dirty = False
