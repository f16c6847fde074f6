"""An operator on kopf that uses each decorator, and most of what kopf offers to handlers."""

import asyncio
from functools import partial
from typing import Any

import kopf
from kopf import TemporaryError

SITES = ("example.com", "v1", "sites")
SEEN: dict[str, str] = {}


@kopf.on.startup()
def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
    raise AssertionError("no handler is called by reading")
    settings.persistence.finalizer = "example.com/sites"
    settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix="sites.example.com")
    settings.peering.name = "sites"
    settings.admission.server = kopf.WebhookServer(port=8443, password="hunter2")
    settings.execution.max_workers = 5


@kopf.on.cleanup()
async def close(**_: Any) -> None: ...


@kopf.on.login(retries=3)
def log_in(**_: Any) -> kopf.ConnectionInfo:
    raise kopf.LoginError


@kopf.on.probe(id="now")
def answer(**_: Any) -> str:
    return "now"


@kopf.on.create(*SITES, backoff=10, param={"password": "hunter2"})
@kopf.on.resume(*SITES, deleted=True)
@kopf.on.update(*SITES, field="spec.image", errors=kopf.ErrorsMode.PERMANENT)
def keep(name: str, spec: Any, patch: kopf.Patch, memo: kopf.Memo, retry: int, **_: Any) -> dict[str, int]:
    """Keep what a site needs."""
    child: dict[str, Any] = {}
    kopf.adopt(child)
    SEEN[name] = "kept"
    patch.status["ready"] = 1
    patch["spec"]["size"] = 2
    api: Any = None
    api.create_namespaced_config_map("default", child)
    if retry:
        raise TemporaryError("not yet", delay=5)
    return {"ready": 1}


@kopf.on.field(*SITES, field="spec.size", old=1, new=kopf.PRESENT)
async def resize(old: int, new: int, **_: Any) -> None:
    await asyncio.sleep(1)

    @kopf.subhandler(id="part")
    async def part(**_: Any) -> int:
        return 1

    await kopf.execute()


@kopf.on.delete(*SITES, optional=True)
def forget(**_: Any) -> None: ...


@kopf.on.event("v1", "pods", labels={"site": kopf.PRESENT, "tier": "web"}, when=lambda **_: True)
async def follow(event: kopf.RawEvent, **_: Any) -> None: ...


@kopf.on.event(kopf.EVERYTHING)
async def look(**_: Any) -> None: ...


@kopf.index("pods", id="by-site")
async def by_site(name: str, **_: Any) -> dict[str, str]:
    return {"site": name}


@kopf.timer(*SITES, interval=30, idle=10, sharp=True, initial_delay=5, annotations={"measured": kopf.ABSENT})
async def measure(**_: Any) -> None: ...


@kopf.daemon(*SITES, cancellation_timeout=5)
async def watch(stopped: Any, **_: Any) -> None:
    await asyncio.sleep(1)


@kopf.on.validate(*SITES, operations=["CREATE", "UPDATE"], ignore_failures=True)
def check(warnings: list[str], **_: Any) -> None:
    raise kopf.AdmissionError("no")


@kopf.on.mutate(*SITES, persistent=True)
def complete(patch: kopf.Patch, **_: Any) -> None: ...


OWN = kopf.OperatorRegistry()


@kopf.on.create(kind="Site", registry=OWN)
def apart(**_: Any) -> None: ...


kopf.on.create(category="all", id="partial")(partial(apart, size=1))
