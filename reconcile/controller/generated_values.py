"""Values that are generated once and kept: passwords, salts, tokens."""

import base64
from collections.abc import Callable
from typing import Any

from informers import AlreadyExists, Key, StaleVersion
from informers.functions import name_of
from reconcile.client.client import Client, core_of
from reconcile.kinds import Secret
from reconcile.models import Object, ObjectMeta, kind_of
from reconcile.owners import can_own, with_owner

ATTEMPTS = 5


async def generate_once(
    client: Client, owner: Object, name: str, make: Callable[[], str], secret: Key, generated: dict[str, str]
) -> str:
    """The value `name` of a Secret that `owner` owns; created with `make` if there is none.

    A value never changes, so a cache may supply it; its absence is confirmed by the server. `generated` has
    the values of this run, for dry runs. Raises StaleVersion if the Secret keeps changing.
    """
    resource = kind_of(Secret).resource
    core = core_of(client)
    for live in (core.lacks(resource, "/data"), *[True] * ATTEMPTS):
        stored = await client.raw.snapshot(resource, secret, live=live)
        data: dict[str, Any] = {} if stored is None else stored.to_dict().get("data") or {}
        if name in data:
            return base64.b64decode(data[name]).decode()
        if not live:
            continue
        if name not in generated:
            generated[name] = _text(make)
        if client.dry_run:
            return generated[name]
        encoded = base64.b64encode(generated[name].encode()).decode()
        try:
            if stored is None:
                obj = Secret(metadata=ObjectMeta(secret.name, secret.namespace), data={name: encoded})
                await client.create(with_owner(obj, owner) if can_own(owner, obj) else obj)
            else:
                guard = {"uid": stored.uid, "resourceVersion": str(stored.version)}
                await client.raw.patch(resource, secret, {"data": {name: encoded}}, guard=guard)
        except (AlreadyExists, StaleVersion):
            continue
        finally:
            core.run.forget_desired(resource, secret)
        return generated[name]
    raise StaleVersion(409, "Conflict", f"others keep changing the Secret {str(secret)!r}")


def _text(make: Callable[[], str]) -> str:
    value = make()
    if not isinstance(value, str):
        raise TypeError(f"generate_once: {name_of(make)} returned {type(value).__name__}, expected a string")
    return value
