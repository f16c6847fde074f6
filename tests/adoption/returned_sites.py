"""Sites on kopf, whose handlers note each call in the file $CALLS, and the operator that replaced it."""

import os
from pathlib import Path
from typing import Any

import kopf

from reconcile import Context, Controller, Manager, Object, Predecessor, resource

PLACE = ("back.example.com", "v1", "sites")


@kopf.on.startup()
def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
    settings.networking.error_backoffs = [0.1]


def note(what: str, name: str) -> None:
    with Path(os.environ["CALLS"]).open("a") as calls:
        calls.write(f"{what} {name}\n")


@kopf.on.create(*PLACE)
def created(name: str, **_: Any) -> None:
    note("create", name)


@kopf.on.update(*PLACE)
def updated(name: str, **_: Any) -> None:
    note("update", name)


@kopf.on.resume(*PLACE)
def resumed(name: str, **_: Any) -> None:
    note("resume", name)


@kopf.on.delete(*PLACE)
def deleted(name: str, **_: Any) -> None:
    note("delete", name)


@resource("back.example.com/v1")
class Site(Object):
    size: int = 1


async def keep(ctx: Context[Site]) -> None: ...


async def clean_up(ctx: Context[Site]) -> None: ...


sites = Controller(
    Site, keep, cleanup=clean_up, predecessor=Predecessor.kopf("sites on kopf", deployments="old-sites")
)
manager = Manager(sites, name="sites")
