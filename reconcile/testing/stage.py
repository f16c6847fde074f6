"""A server to play on: what is there before, made once for many runs, and whoever acts on it."""

import fnmatch
from collections.abc import Mapping
from typing import Any

import msgspec

from informers import Key, error_from_response
from informers.transport import Response
from reconcile.client.client import Client
from reconcile.embedded import ApiRequest, ApiServer, InProcessTransport, ServedResource
from reconcile.embedded.api import find_target
from reconcile.embedded.log import StorageKey
from reconcile.models import Object, kind_of
from reconcile.models.versions import definition_to_install
from reconcile.simulation import Delays, SimulatedNodes
from reconcile.testing.acts import (
    Act,
    Apply,
    DelayGarbage,
    Delete,
    Edit,
    JumpClock,
    Kill,
    Recreate,
    Release,
    Touch,
    Wait,
)
from reconcile.testing.clock import VirtualClock
from reconcile.testing.loop import simulate
from reconcile.testing.requests import target_of
from reconcile.testing.scenario import Scenario

SOMEBODY = "somebody-else"
"""The field manager of all acts."""
TOUCHED = "touched.reconcile-runtime/times"

_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_MERGE = "application/merge-patch+json"
_NODES = 3
_FIRST_SEED = 1_000_003
"""What is there before has names and uids of its own, which those of no run can meet."""


def set_up(scenario: Scenario) -> ApiServer:
    """A server with the definitions and objects of a scenario: copy it for each run.

    Raises the error of the server where it refuses one of them.
    """
    clock = VirtualClock(_FIRST_SEED)
    server = ApiServer(clock=clock)
    stage = Stage(server)
    kinds = [kind for controller in scenario.make_controllers() for kind in controller.kinds]
    for definition in scenario.definitions:
        stage.make(definition)
    for kind in dict.fromkeys((*scenario.kinds, *kinds)):
        stage.serve(kind)
    for manifest in scenario.objects:
        stage.make(manifest)
    if scenario.nodes is not None:
        simulate(nodes_of(scenario.nodes).register, Client(InProcessTransport(server), clock=clock))
    server.settle()
    return server


def nodes_of(delays: Delays) -> SimulatedNodes:
    """The nodes of a world that has some."""
    return SimulatedNodes(_NODES, delays)


