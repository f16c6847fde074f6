"""A kopf operator of a few lines; tests/clients/test_kopf.py runs it."""

from typing import Any

import kopf

GROUP = "kopf.example.com"


@kopf.on.startup()
def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
    settings.networking.error_backoffs = [0.1]


@kopf.on.create(GROUP, "v1", "gadgets")
def created(spec: kopf.Spec, patch: kopf.Patch, body: kopf.Body, **_: Any) -> None:
    kopf.info(body, reason="Made", message="it is made")
    patch.status["phase"] = f"made-{spec['size']}"


@kopf.on.update(GROUP, "v1", "gadgets", field="spec.size")
def resized(new: int, patch: kopf.Patch, **_: Any) -> None:
    patch.status["phase"] = f"resized-{new}"


@kopf.on.delete(GROUP, "v1", "gadgets")
def deleted(name: str, logger: kopf.Logger, **_: Any) -> None:
    logger.info("let go of %s", name)
