"""Asks a server whether it would admit a new object: its schema, rules, policies and webhooks decide."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from informers import AlreadyExists, ApiError, Key
from reconcile.embedded import ApiServer
from reconcile.embedded.log import DEFINITIONS
from reconcile.models import Object, kind_of
from reconcile.testing.cluster_actor import FOREIGN_MANAGER, ClusterActor, path_in
from reconcile.testing.scenario_runner import without_logs
from reconcile.testing.spec_transitions.sample_values import JsonSchema
from reconcile.testing.spec_transitions.value_classes import identity_of
from reconcile.testing.virtual_clock import VirtualClock

_APPLY = "application/apply-patch+yaml"


class TrialServer:
    """Judges objects of one kind as the server of a scenario does, and keeps nothing of them."""

    def __init__(self, server: ApiServer, kind: type[Object], namespace: str) -> None:
        self._actor = ClusterActor(server.copy(VirtualClock(0)))
        self._kind = kind
        self._resource = kind_of(kind).resource
        self._known: dict[bytes, str] = {}
        if namespace and self._resource.namespaced:
            with suppress(AlreadyExists):
                self._actor.request("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
            self._actor.server.settle()

    def schema(self) -> JsonSchema:
        """The schema of the kind's version. Raises TypeError for a kind that no definition creates."""
        stored = self._actor.server.log.get(DEFINITIONS, Key("", self._resource.name))
        if stored is None:
            raise TypeError(
                f"{self._resource.kind} is not a custom kind: without a definition there is no schema to "
                "make specs from"
            )
        versions = stored.decode()["spec"]["versions"]
        found: JsonSchema = next(
            one["schema"]["openAPIV3Schema"] for one in versions if one["name"] == self._resource.version
        )
        return found

    def refusal_of(self, manifest: Mapping[str, Any]) -> str:
        """Why the server would not create the object, in its words; empty if it would."""
        identity = identity_of(manifest)
        if identity not in self._known:
            self._known[identity] = self._asked(manifest)
        return self._known[identity]

    def admits(self, manifest: Mapping[str, Any]) -> bool:
        return not self.refusal_of(manifest)

    def _asked(self, manifest: Mapping[str, Any]) -> str:
        served = self._actor.kind_served(manifest, "add its model to kinds=")
        metadata = manifest["metadata"]
        path = path_in(served, Key(metadata.get("namespace", ""), metadata["name"]))
        query = {"fieldManager": FOREIGN_MANAGER, "force": "true", "dryRun": "All"}
        with without_logs():
            try:
                self._actor.request("PATCH", path, manifest, _APPLY, query)
            except ApiError as refused:
                return str(refused).partition(f"{path}: ")[2] or str(refused)
        return ""
