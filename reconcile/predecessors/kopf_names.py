"""The names under which a kopf operator works: all of kopf that the declaration of a controller has.

Sources: kopf 1.45, `_cogs/configs/conventions.py`, `progress.py`, `diffbase.py`.
"""

import base64
import hashlib

from attrs import frozen

PREFIX = "kopf.zalando.org"
FINALIZER = "kopf.zalando.org/KopfFinalizerMarker"
PEERING = "default"
LAST_HANDLED = "last-handled-configuration"
KOPF_MANAGER = "kopf"
FIELD_MANAGERS = (KOPF_MANAGER, "OpenAPI-Generator", "python-requests", "pykube-ng", "kr8s", "python-httpx")
"""The field managers of what a kopf operator writes: kopf's own, and those of the client libraries.

A client that names no field manager gets the first part of its User-Agent: kubernetes and kubernetes-asyncio
`OpenAPI-Generator`, pykube-ng its name or that of requests, kr8s its name or that of httpx, as lightkube.
"""

_NAME_LENGTH = 63


@frozen
class KopfTraces:
    """The names under which one kopf operator works; the defaults are kopf's.

    `prefix` is that of its annotations (`AnnotationsProgressStorage(prefix=)`), `finalizer` that of
    `settings.persistence.finalizer`, `peering` the name of its peering objects (`--peering`; empty: it runs
    `--standalone`), `status_field` the field below `status`. `field_managers` are those of its writes: their
    fields of objects that this operator applies become its own.
    """

    prefix: str = PREFIX
    finalizer: str = FINALIZER
    peering: str = PEERING
    status_field: str = "kopf"
    field_managers: tuple[str, ...] = FIELD_MANAGERS

    def names_of(self, name: str) -> tuple[str, ...]:
        """The annotations in which kopf keeps `name`: the newer form first, then the older if it differs."""
        return tuple(dict.fromkeys((_newer(self.prefix, name), _older(self.prefix, name))))


def _newer(prefix: str, name: str) -> str:
    suffix = _hash_of(name) if len(name) > _NAME_LENGTH else ""
    return f"{prefix}/{safe(name)[: _NAME_LENGTH - len(suffix)]}{suffix}"


def _older(prefix: str, name: str) -> str:
    part, room = safe(name), _NAME_LENGTH - len(prefix) - 1
    suffix = _hash_of(part) if len(part) > room else ""
    # A prefix that leaves no room cuts from the end, as kopf does.
    return f"{prefix}/{part[: room - len(suffix)]}{suffix}"


def safe(name: str) -> str:
    """The name of a handler as kopf has it in annotations."""
    return name.replace("/", ".").replace("<", "_").replace(">", "_")


def _hash_of(name: str) -> str:
    digest = hashlib.blake2b(name.encode(), digest_size=4).digest()
    return f"-{base64.b64encode(digest, altchars=b'-.').decode('ascii')}".rstrip("=-.")
