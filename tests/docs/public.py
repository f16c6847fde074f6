"""Which modules are public. Every other one is internal."""

import importlib
from typing import Any

PUBLIC = (
    "reconcile",
    "reconcile.blocks",
    "reconcile.conditions",
    "reconcile.embedded",
    "reconcile.errors",
    "reconcile.kinds",
    "reconcile.models",
    "reconcile.simulation",
    "reconcile.owners",
    "reconcile.predicates",
    "reconcile.replicas",
    "reconcile.testing",
    "reconcile.sharding",
    "reconcile.webhooks",
    "reconcile.testing.strategies",
    "informers",
    "workqueue",
    "controllers.autoscaling",
    "controllers.fleets",
    "controllers.nodegroups",
    "controllers.registrysecrets",
    "controllers.workergroups",
)


def names_of(module: str) -> list[str]:
    """The public names of a module."""
    return list(importlib.import_module(module).__all__)


def value_of(module: str, name: str) -> Any:
    """What a public name stands for."""
    return getattr(importlib.import_module(module), name)
