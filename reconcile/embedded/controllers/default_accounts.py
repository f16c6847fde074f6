"""The `default` ServiceAccount of every namespace, created again if it is deleted."""

from informers.resource import Key
from reconcile.embedded.engine import Engine
from reconcile.embedded.log import NAMESPACES, StorageKey, StoredChange

DEFAULT = "default"

_ACCOUNTS: StorageKey = ("", "serviceaccounts")


class DefaultAccounts:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lacking: dict[str, None] = {}
        engine.log.on_change(self._note)

    def _note(self, change: StoredChange) -> None:
        if change.resource == NAMESPACES and change.old is None:
            self._lacking[change.key.name] = None
        elif change.resource == _ACCOUNTS and change.new is None and change.key.name == DEFAULT:
            self._lacking[change.key.namespace] = None

    def sync(self) -> None:
        while self._lacking:
            name, _ = self._lacking.popitem()
            namespace = self._engine.log.get(NAMESPACES, Key("", name))
            if namespace is not None and not namespace.deleting:
                self._create(name)

    def _create(self, namespace: str) -> None:
        resource = self._engine.registry.by_kind("", "ServiceAccount")
        if resource is None or self._engine.get(resource, namespace, DEFAULT) is not None:
            return
        metadata = {
            "name": DEFAULT,
            "namespace": namespace,
            "uid": str(self._engine.clock.uuid()),
            "creationTimestamp": self._engine.now(),
        }
        account = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}
        self._engine.put_if_it_fits(resource, account)
