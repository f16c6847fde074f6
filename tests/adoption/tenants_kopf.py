"""An operator on kopf of the kind that its users have; tests/adoption/kopf_life.py records a life under it.

A tenant has an account with a service, which makes a new one for each `open`, and a child with its size.
`PREFIX` and `FINALIZER` of the environment are names other than kopf's own. With `OPENED_LAST` the
account is opened by the last handler of the creation, so that what it returns comes with kopf's last write.
"""

import json
import os
from pathlib import Path
from typing import Any

import kopf
from kubernetes import client, config

LEDGER = Path(os.environ["LEDGER"])
TENANTS = ("example.com", "v1", "tenants")
PLACE = "default"
PREFIX = os.environ.get("PREFIX", "")
OPENED_LAST = "OPENED_LAST" in os.environ
"""kopf calls first what was tried least often: so a handler that has to be tried again is the last."""


def effect(act: str, *values: Any) -> None:
    with LEDGER.open("a") as ledger:
        ledger.write(json.dumps([act, *values]) + "\n")


@kopf.on.startup()
def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
    config.load_kube_config()
    settings.posting.enabled = False
    settings.networking.error_backoffs = [0.1]
    # A deletion that meets a timer at work waits for it, and does not look again after a minute.
    settings.background.instant_exit_timeout = 10
    if PREFIX:
        settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=PREFIX)
        settings.persistence.diffbase_storage = kopf.AnnotationsDiffBaseStorage(prefix=PREFIX)
        settings.persistence.finalizer = os.environ["FINALIZER"]


@kopf.on.login()
def log_in(**given: Any) -> kopf.ConnectionInfo | None:
    # The client library that older versions of kopf log in by has changed since.
    return kopf.login_with_kubeconfig(**given)


@kopf.on.create(*TENANTS)
def open_account(name: str, spec: kopf.Spec, retry: int, **_: Any) -> dict[str, str]:
    if OPENED_LAST and not retry:
        raise kopf.TemporaryError("the service is busy", delay=0.1)
    effect("open", name)
    effect("resize", name, spec["size"])
    return {"account": name}


@kopf.on.create(*TENANTS)
def make_child(body: kopf.Body, spec: kopf.Spec, name: str, retry: int, **_: Any) -> None:
    if not (OPENED_LAST or retry):
        raise kopf.TemporaryError("the child is not wanted yet", delay=0.1)
    create_child(body, spec, name)


@kopf.on.field(*TENANTS, field="spec.size")
def resize(spec: kopf.Spec, name: str, old: int | None, **_: Any) -> None:
    if old is not None:
        effect("resize", name, spec["size"])
        client.CoreV1Api().patch_namespaced_config_map(name, PLACE, {"data": data_of(spec)})


@kopf.timer(*TENANTS, interval=0.2, initial_delay=0.2)
def heal(body: kopf.Body, spec: kopf.Spec, name: str, **_: Any) -> None:
    if kopf.AnnotationsDiffBaseStorage(prefix=PREFIX or "kopf.zalando.org").fetch(body=body) is None:
        return
    found = client.CoreV1Api().list_namespaced_config_map(PLACE, field_selector=f"metadata.name={name}")
    if not found.items:
        create_child(body, spec, name)


@kopf.on.delete(*TENANTS)
def close_account(name: str, **_: Any) -> None:
    effect("close", name)


def data_of(spec: kopf.Spec) -> dict[str, str]:
    return {"size": str(spec["size"]), "color": spec["color"], "made-by": "kopf"}


def create_child(body: kopf.Body, spec: kopf.Spec, name: str) -> None:
    child = {"metadata": {"name": name, "labels": {"tenant": name}}, "data": data_of(spec)}
    kopf.adopt(child, owner=body)
    client.CoreV1Api().create_namespaced_config_map(PLACE, child)
