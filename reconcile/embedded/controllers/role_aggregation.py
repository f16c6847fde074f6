"""Writes the rules that a ClusterRole aggregates into its `rules`; decisions do not wait for that."""

from typing import Any

from reconcile.embedded.auth.roles import CLUSTER_ROLES, Access
from reconcile.embedded.engine import Engine
from reconcile.embedded.log import StoredChange


class Aggregation:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._dirty = False
        engine.log.on_change(self._note)

    def _note(self, change: StoredChange) -> None:
        if change.resource == CLUSTER_ROLES:
            self._dirty = True

    def sync(self) -> None:
        if not self._dirty:
            return
        for stored in self._engine.log.snapshot(CLUSTER_ROLES):
            role = stored.decode()
            if role.get("aggregationRule"):
                rules = _rules_of(self._engine.access, role)
                if rules != (role.get("rules") or []):
                    self._engine.put_if_it_fits(stored.encoded_by, {**role, "rules": rules})
        self._dirty = False


def _rules_of(access: Access, role: dict[str, Any]) -> list[dict[str, Any]]:
    rules: list[dict[str, Any]] = []
    for rule in access.rules_in(role):
        written = rule.to_json()
        if written not in rules:
            rules.append(written)
    return rules
