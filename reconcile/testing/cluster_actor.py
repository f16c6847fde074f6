"""Carries out what users and foreign controllers do, on an embedded server, at once."""

import fnmatch
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

import msgspec

from informers import Key, NotFound, error_from_response
from informers.apimachinery.server_fields import SET_BY_SERVER
from informers.transport import Response
from reconcile.controller.declaration import Controller
from reconcile.embedded import ApiRequest, ApiServer, ServedResource
from reconcile.embedded.api import find_target
from reconcile.embedded.log import DEFINITIONS, StorageKey
from reconcile.models import Object, kind_of
from reconcile.models.versions import definition_to_install
from reconcile.testing.call_faults import answer_call
from reconcile.testing.recorded_requests import target_of
from reconcile.testing.scenario_acts import (
    Apply,
    CutOff,
    DelayGarbage,
    Delete,
    Edit,
    EditPatch,
    Freeze,
    JumpClock,
    Kill,
    Recreate,
    Release,
    ScenarioAct,
    Stop,
    Touch,
    Wait,
)
from reconcile.webhooks.in_process import WebhooksInProcess, webhooks_of

FOREIGN_MANAGER = "somebody-else"
TOUCHED = "touched.reconcile-runtime/times"

_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_MERGE = "application/merge-patch+json"
_JSON_PATCH = "application/json-patch+json"


