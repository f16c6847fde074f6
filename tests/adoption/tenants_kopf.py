"""An operator on kopf of the kind that its users have; tests/adoption/kopf_life.py records a life under it.

A tenant has an account with a service, which makes a new one for each `open`, and a child with its size.
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


def effect(act: str, *values: Any) -> None:
    with LEDGER.open("a") as ledger:
        ledger.write(json.dumps([act, *values]) + "\n")


@kopf.on.startup()
def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
    config.load_kube_config()
    settings.posting.enabled = False
    settings.networking.error_backoffs = [0.1]


@kopf.on.create(*TENANTS)
def open_account(name: str, spec: kopf.Spec, **_: Any) -> dict[str, str]:
    effect("open", name)
    effect("resize", name, spec["size"])
    return {"account": name}


@kopf.on.create(*TENANTS)
def make_child(body: kopf.Body, spec: kopf.Spec, name: str, retry: int, **_: Any) -> None:
    if not retry:
        raise kopf.TemporaryError("the child is not wanted yet", delay=0.1)
    create_child(body, spec, name)


@kopf.on.field(*TENANTS, field="spec.size")
def resize(spec: kopf.Spec, name: str, old: int | None, **_: Any) -> None:
    if old is not None:
        effect("resize", name, spec["size"])
        client.CoreV1Api().patch_namespaced_config_map(name, PLACE, {"data": data_of(spec)})


@kopf.timer(*TENANTS, interval=0.2, initial_delay=0.2)
def heal(body: kopf.Body, spec: kopf.Spec, name: str, **_: Any) -> None:
    if kopf.AnnotationsDiffBaseStorage().fetch(body=body) is None:
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
