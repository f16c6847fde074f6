"""Events about owners that cannot be followed, since they are in another namespace than their dependent."""

from typing import Any

from informers.apimachinery.shard_selectors import fnv1a
from informers.resource import Key
from reconcile.embedded.engine import Engine
from reconcile.embedded.log import NAMESPACES, Stored
from reconcile.embedded.protocol.object_metadata import StoredOwner

# client-go records events about objects without a namespace in `default`.
_EVENTS_OF_CLUSTER = "default"
_SOURCE = "garbage-collector-controller"


def record_foreign_owner(engine: Engine, stored: Stored, owner: StoredOwner) -> None:
    """Record `OwnerRefInvalidNamespace` for `stored`, once for each owner."""
    resource = engine.registry.by_kind("", "Event")
    namespace = stored.key.namespace or _EVENTS_OF_CLUSTER
    home = engine.log.get(NAMESPACES, Key("", namespace))
    if resource is None or home is None or home.deleting:
        return
    name = f"{stored.key.name}.{fnv1a(stored.uid + owner.uid):016x}"
    if engine.get(resource, namespace, name) is None:
        engine.put_if_it_fits(resource, _event(engine, stored, owner, namespace, name))


def _event(engine: Engine, stored: Stored, owner: StoredOwner, namespace: str, name: str) -> dict[str, Any]:
    now = engine.now()
    reference = f"[{owner.api_version}/{owner.kind}, name: {owner.name}, uid: {owner.uid}]"
    involved = {
        "apiVersion": stored.encoded_by.api_version,
        "kind": stored.encoded_by.kind,
        "name": stored.key.name,
        "namespace": stored.key.namespace,
        "uid": stored.uid,
    }
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": str(engine.clock.uuid()),
            "creationTimestamp": now,
        },
        "involvedObject": {member: value for member, value in involved.items() if value},
        "reason": "OwnerRefInvalidNamespace",
        "message": f'ownerRef {reference} does not exist in namespace "{stored.key.namespace}"',
        "source": {"component": _SOURCE},
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
        "type": "Warning",
        "eventTime": None,
        "reportingComponent": _SOURCE,
        "reportingInstance": "",
    }