class ClusterActor:
    """Acts on a server as its administrator, under another field manager than the operator's."""

    def __init__(self, server: ApiServer, *, user_agent: str = f"{FOREIGN_MANAGER}/1") -> None:
        self.server = server
        self.made: set[tuple[StorageKey, Key]] = set()
        """What acts have applied, and the namespaces made for it."""
        self.forced: set[tuple[StorageKey, Key]] = set()
        """The objects whose finalizers acts have removed, so that no cleanup ran for them."""
        self._user_agent = user_agent

    @property
    def _webhooks(self) -> WebhooksInProcess:
        return webhooks_of(self.server, answer_call)

    def version_before(self, path: str, changes: int) -> int:
        """The version of the collection of `path` that many changes ago, as far back as the log goes."""
        log = self.server.log
        timeline = log.timeline(find_target(path, self.server.resources).resource.storage_key)
        last = timeline.since(max(timeline.dropped, timeline.end - changes))
        return last[0].version - 1 if last else log.version

    def make(self, manifest: Mapping[str, Any]) -> dict[str, Any]:
        """Create an object with its status, and its namespace if necessary; returns what is stored."""
        collection = self._collection(manifest)
        stored = self.request("POST", collection, manifest)
        status = manifest.get("status")
        if not status or stored.get("status") == status:
            return stored
        return self.request("PATCH", f"{collection}/{stored['metadata']['name']}/status", {"status": status})

    def serve(self, kind: type[Object]) -> None:
        """Serve all versions of a kind. Raises TypeError if it has no definition or versions lose fields."""
        resource = kind_of(kind).resource
        if self.server.resources.get(resource.group, resource.version, resource.plural) is not None:
            return
        conversion = self._webhooks.conversion_for(kind)
        if self.server.log.get(DEFINITIONS, Key("", resource.name)) is None:
            self.request("POST", _DEFINITIONS, definition_to_install(kind, None, conversion))
            return
        path = f"{_DEFINITIONS}/{resource.name}"
        spec = definition_to_install(kind, self.request("GET", path), conversion)["spec"]
        changed = {name: spec[name] for name in ("versions", "conversion") if name in spec}
        self.request("PATCH", path, {"spec": changed})

    def redefine(self, definition: Mapping[str, Any]) -> None:
        """Apply a definition as it is, in place of an installed one. Raises the server's error."""
        path = f"{_DEFINITIONS}/{definition['metadata']['name']}"
        if self.server.log.get(DEFINITIONS, Key("", definition["metadata"]["name"])) is None:
            self.request("POST", _DEFINITIONS, definition)
            return
        version = self.request("GET", path)["metadata"]["resourceVersion"]
        self.request(
            "PUT", path, {**definition, "metadata": {**definition["metadata"], "resourceVersion": version}}
        )

    def definition_of(self, kind: type[Object]) -> dict[str, Any]:
        """The definition of all versions of a kind's classes. Raises TypeError if versions lose fields."""
        return definition_to_install(kind, None, self._webhooks.conversion_for(kind))

    def admit(self, controllers: Iterable[Controller[Any]]) -> None:
        """Call the webhooks of these controllers, and of earlier ones with other names, for all writes.

        Raises ValueError for two webhooks with one name.
        """
        webhooks = self._webhooks
        before = webhooks.configurations
        if not webhooks.serve(controllers):
            return
        wanted = webhooks.configurations
        for path in before.keys() - wanted.keys():
            self.request("DELETE", path)
        for path, configuration in wanted.items():
            if path not in before:
                self.request("POST", path.rpartition("/")[0], configuration)
            elif before[path] != configuration:
                version = self.request("GET", path)["metadata"]["resourceVersion"]
                named = {**configuration["metadata"], "resourceVersion": version}
                self.request("PUT", path, {**configuration, "metadata": named})

    def act(self, act: ScenarioAct, path: str = "") -> str:
        """Carry out an act, on `path` if it names no object, and describe what happened.

        A missing object is no error. Raises the server's error, and ValueError for an act not on a server.
        """
        match act:
            case Apply(manifest=manifest):
                return self._apply(manifest)
            case Wait() | JumpClock() | DelayGarbage() | Kill() | Freeze() | CutOff() | Stop():
                raise ValueError(f"{act} does not happen on a server")
        found = self._find(act.what or path)
        if found is None:
            return f"{_verb(act)} {act.what or path}: not found"
        with suppress(NotFound):  # an Edit of a subresource that the kind does not have
            self._act_on(act, found)
        return f"{_verb(act)} {_short(found)}"

    def _apply(self, manifest: Mapping[str, Any]) -> str:
        path = f"{self._collection(manifest)}/{manifest['metadata']['name']}"
        query = {"fieldManager": FOREIGN_MANAGER, "force": "true"}
        self.request("PATCH", path, manifest, "application/apply-patch+yaml", query)
        target = find_target(path, self.server.resources)
        self.made.add((target.resource.storage_key, Key(target.namespace, target.name)))
        return f"apply {_short(path)}"

    def _act_on(self, act: Edit | Touch | Delete | Release | Recreate, path: str) -> None:
        match act:
            case Edit(patch=patch, subresource=part):
                kind = _MERGE if isinstance(patch, Mapping) else _JSON_PATCH
                self.request("PATCH", f"{path}/{part}" if part else path, patch, kind)
            case Touch():
                before = self.request("GET", path)["metadata"].get("annotations") or {}
                times = str(int(before.get(TOUCHED, "0")) + 1)
                self.request("PATCH", path, {"metadata": {"annotations": {TOUCHED: times}}})
            case Delete():
                self.request("DELETE", path)
            case Release():
                self._force(path)
                self.request("PATCH", path, {"metadata": {"finalizers": None}})
            case Recreate():
                self._recreate(path)

    def _force(self, path: str) -> None:
        target = find_target(path, self.server.resources)
        self.forced.add((target.resource.storage_key, Key(target.namespace, target.name)))

    def _recreate(self, path: str) -> None:
        before = self.request("GET", path)
        self._force(path)
        # Without its finalizers the object goes at once; otherwise its name would still be taken.
        self.request("PATCH", path, {"metadata": {"finalizers": None}})
        with suppress(NotFound):  # if it was being deleted, the patch above has removed it
            self.request("DELETE", path, query={"gracePeriodSeconds": "0"})
        self.server.settle()
        for name in SET_BY_SERVER:
            before["metadata"].pop(name, None)
        self.request("POST", path.rpartition("/")[0], before)

    def _find(self, wanted: str) -> str | None:
        """The path of an object by its path, or of the oldest that matches a pattern."""
        if "*" not in wanted:
            target = find_target(wanted, self.server.resources)
            key = Key(target.namespace, target.name)
            stored = self.server.log.get(target.resource.storage_key, key)
            return None if stored is None else path_in(target.resource, key)
        found: list[tuple[str, str]] = []
        for resource in self.server.resources:
            for stored in self.server.log.snapshot(resource.storage_key):
                path = path_in(resource, stored.key)
                if fnmatch.fnmatchcase(path, wanted):
                    found.append((stored.decode()["metadata"]["creationTimestamp"], path))
        return min(found)[1] if found else None

    def _collection(self, manifest: Mapping[str, Any]) -> str:
        """The path of a manifest's collection, whose namespace is created if necessary."""
        advice = "add its model to kinds=, or its CustomResourceDefinition to definitions="
        served = self.kind_served(manifest, advice)
        namespace = str(manifest["metadata"].get("namespace", "default")) if served.namespaced else ""
        if namespace and self.server.log.get(("", "namespaces"), Key("", namespace)) is None:
            self.request("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
            self.made.add((("", "namespaces"), Key("", namespace)))
            self.server.settle()
        return path_in(served, Key(namespace, ""))

    def kind_served(self, manifest: Mapping[str, Any], advice: str) -> ServedResource:
        """The resource of a manifest's kind. Raises LookupError with `advice` if it is not served."""
        group, _, version = str(manifest.get("apiVersion", "")).rpartition("/")
        served = self.server.resources.by_kind(group, str(manifest.get("kind", "")), version)
        if served is None:
            raise LookupError(f"no kind {manifest.get('kind')} in {manifest.get('apiVersion')}: {advice}")
        return served

    def request(
        self,
        method: str,
        path: str,
        body: EditPatch | None = None,
        content_type: str = "",
        query: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """Send a request and return the decoded answer. Raises the server's error as an ApiError."""
        sent = b"" if body is None else msgspec.json.encode(body)
        kind = content_type or (_MERGE if method == "PATCH" else "application/json")
        headers = {"content-type": kind, "user-agent": self._user_agent}
        answer = self.server.handle(ApiRequest(method, path, query or {}, headers, sent))
        assert isinstance(answer, Response)
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


def _verb(act: ScenarioAct) -> str:
    return type(act).__name__.lower()


def _short(path: str) -> str:
    target = target_of(path)
    return f"{target.resource} {target.within + '/' if target.within else ''}{target.name}"
