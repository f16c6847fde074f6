"""An operator that is installed, upgraded, rolled back and uninstalled under the rights of its chart.

Beside the operator there are stand-ins for Helm, for the controller of Deployments and the kubelets, and for
the Job of the hook. Each of them, and each pod, can be killed after so many of its writes.
"""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import ModuleType
from typing import Any, Final, TypeAlias

import anyio
import msgspec
from attrs import define, field

from informers import HttpRequest, NotFound, Response, StreamingResponse, Transport
from informers.transport import PassingTransport
from reconcile import Manager
from reconcile.embedded import ADMIN, InProcessTransport, User, service_account
from reconcile.manager.option_list import from_flags
from reconcile.models import decode, definition_of
from reconcile.shipping.documents import Document
from reconcile.shipping.installation import Installation
from reconcile.shipping.uninstall import Uninstall
from reconcile.shipping.uninstall_plan import Mode
from reconcile.testing import FakeClient, eventually
from tests.shipping import depot_v1, depot_v2

HOME: Final = "depot-system"
GROUP: Final = "depots.example.com"
YARD: Final = "yard"
"""Where users have their depots."""
RELEASES: Final[Mapping[str, ModuleType]] = {"depot:1.0.0": depot_v1, "depot:2.0.0": depot_v2}
OLD, NEW = RELEASES
DEPLOYMENT: Final = f"/apis/apps/v1/namespaces/{HOME}/deployments/depot"
DEPOTS: Final = f"/apis/{GROUP}/v1/namespaces/{YARD}/depots"
REPLICAS: Final = 2
_READY_SECONDS: Final = 5.0
"""How long the first pod of a release runs before the next one follows."""
Rendered: TypeAlias = Callable[[Installation, Sequence[Document], Mapping[str, Any]], Sequence[Document]]
"""The objects of a release and its hooks, from an installation, its definitions and the chart's values."""
KEEPS_DATA: Final = "--keep-data"
_HOOK: Final = "helm.sh/hook"
_WEIGHT: Final = "helm.sh/hook-weight"
_POLICY: Final = "helm.sh/resource-policy"


@define(eq=False)
class Mortal(PassingTransport):
    """The connection of a process, which dies after `most` writes; 0: never."""

    _inner: Transport
    most: int
    note: Callable[[HttpRequest, int], bool]
    """Gets each answer; returns whether the request was a write that counts."""
    note_death: Callable[[], None]
    scope: anyio.CancelScope = field(factory=anyio.CancelScope)
    writes: int = 0
    dead: bool = False

    async def request(self, request: HttpRequest) -> Response:
        await self._alive()
        answer = await self._inner.request(request)
        self.writes += self.note(request, answer.status)
        if self.most and self.writes >= self.most and not self.dead:
            self.dead = True
            self.note_death()
            self.scope.cancel()
        await self._alive()
        return answer

    def stream(self, request: HttpRequest) -> AbstractAsyncContextManager[StreamingResponse]:
        return self._stream(request)

    @asynccontextmanager
    async def _stream(self, request: HttpRequest) -> AsyncIterator[StreamingResponse]:
        await self._alive()
        async with self._inner.stream(request) as answer:
            self.note(request, answer.status)
            yield answer

    async def _alive(self) -> None:
        if self.dead:
            await anyio.sleep_forever()


