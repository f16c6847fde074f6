"""One story, told to one operator at a time: what it asks of the server, and what a crash leaves behind.

The server is the embedded one, over HTTPS. The operator is a process of its own, as its users run it. It is
killed from within the server, when a write is carried out and before it is answered.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import msgspec
from anyio.from_thread import BlockingPortal, start_blocking_portal
from attrs import define, field, frozen

from informers.transport import Response
from reconcile.embedded import ApiRequest, ApiServer
from reconcile.embedded.http import serve
from reconcile.embedded.listener.admin_kubeconfig import write_kubeconfig
from reconcile.embedded.verbs.watching import WatchStream
from tests.helpers.definitions import ANYTHING, INTEGER, STRING, definition, object_of

HERE = Path(__file__).parent
SITE = HERE.parents[1] / "docs" / "examples" / "site"
SITES = "/apis/example.com/v1/namespaces/default/sites"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
REFUSAL = msgspec.json.encode({"kind": "Status", "status": "Failure", "reason": "InternalError", "code": 500})
PATIENCE = 60.0
"""Seconds that something may take to happen, on a machine that does much else."""


@frozen
class Operator:
    """What is run: its name, its file, and the arguments of the interpreter."""

    name: str
    file: Path
    arguments: tuple[str, ...]


KOPF = ("--standalone", "-n", "default", "-m", "sites_kopf")
OPERATORS = (
    Operator("ours", SITE / "sites.py", ("-m", "reconcile", "run", "sites:manager", "-n", "default")),
    Operator("kopf", HERE / "sites_kopf.py", ("-m", "kopf", "run", *KOPF)),
    Operator("kr8s", HERE / "sites_kr8s.py", ("-m", "sites_kr8s")),
)


def lines_of(operator: Operator) -> int:
    """Lines of code, without those that are empty or hold a comment or the module's docstring alone."""
    lines = [line.strip() for line in operator.file.read_text().splitlines()]
    return sum(bool(line) and not line.startswith(("#", '"""')) for line in lines)


