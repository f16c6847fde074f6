"""Managers in virtual time that keep what the pages show, and the lives of their objects."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from reconcile import Controller, Manager
from reconcile.controller.run_ends import RunEnds
from reconcile.controller.write_details import WriteDetails
from reconcile.ops.debug_actions import DebugActions
from reconcile.status.object_life import ObjectLives
from tests.helpers.managers import World


def lives_of(manager: Manager, world: World) -> ObjectLives:
    return ObjectLives(DebugActions(lambda: manager._runners), manager.status, world.clock)


@asynccontextmanager
async def lived(
    world: World, *controllers: Controller[Any], **options: Any
) -> AsyncIterator[tuple[Manager, ObjectLives]]:
    """A manager that runs and keeps details as one with pages does, before there is any object."""
    async with world.running(*controllers, **options) as manager:
        for runner in manager._runners:
            runner.history.details, runner.history.ends = WriteDetails(), RunEnds()
        yield manager, lives_of(manager, world)


def a_life() -> dict[str, Any]:
    """A life with all that one can have: a failed run, one that its own write woke, a tree with drift."""
    return {
        "version": 1,
        "now": 1_764_000_120.5,
        "controller": "site",
        "kind": "Site",
        "resource": "sites.example.com",
        "cluster": "",
        "key": "default/shop",
        "exists": True,
        "uid": "7b0b4f8e-0000-4000-8000-000000000001",
        "created": 1_763_990_000.0,
        "deleting_since": None,
        "finalizers": ["example.com/site"],
        "generation": 3,
        "observed": 2,
        "conditions": [
            {
                "type": "Ready",
                "status": "False",
                "reason": "NoImage",
                "message": "the image is not there",
                "since": 1_764_000_000.0,
            }
        ],
        "health": "failing",
        "reason": "ValueError: no bulb",
        "why": {
            "state": "back-off",
            "sentence": "failed 2 times in a row, last with ValueError: no bulb; tries again in 8.0 s",
            "next_at": 1_764_000_128.5,
        },
        "runs": [
            {
                "id": "0000000b",
                "started": 1_764_000_120.0,
                "ended": 1_764_000_120.25,
                "attempt": 1,
                "result": "error",
                "error": "ValueError: no bulb",
                "at": "sites.py:12",
                "next_at": 1_764_000_128.5,
                "woken_by": [
                    {
                        "what": "deployments.apps default/shop updated at version 12 "
                        "by this key: .spec.replicas",
                        "at": 1_764_000_000.02,
                        "verb": "updated",
                        "kind": "Deployment",
                        "key": "default/shop",
                        "from": {"controller": "site", "key": "default/shop", "run": "0000000a"},
                    },
                    {
                        "what": "configmaps default/palette updated at version 14",
                        "at": 1_764_000_110.0,
                        "verb": "updated",
                        "kind": "ConfigMap",
                        "key": "default/palette",
                        "from": {"controller": "palette", "key": "default/blue", "run": "000000ff"},
                    },
                ],
                "reads": [{"kind": "Site", "key": "default/shop"}, {"kind": "Pod", "key": ""}],
                "writes": [
                    {
                        "verb": "patch",
                        "kind": "Secret",
                        "key": "default/login",
                        "at": 1_764_000_120.1,
                        "seconds": 0.02,
                        "text": "patch secrets default/login: .data.password -> version 15",
                        "secret": True,
                        "fields": [],
                    }
                ],
            },
            {
                "id": "0000000a",
                "started": 1_764_000_000.0,
                "ended": 1_764_000_000.05,
                "attempt": 0,
                "result": "success",
                "error": "",
                "at": "",
                "next_at": None,
                "woken_by": [
                    {
                        "what": "sites default/shop updated at version 11: .spec.size",
                        "at": None,
                        "verb": "updated",
                        "kind": "Site",
                        "key": "default/shop",
                        "from": None,
                    }
                ],
                "reads": [{"kind": "Site", "key": "default/shop"}],
                "writes": [
                    {
                        "verb": "apply",
                        "kind": "Deployment",
                        "key": "default/shop",
                        "at": 1_764_000_000.01,
                        "seconds": 0.01,
                        "text": "apply deployments.apps default/shop: .spec.replicas -> version 12",
                        "secret": False,
                        "fields": [
                            {"path": ".spec.replicas", "pointer": "/spec/replicas", "old": "3", "new": "4"},
                            {"path": ".spec.paused", "pointer": "/spec/paused", "old": "true", "new": ""},
                        ],
                    }
                ],
            },
        ],
        "tree": {
            "kind": "Site",
            "key": "default/shop",
            "uid": "7b0b4f8e-0000-4000-8000-000000000001",
            "health": "failing",
            "desired": "unknown",
            "fields": [],
            "more": 3,
            "children": [
                {
                    "kind": "Deployment",
                    "key": "default/shop",
                    "uid": "u2",
                    "health": "healthy",
                    "desired": "differs",
                    "fields": [
                        {
                            "path": ".spec.replicas",
                            "pointer": "/spec/replicas",
                            "desired": "4",
                            "live": "9",
                        }
                    ],
                    "more": 0,
                    "children": [],
                },
                {
                    "kind": "Service",
                    "key": "default/shop",
                    "uid": "u3",
                    "health": "failing",
                    "desired": "missing",
                    "fields": [],
                    "more": 0,
                    "children": [],
                },
            ],
        },
    }