@define(eq=False)
class Depots:
    """A cluster with the operator `depot`. `rendered` makes the objects of its chart.

    Each process dies after `most_writes`, and is started again; 0: it lives on.
    """

    rendered: Rendered
    most_writes: int = 0
    step: str = ""
    client: FakeClient = field(factory=FakeClient)
    cleaned: set[str] = field(factory=set)
    refused: list[str] = field(factory=list)
    """Requests of the operator and of the hook that the server answered with 403."""
    writes: Counter[str] = field(factory=Counter)
    deaths: Counter[str] = field(factory=Counter)
    _first: str = ""
    """The image of the first pod, since when, and that of the others."""
    _since: float = 0.0
    _others: str = ""

    # --- releases ---------------------------------------------------------------------------------

    def installation(self, image: str) -> Installation:
        controllers = RELEASES[image].controllers(self.cleaned)
        return Installation("depot", "depot", HOME, image, ("depot:manager",), controllers, replicas=REPLICAS)

    def objects_of(self, image: str, *, definitions: bool = True) -> Sequence[Document]:
        """The objects of a release but its hooks."""
        return [one for one in self._rendered(image, {"crds": {"install": definitions}}) if not _hook(one)]

    def _rendered(self, image: str, values: Mapping[str, Any]) -> Sequence[Document]:
        kinds = [definition_of(RELEASES[image].Depot)]
        return self.rendered(self.installation(image), kinds, values)

    async def apply(self, documents: Sequence[Document]) -> None:
        """What Helm does: an object after the other, from the start again each time that it is killed."""

        async def each(transport: Transport) -> None:
            for document in documents:
                await self._apply(transport, document)

        await self._until_done(each, ADMIN)

    async def delete(self, documents: Sequence[Document]) -> None:
        """The same in the other direction; what is gone already is no error."""

        async def each(transport: Transport) -> None:
            for document in documents:
                path = self._path(document)
                if (await transport.request(HttpRequest("GET", path))).status != 404:
                    await transport.request(HttpRequest("DELETE", path))

        await self._until_done(each, ADMIN)

    async def _apply(self, transport: Transport, document: Document) -> None:
        path = self._path(document)
        found = await transport.request(HttpRequest("GET", path))
        if found.status == 404:
            answer = await _send(transport, "POST", path.rpartition("/")[0], document)
        elif _has(msgspec.json.decode(found.body), document):
            return
        else:
            answer = await _send(transport, "PATCH", path, document)
        assert answer.status < 300, answer.body

    def _path(self, document: Document) -> str:
        group, _, version = document["apiVersion"].rpartition("/")
        served = self.client.server.resources.by_kind(group, document["kind"], version)
        assert served is not None
        metadata = document["metadata"]
        parts = ["apis", group, version] if group else ["api", version]
        if served.namespaced:
            parts += ["namespaces", metadata["namespace"]]
        return "/" + "/".join([*parts, served.plural, metadata["name"]])

    # --- processes --------------------------------------------------------------------------------

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Have the Deployment's pods run as long as it wants them."""
        async with anyio.create_task_group() as group:
            for number in range(REPLICAS):
                group.start_soon(self._kubelet, number)
            yield
            group.cancel_scope.cancel()

    async def _kubelet(self, number: int) -> None:
        pod = f"/api/v1/namespaces/{HOME}/pods/depot-{number}"
        while True:
            image = self._wanted(number)
            if image is None:
                if self.find(pod) is not None:
                    self.client.request("DELETE", pod, {"gracePeriodSeconds": 0})
                await anyio.sleep(1)
                continue
            if self.find(pod) is None:
                self.client.request("POST", pod.rpartition("/")[0], _pod(number, image))
            await self._live(number, image)

    async def _live(self, number: int, image: str) -> None:
        """One life of a pod's process, until it is killed or another image is wanted."""
        account = service_account(HOME, "depot")
        mortal = self._mortal(account)
        manager = Manager(*RELEASES[image].controllers(self.cleaned), environ={}, clock=self.client.clock).on(
            mortal
        )
        manager.configure(from_flags(self._flags()))
        try:
            with mortal.scope:
                async with anyio.create_task_group() as group:
                    await group.start(manager.run)
                    while self._wanted(number) == image:
                        await anyio.sleep(1)
                    manager.stop()
        except* Exception:
            if not mortal.dead:  # what a killed process says at its end is heard by none
                raise

    def _wanted(self, number: int) -> str | None:
        """The image of a pod, None if there is to be none. In an upgrade the first goes before the others."""
        deployment = self.find(DEPLOYMENT)
        if deployment is None or deployment["spec"]["replicas"] <= number:
            return None
        image = str(deployment["spec"]["template"]["spec"]["containers"][0]["image"])
        if number == 0:
            if image != self._first:
                self._first, self._since = image, anyio.current_time()
            return image
        if image == self._first and anyio.current_time() >= self._since + _READY_SECONDS:
            self._others = image
        return self._others or None

    def _flags(self) -> Mapping[str, str]:
        deployment = self.client.request("GET", DEPLOYMENT)
        arguments = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
        flags = dict(one.removeprefix("--").split("=", 1) for one in arguments if "=" in one)
        return {"leader_election": flags["leader-election"]}

    def _mortal(self, user: User) -> Mortal:
        def note(request: HttpRequest, status: int) -> bool:
            if status == 403:
                self.refused.append(f"{self.step}: {user.name}: {request.method} {request.path}")
            is_write = not request.reads and status < 300 and "/leases" not in request.path
            self.writes[self.step] += is_write
            return is_write

        inner = InProcessTransport(self.client.server, settle=True, user=user)
        return Mortal(inner, self.most_writes, note, lambda: self.deaths.update([self.step]))

    async def _until_done(self, work: Callable[[Transport], Any], user: User) -> None:
        while True:
            mortal = self._mortal(user)
            with mortal.scope:
                await work(mortal)
            if not mortal.dead:
                return

    # --- users ------------------------------------------------------------------------------------

    def find(self, path: str) -> Document | None:
        try:
            return self.client.request("GET", path)
        except NotFound:
            return None

    def fill(self, count: int) -> None:
        """Users have that many depots."""
        self.client.request("POST", "/api/v1/namespaces", {"metadata": {"name": YARD}})
        head = {"apiVersion": f"{GROUP}/v1", "kind": "Depot"}
        for number in range(count):
            manifest = {**head, "metadata": {"name": f"depot-{number}"}, "spec": {"crates": number}}
            self.client.request("POST", DEPOTS, manifest)

    def name_keepers(self) -> None:
        """Users fill in the field of the newer release, in every other depot."""
        for number in range(0, len(self.specs()), 2):
            self.client.request("PATCH", f"{DEPOTS}/depot-{number}", {"spec": {"keeper": f"keeper {number}"}})

    def specs(self) -> Mapping[str, Document]:
        items = self.client.request("GET", DEPOTS)["items"]
        return {item["metadata"]["name"]: item["spec"] for item in items}

    def lists(self) -> Mapping[str, Document]:
        """What the operator made of each depot."""
        items = self.client.request("GET", f"/api/v1/namespaces/{YARD}/configmaps")["items"]
        return {
            item["metadata"]["name"]: item["data"] for item in items if "depot" in item["metadata"]["name"]
        }

    async def listed_by(self, image: str) -> None:
        """Wait until that release runs in all pods, and has listed all depots. Raises NotYet."""
        release = RELEASES[image]

        def listed() -> bool:
            depots = self.client.request("GET", DEPOTS)["items"]
            wanted = {one["metadata"]["name"]: release.list_of(decode(release.Depot, one)) for one in depots}
            ready = all(_is_ready(one) for one in depots)
            return self._others == image and ready and wanted == self.lists()

        await eventually(listed, within=1_000_000, every=5)

    async def uninstall(self) -> Sequence[str]:
        """What `helm uninstall` does: the hook, whose Job runs, then the rest; returns the Job's notes."""
        rendered = self._rendered(self._others, {"uninstall": {"keepData": False}})
        hook = sorted((one for one in rendered if _hook(one) == "pre-delete"), key=_weight)
        await self.apply(hook)
        (job,) = [one for one in hook if one["kind"] == "Job"]
        pod = job["spec"]["template"]["spec"]
        arguments = pod["containers"][0]["args"]
        mode = Mode.KEEP if KEEPS_DATA in arguments else Mode.DELETE
        notes: list[str] = []

        async def run(transport: Transport) -> None:
            work = Uninstall(arguments[1], HOME, mode, transport, self.client.clock)
            notes.extend((await work.run(1_000_000)).notes)

        await self._until_done(run, service_account(HOME, pod["serviceAccountName"]))
        await self.delete(hook)
        stays = [one for one in rendered if (one["metadata"].get("annotations") or {}).get(_POLICY) == "keep"]
        await self.delete([one for one in reversed(rendered) if not _hook(one) and one not in stays])
        return notes

    def left(self) -> set[str]:
        """What is left of the operator and of its objects, and everything that is being deleted."""
        left = set()
        log = self.client.server.log
        for group, plural in list(log.resources()):
            for stored in log.snapshot((group, plural)):
                labels = stored.decode()["metadata"].get("labels") or {}
                own = str(labels.get("app.kubernetes.io/name", ""))
                if group == GROUP or own.startswith("depot") or stored.deleting or plural == "leases":
                    left.add(f"{plural} {stored.key}")
        return left