class Recording(ApiServer):
    """An embedded server that notes what is asked over HTTPS, and can do something at a write.

    The next write whose path ends in `refuse` is answered with 500, and not carried out.
    """

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.last = time.monotonic()
        self.at_write: Callable[[str], None] | None = None
        self.refuse = ""
        super().__init__()
        self.asked.clear()

    async def respond(self, request: ApiRequest) -> Response | WatchStream:
        if self.refuse and request.method not in ("GET", "DELETE") and request.path.endswith(self.refuse):
            self.refuse = ""
            return Response(500, {"content-type": "application/json"}, REFUSAL)
        answer = await super().respond(request)
        verb = "WATCH" if isinstance(answer, WatchStream) else request.method
        self.asked.append(f"{verb} {request.path}")
        self.last = time.monotonic()
        if self.at_write is not None and verb not in ("GET", "WATCH"):
            self.at_write(self.asked[-1])
        return answer

    def ask(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> Any:
        """A request of the story's own, which is not noted; None where there is no such object."""
        content = b"" if body is None else msgspec.json.encode(body)
        answer = super().handle(ApiRequest(method, path, {}, {"content-type": kind}, content))
        assert isinstance(answer, Response)
        if answer.status == 404:
            return None
        assert answer.status < 300, answer.body
        return msgspec.json.decode(answer.body)


@define
class Stage:
    """A server with the kind Site, and the operator's process, if it lives."""

    operator: Operator
    server: Recording
    portal: BlockingPortal
    folder: Path
    quiet: float = 1.0
    """Seconds without a request after which the operator has nothing more to ask."""
    process: "subprocess.Popen[bytes] | None" = field(default=None, init=False)

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        return self.portal.call(self.server.ask, method, path, body, kind)

    def start(self) -> list[str]:
        """Start the operator; returns what it asks until it has nothing more to ask."""
        before = len(self.server.asked)
        found = os.pathsep.join(str(folder) for folder in (HERE, self.operator.file.parent, HERE.parents[1]))
        environment = {
            **os.environ,
            "KUBECONFIG": str(self.folder / "kubeconfig"),
            "DNS_NAMES": str(self.folder / "names"),
            "PYTHONPATH": found,
        }
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, *self.operator.arguments], env=environment, stdout=log, stderr=log
            )
        self.until(lambda: sum("WATCH" in words for words in self.server.asked[before:]) >= 2)
        self.rest()
        return self.server.asked[before:]

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def until(self, met: Callable[[], Any]) -> Any:
        deadline = time.monotonic() + PATIENCE
        while not (found := met()):
            if time.monotonic() > deadline:
                raise AssertionError(f"{self.operator.name}: {(self.folder / 'log').read_text()[-3000:]}")
            time.sleep(0.02)
        return found

    def rest(self) -> None:
        """Wait until nothing was asked for `quiet` seconds."""
        self.until(lambda: time.monotonic() - self.server.last > self.quiet)

    def told(self, act: Callable[[], Any], met: Callable[[], Any]) -> list[str]:
        """What the operator asks because of an act, up to its rest after something was met."""
        before = len(self.server.asked)
        act()
        self.until(met)
        self.rest()
        return self.server.asked[before:]

    def deployment(self) -> Any:
        return self.ask("GET", f"{DEPLOYMENTS}/web")

    def site(self) -> Any:
        return self.ask("GET", f"{SITES}/web")

    def ready(self) -> int:
        """What the status of the site says; -1: nothing."""
        return ((self.site() or {}).get("status") or {}).get("ready", -1)

    def image(self) -> str:
        deployment = self.deployment()
        return "" if deployment is None else deployment["spec"]["template"]["spec"]["containers"][0]["image"]

    def names(self) -> list[str]:
        return sorted(path.name for path in (self.folder / "names").iterdir())

    def make(self, image: str = "web:1") -> None:
        body = {"metadata": {"name": "web"}, "spec": {"image": image}}
        self.ask("POST", SITES, {"apiVersion": "example.com/v1", "kind": "Site", **body})

    def set_image(self, image: str) -> None:
        self.ask("PATCH", f"{SITES}/web", {"spec": {"image": image}})

    def get_ready(self) -> None:
        self.ask("PATCH", f"{DEPLOYMENTS}/web/status", {"status": {"replicas": 1, "readyReplicas": 1}})

    def lose_deployment(self) -> None:
        self.ask("DELETE", f"{DEPLOYMENTS}/web")

    def delete(self) -> None:
        self.ask("DELETE", f"{SITES}/web")

    def killed_at(self, number: int, act: Callable[[], Any]) -> bool:
        """Kill the operator at its write of that number because of an act; whether it made so many."""
        self.kill_at(number)
        act()
        deadline = time.monotonic() + PATIENCE / 3
        assert self.process is not None
        while self.process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        killed = self.process.poll() is not None
        self.server.at_write = None
        self.stop()
        return killed

    def settles(self, image: str, ready: int, seconds: float = 5.0) -> str:
        """What of the wanted end is missing after so many seconds; nothing where all is there."""
        deadline = time.monotonic() + seconds
        while missing := self._missing(image, ready):
            if time.monotonic() > deadline:
                return missing
            time.sleep(0.02)
        return ""

    def _missing(self, image: str, ready: int) -> str:
        wrong = [] if self.process is None or self.process.poll() is None else ["the operator has ended"]
        if self.image() != image:
            wrong.append(f"the Deployment has image {self.image() or 'none'}")
        if self.ready() != ready:
            wrong.append(f"the status says {self.ready()} ready")
        if self.names() != ["web"]:
            wrong.append("the name is missing")
        return ", ".join(wrong)

    def kill_at(self, number: int) -> None:
        """Kill the operator at its write of that number from now on, before it hears the answer."""
        left = number

        def kill(_: str) -> None:
            nonlocal left
            left -= 1
            if left == 0 and self.process is not None:
                self.server.at_write = None
                os.kill(self.process.pid, signal.SIGKILL)

        self.server.at_write = kill


def site_definition() -> dict[str, Any]:
    """The CustomResourceDefinition of Site, whose status may hold anything."""
    spec = object_of(image=STRING, replicas={**INTEGER, "default": 1}, pullSecret=STRING)
    return definition("Site", object_of(spec=spec, status=ANYTHING))


