"""Lets volumes and claims go that are deleted and no longer in use, as a cluster's two controllers do."""

from collections.abc import Mapping
from typing import Any, Final

from informers.resource import Key
from reconcile.embedded.engine import Engine
from reconcile.embedded.log import StorageKey, Stored, StoredChange

_PODS: Final[StorageKey] = ("", "pods")
_CLAIMS: Final[StorageKey] = ("", "persistentvolumeclaims")
_FINALIZERS: Final[Mapping[StorageKey, str]] = {
    ("", "persistentvolumes"): "kubernetes.io/pv-protection",
    _CLAIMS: "kubernetes.io/pvc-protection",
}


class StorageProtection:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._held: dict[tuple[StorageKey, Key], None] = {}
        """Deleted volumes and claims that have their finalizer still."""
        self._dirty = False
        for resource in _FINALIZERS:
            for stored in engine.log.snapshot(resource):
                self._hold(resource, stored)
        engine.log.on_change(self._note)

    def _note(self, change: StoredChange) -> None:
        if change.resource in _FINALIZERS:
            self._held.pop((change.resource, change.key), None)
            if change.new is not None:
                self._hold(change.resource, change.new)
        elif change.resource == _PODS and self._held:
            self._dirty = True

    def _hold(self, resource: StorageKey, stored: Stored) -> None:
        if stored.deleting and _FINALIZERS[resource] in stored.finalizers:
            self._held[resource, stored.key] = None
            self._dirty = True

    def sync(self) -> bool:
        """Release what is not in use; returns whether there was anything."""
        if not self._dirty:
            return False
        held = [(resource, self._engine.log.get(resource, key)) for resource, key in self._held]
        free = [(place, stored) for place, stored in held if stored and not self._is_used(place, stored)]
        for resource, stored in free:
            self._release(resource, stored)
        self._dirty = False
        return bool(free)

    def _is_used(self, resource: StorageKey, stored: Stored) -> bool:
        if resource != _CLAIMS:
            return (stored.decode().get("status") or {}).get("phase") == "Bound"
        namespace, name = stored.key.namespace, stored.key.name
        pods = (pod for pod in self._engine.log.snapshot(_PODS) if pod.key.namespace == namespace)
        return any(_uses(pod.decode(), name) for pod in pods)

    def _release(self, resource: StorageKey, stored: Stored) -> None:
        obj, engine = stored.decode(), self._engine
        metadata = obj["metadata"]
        metadata["finalizers"] = [name for name in metadata["finalizers"] if name != _FINALIZERS[resource]]
        if not metadata["finalizers"]:
            del metadata["finalizers"]
        if engine.is_finished(stored.encoded_by, obj):
            engine.remove(resource, stored.key)
        else:
            engine.put_if_it_fits(stored.encoded_by, obj)


def _uses(pod: Mapping[str, Any], claim: str) -> bool:
    """Whether a pod that has a node mounts the claim; a kubelet starts none with a claim that ends."""
    spec = pod.get("spec") or {}
    return bool(spec.get("nodeName")) and any(
        (volume.get("persistentVolumeClaim") or {}).get("claimName") == claim
        or (volume.get("ephemeral") is not None and f"{pod['metadata']['name']}-{volume['name']}" == claim)
        for volume in spec.get("volumes") or ()
    )
