"""An operator on kopf whose handlers have sub-handlers; each notes its act outside in the file $LEDGER."""

import json
import os
from pathlib import Path
from typing import Any

import kopf

LEDGER = Path(os.environ["LEDGER"])
TENANTS = ("example.com", "v1", "tenants")


def effect(*act: Any) -> None:
    with LEDGER.open("a") as ledger:
        ledger.write(json.dumps(act) + "\n")


@kopf.on.startup()
def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
    settings.posting.enabled = False
    settings.networking.error_backoffs = [0.1]


@kopf.on.login()
def log_in(**given: Any) -> kopf.ConnectionInfo | None:
    # The client library that older versions of kopf log in by has changed since.
    return kopf.login_with_kubeconfig(**given)


@kopf.on.create(*TENANTS)
def order(name: str, **_: Any) -> None:
    @kopf.subhandler()
    def opening(**_: Any) -> None:
        effect("open", name)

    @kopf.subhandler()
    def filling(retry: int, **_: Any) -> None:
        if not retry:
            raise kopf.TemporaryError("not open yet", delay=0.1)
        effect("fill", name)


@kopf.on.field(*TENANTS, field="spec.size")
async def resize(name: str, old: int | None, new: int, **_: Any) -> None:
    def larger(retry: int, **_: Any) -> None:
        if not retry:
            raise kopf.TemporaryError("busy", delay=0.1)
        effect("resize", name, new)

    def told(**_: Any) -> None:
        effect("tell", name, new)

    await kopf.execute(fns={"larger": larger, "told": told})


@kopf.on.delete(*TENANTS)
def close(name: str, **_: Any) -> None:
    effect("close", name)