@asynccontextmanager
async def serving(kubeconfig: Path, definition: Mapping[str, Any]) -> AsyncIterator[Recording]:
    """A server with one kind, over HTTPS, until the end of the block."""
    server = Recording()
    server.ask("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
    async with anyio.create_task_group() as tasks, serve(server, token="compared") as face:
        tasks.start_soon(server.run)
        write_kubeconfig(kubeconfig, face.url, face.ca_pem, face.token)
        yield server
        tasks.cancel_scope.cancel()


@contextmanager
def staged(operator: Operator, folder: Path) -> Iterator[Stage]:
    """A server of its own for one operator, which is not started yet."""
    (folder / "names").mkdir()
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(serving(folder / "kubeconfig", site_definition())) as server,
    ):
        stage = Stage(operator, server, portal, folder)
        try:
            yield stage
        finally:
            stage.stop()


PHASES: Mapping[str, Callable[[Stage], list[str]]] = {
    "start": lambda stage: stage.start(),
    "a site is created": lambda stage: stage.told(stage.make, lambda: not stage.settles("web:1", 0, 0)),
    "its pod becomes ready": lambda stage: stage.told(stage.get_ready, lambda: stage.ready() == 1),
    "its image changes": lambda stage: stage.told(
        lambda: stage.set_image("web:2"), lambda: stage.image() == "web:2"
    ),
    "a user deletes the Deployment": lambda stage: stage.told(
        stage.lose_deployment, lambda: stage.image() == "web:2"
    ),
    "the site is deleted": lambda stage: stage.told(stage.delete, lambda: stage.site() is None),
}


def requests_of(
    operator: Operator, folder: Path, *, rest: float = 0.0, quiet: float = 1.0
) -> dict[str, list[str]]:
    """What an operator asks in each phase of a site's life, and in `rest` seconds in the midst of it."""
    asked = {}
    with staged(operator, folder) as stage:
        stage.quiet = quiet
        for phase, play in PHASES.items():
            asked[phase] = play(stage)
            if rest and phase == "its image changes":
                before = len(stage.server.asked)
                time.sleep(rest)
                asked[f"{rest:.0f} s at rest"] = stage.server.asked[before:]
    return asked


def _at_create(stage: Stage, number: int) -> str | None:
    stage.start()
    if not stage.killed_at(number, stage.make):
        return None
    stage.start()
    return stage.settles("web:1", 0)


def _at_update(stage: Stage, number: int) -> str | None:
    _begin(stage)
    if not stage.killed_at(number, lambda: stage.set_image("web:2")):
        return None
    stage.start()
    return stage.settles("web:2", 0)


def _while_down(act: Callable[[Stage], Any], image: str = "web:1", ready: int = 0) -> "Case":
    def play(stage: Stage) -> str:
        _begin(stage)
        stage.stop()
        act(stage)
        stage.start()
        return stage.settles(image, ready)

    return play


def _deleted_while_down(stage: Stage) -> str:
    _begin(stage)
    stage.stop()
    stage.delete()
    stage.start()
    stage.rest()
    return "" if stage.site() is None and not stage.names() else "it is still there"


def _refused(stage: Stage) -> str:
    stage.start()
    stage.server.refuse = "/deployments/web"
    stage.make()
    return stage.settles("web:1", 0)


def _begin(stage: Stage) -> None:
    stage.start()
    stage.told(stage.make, lambda: not stage.settles("web:1", 0, 0))


Case = Callable[[Stage], str | None]
CASES: Mapping[str, Case] = {
    **{f"create, killed at write {n}": partial(_at_create, number=n) for n in (1, 2, 3)},
    **{f"update, killed at write {n}": partial(_at_update, number=n) for n in (1, 2)},
    "the pod gets ready while it is down": _while_down(Stage.get_ready, ready=1),
    "the image changes while it is down": _while_down(lambda stage: stage.set_image("web:2"), "web:2"),
    "the Deployment is deleted while it is down": _while_down(Stage.lose_deployment),
    "the site is deleted while it is down": _deleted_while_down,
    "one write is refused with 500": _refused,
}
"""What goes wrong. Empty: 5 s later all is as it should be; None: the operator makes no such write."""


def outcome_of(operator: Operator, case: str, folder: Path) -> str | None:
    with staged(operator, folder) as stage:
        return CASES[case](stage)