def _hook(document: Document) -> str:
    """The event at which Helm makes it; empty if it belongs to the release."""
    return str((document["metadata"].get("annotations") or {}).get(_HOOK, ""))


def _weight(document: Document) -> int:
    return int(document["metadata"]["annotations"][_WEIGHT])


async def _send(transport: Transport, method: str, path: str, document: Document) -> Response:
    kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
    body = msgspec.json.encode(document)
    return await transport.request(HttpRequest(method, path, {}, {"content-type": kind}, body))


def _has(found: Any, document: Any) -> bool:
    """Whether an object is as the document says, whatever else it has."""
    if isinstance(document, dict):
        return isinstance(found, dict) and all(_has(found.get(name), one) for name, one in document.items())
    if isinstance(document, list):
        return isinstance(found, list) and len(found) == len(document) and all(map(_has, found, document))
    return bool(found == document)


def _is_ready(depot: Document) -> bool:
    conditions = depot.get("status", {}).get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def _pod(number: int, image: str) -> Document:
    labels = {"app.kubernetes.io/name": "depot", "app.kubernetes.io/instance": "depot"}
    spec = {"containers": [{"name": "manager", "image": image}]}
    return {"metadata": {"name": f"depot-{number}", "namespace": HOME, "labels": labels}, "spec": spec}
