"""Sites on kopf that note in the file $CALLS when a handler begins and ends, and what replaces it."""

import os
import time
from pathlib import Path
from typing import Any

import kopf

from reconcile import Context, Controller, Object, Predecessor, resource

PLACE = ("switched.example.com", "v1", "sites")


@kopf.on.startup()
def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
    settings.networking.error_backoffs = [0.1]
    settings.peering.lifetime = 10


@kopf.on.login()
def log_in(**given: Any) -> kopf.ConnectionInfo | None:
    # The client library that older versions of kopf log in by has changed since.
    return kopf.login_with_kubeconfig(**given)


def note(what: str, name: str) -> None:
    with Path(os.environ["CALLS"]).open("a") as calls:
        calls.write(f"{what} {name}\n")


@kopf.on.create(*PLACE)
def created(name: str, retry: int, **_: Any) -> None:
    note("begin", name)
    if name == "slow":
        time.sleep(4)
    if name == "retried" and not retry:
        note("fail", name)
        raise kopf.TemporaryError("not yet", delay=4)
    note("end", name)


@kopf.on.update(*PLACE)
def updated(name: str, **_: Any) -> None:
    note("update", name)


@kopf.on.delete(*PLACE)
def deleted(name: str, **_: Any) -> None:
    note("delete", name)


@resource("switched.example.com/v1")
class Site(Object):
    size: int = 1


async def keep(ctx: Context[Site]) -> None: ...


async def clean_up(ctx: Context[Site]) -> None: ...


sites = Controller(Site, keep, cleanup=clean_up, predecessor=Predecessor.kopf("sites on kopf"))
