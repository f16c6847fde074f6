"""ResourceQuotas limit how many objects a namespace may hold.

Pods that have ended, compute resources and scopes are not counted.
"""

from collections.abc import Collection, Mapping
from typing import Any

from attrs import frozen

from informers.resource import Key
from reconcile.embedded.admission.chain import AdmittedWrite
from reconcile.embedded.engine import Engine
from reconcile.embedded.kinds.resource_quotas import counted_resource
from reconcile.embedded.log import Log, StorageKey, Stored, StoredChange
from reconcile.embedded.protocol.api_failure import Denied
from reconcile.embedded.served import ServedResource

QUOTAS: StorageKey = ("", "resourcequotas")

_PODS: StorageKey = ("", "pods")
_ENDED = frozenset({"Succeeded", "Failed"})


class Quotas:
    """Keeps the status of quotas; `guard` refuses objects that exceed one."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.dirty: set[str] = set()
        """Namespaces with changes for `sync`: a quota counts nothing outside its own."""
        self._keys: dict[str, set[Key]] = {}
        for stored in engine.log.snapshot(QUOTAS):
            self._keys.setdefault(stored.key.namespace, set()).add(stored.key)
        self.guard = QuotaGuard(engine.log, self._keys)
        engine.log.on_change(self._note)

    def _note(self, change: StoredChange) -> None:
        namespace = change.key.namespace
        if change.resource == QUOTAS:
            self._index(change)
        if namespace in self._keys:
            self.dirty.add(namespace)

    def _index(self, change: StoredChange) -> None:
        keys = self._keys.setdefault(change.key.namespace, set())
        if change.new is not None:
            keys.add(change.key)
            return
        keys.discard(change.key)
        if not keys:
            del self._keys[change.key.namespace]

    def sync(self) -> None:
        if not self.dirty:
            return
        for stored in [stored for name in sorted(self.dirty) for stored in self.guard.quotas(name)]:
            quota = stored.decode()
            limits = _limits(quota)
            hard = (quota.get("spec") or {}).get("hard") or {}
            used = {name: str(self.guard.used(name, stored.key.namespace)) for name in limits}
            status = {"hard": {name: hard[name] for name in limits}, "used": used}
            if limits and quota.get("status") != status:
                self._engine.put_if_it_fits(stored.encoded_by, {**quota, "status": status})
        self.dirty.clear()


@frozen
class QuotaGuard:
    log: Log
    keys: Mapping[str, Collection[Key]]
    """The keys of the quotas by namespace, so that a new object is not checked against every quota."""

    def quotas(self, namespace: str) -> list[Stored]:
        found = [self.log.get(QUOTAS, key) for key in sorted(self.keys.get(namespace, ()))]
        return [stored for stored in found if stored is not None]

    def concerns(self, resource: ServedResource) -> bool:
        return resource.namespaced and bool(self.keys)

    def __call__(self, request: AdmittedWrite) -> None:
        if request.operation != "CREATE":
            return
        for stored in self.quotas(request.namespace):
            self._check(request, stored.decode())

    def used(self, name: str, namespace: str) -> int:
        key = counted_resource(name)
        if key is None:
            return 0
        return sum(
            stored.key.namespace == namespace and _counts(key, stored) for stored in self.log.snapshot(key)
        )

    def _check(self, request: AdmittedWrite, quota: Mapping[str, Any]) -> None:
        for name, limit in _limits(quota).items():
            if counted_resource(name) != request.resource.storage_key:
                continue
            used = self.used(name, request.namespace)
            if used + 1 > limit:
                raise Denied(
                    f"exceeded quota: {quota['metadata']['name']}, requested: {name}=1, "
                    f"used: {name}={used}, limited: {name}={limit}"
                )


def _counts(key: StorageKey, stored: Stored) -> bool:
    return key != _PODS or stored.fields.get("status.phase") not in _ENDED


def _limits(quota: Mapping[str, Any]) -> dict[str, int]:
    """The limits that are evaluated: counts, and only those of a quota without scopes."""
    spec = quota.get("spec") or {}
    if spec.get("scopes") or spec.get("scopeSelector"):
        return {}
    hard = spec.get("hard") or {}
    return {
        name: int(value)
        for name, value in hard.items()
        if counted_resource(name) is not None and str(value).isdecimal()
    }