class Stage:
    """Carries out acts on a server, at once and in the name of somebody else."""

    def __init__(self, server: ApiServer) -> None:
        self.server = server
        self.made: set[tuple[StorageKey, Key]] = set()
        """What acts have applied, and the namespaces that were made for it."""

    def version_before(self, path: str, changes: int) -> int:
        """The version at which the collection of `path` was so many changes ago, as far back as is known."""
        log = self.server.log
        timeline = log.timeline(find_target(path, self.server.resources).resource.storage_key)
        last = timeline.since(max(timeline.dropped, timeline.end - changes))
        return last[0].version - 1 if last else log.version

    def make(self, manifest: Mapping[str, Any]) -> None:
        """Make an object as it is said, its status included, and its namespace where there is none."""
        metadata = manifest.get("metadata") or {}
        collection = self._collection(manifest)
        stored = self._ask("POST", collection, manifest)
        if manifest.get("status") and stored.get("status") != manifest["status"]:
            self._ask(
                "PATCH", f"{collection}/{metadata['name']}/status", {"status": manifest["status"]}, _MERGE
            )

    def serve(self, kind: type[Object]) -> None:
        """Have the server serve a kind with all its versions, if it does not serve this one yet.

        Raises TypeError for a kind without a definition, and for versions that lose each other's fields.
        """
        resource = kind_of(kind).resource
        if self.server.resources.get(resource.group, resource.version, resource.plural) is not None:
            return
        path = f"{_DEFINITIONS}/{resource.name}"
        installed = self._ask("GET", path)
        if "spec" not in installed:
            self._ask("POST", _DEFINITIONS, definition_to_install(kind, None))
            return
        versions = definition_to_install(kind, installed)["spec"]["versions"]
        self._ask("PATCH", path, {"spec": {"versions": versions}}, _MERGE)

    def act(self, act: Act, path: str = "") -> str:
        """Carry out an act on the server, and say what happened; `path` is for an act that names nothing.

        Raises the error of the server where it refuses, but for what is not there (any more), and
        ValueError for an act that is none on a server.
        """
        match act:
            case Apply(manifest=manifest):
                return self._apply(manifest)
            case Wait() | JumpClock() | DelayGarbage() | Kill():
                raise ValueError(f"{act} does not happen on a server")
        found = self._find(act.what or path)
        if found is None:
            return f"{_verb(act)} {act.what or path}: there is none"
        self._act_on(act, found)
        return f"{_verb(act)} {_short(found)}"

    def _apply(self, manifest: Mapping[str, Any]) -> str:
        path = f"{self._collection(manifest)}/{manifest['metadata']['name']}"
        query = {"fieldManager": SOMEBODY, "force": "true"}
        self._ask("PATCH", path, manifest, "application/apply-patch+yaml", query)
        target = find_target(path, self.server.resources)
        self.made.add((target.resource.storage_key, Key(target.namespace, target.name)))
        return f"apply {_short(path)}"

    def _act_on(self, act: Edit | Touch | Delete | Release | Recreate, path: str) -> None:
        match act:
            case Edit(patch=patch, subresource=part):
                self._ask("PATCH", f"{path}/{part}" if part else path, patch, _MERGE)
            case Touch():
                before = self._ask("GET", path)["metadata"].get("annotations") or {}
                times = str(int(before.get(TOUCHED, "0")) + 1)
                self._ask("PATCH", path, {"metadata": {"annotations": {TOUCHED: times}}}, _MERGE)
            case Delete():
                self._ask("DELETE", path)
            case Release():
                self._ask("PATCH", path, {"metadata": {"finalizers": None}}, _MERGE)
            case Recreate():
                self._recreate(path)

    def _recreate(self, path: str) -> None:
        before = self._ask("GET", path)
        self._ask("PATCH", path, {"metadata": {"finalizers": None}}, _MERGE)
        self._ask("DELETE", path, query={"gracePeriodSeconds": "0"})
        self.server.settle()
        for name in ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"):
            before["metadata"].pop(name, None)
        for name in ("deletionTimestamp", "deletionGracePeriodSeconds"):
            before["metadata"].pop(name, None)
        self._ask("POST", path.rpartition("/")[0], before)

    def _find(self, wanted: str) -> str | None:
        """The path of the object that is meant: that of its name, or the oldest that matches a pattern."""
        if "*" not in wanted:
            target = find_target(wanted, self.server.resources)
            key = Key(target.namespace, target.name)
            stored = self.server.log.get(target.resource.storage_key, key)
            return None if stored is None else path_in(target.resource, key)
        found: list[tuple[str, str]] = []
        for resource in self.server.resources:
            for one in self.server.log.snapshot(resource.storage_key):
                path = path_in(resource, one.key)
                if fnmatch.fnmatchcase(path, wanted):
                    found.append((one.decode()["metadata"]["creationTimestamp"], path))
        return min(found)[1] if found else None

    def _collection(self, manifest: Mapping[str, Any]) -> str:
        group, slash, version = str(manifest.get("apiVersion", "")).partition("/")
        if not slash:
            group, version = "", group
        served = self.server.resources.by_kind(group, str(manifest.get("kind", "")), version)
        if served is None:
            raise LookupError(
                f"no kind {manifest.get('kind')} in {manifest.get('apiVersion')}: "
                "add its model to kinds=, or its CustomResourceDefinition to definitions="
            )
        namespace = str(manifest["metadata"].get("namespace", "default")) if served.namespaced else ""
        if namespace and self.server.log.get(("", "namespaces"), Key("", namespace)) is None:
            self._ask("POST", "/api/v1/namespaces", _namespace(namespace))
            self.made.add((("", "namespaces"), Key("", namespace)))
            self.server.settle()
        return path_in(served, Key(namespace, ""))

    def _ask(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        kind: str = "application/json",
        query: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        sent = b"" if body is None else msgspec.json.encode(body)
        headers = {"content-type": kind, "user-agent": f"{SOMEBODY}/1"}
        answer = self.server.handle(ApiRequest(method, path, query or {}, headers, sent))
        assert isinstance(answer, Response)
        if answer.status == 404 and method != "POST":
            return {"metadata": {}}
        if answer.status >= 400:
            raise error_from_response(answer.status, answer.headers, answer.body, f"{method} {path}")
        stored: dict[str, Any] = msgspec.json.decode(answer.body)
        return stored


def path_in(resource: ServedResource, key: Key) -> str:
    """The path of an object, or with an empty name of its collection."""
    parts = ["/apis", resource.group, resource.version] if resource.group else ["/api", resource.version]
    if key.namespace and resource.namespaced:
        parts += ["namespaces", key.namespace]
    return "/".join([*parts, resource.plural, *([key.name] if key.name else [])])


def _namespace(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def _verb(act: Act) -> str:
    return type(act).__name__.lower()


def _short(path: str) -> str:
    parts = path.split("/")
    namespace = parts[parts.index("namespaces") + 1] if "namespaces" in parts[:-2] else ""
    plural, name = target_of(path)
    return f"{plural} {namespace}/{name}" if namespace else f"{plural} {name}"
