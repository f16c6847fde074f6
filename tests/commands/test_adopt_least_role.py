"""The role of the guide is what `adopt kopf audit`, `switch` and `back` need, and no right of it is spare."""

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import anyio
import pytest

from informers import HttpRequest, Response, SystemClock, Transport
from informers.transport import PassingTransport
from reconcile import Client
from reconcile.client.sender import Sender
from reconcile.commands import main
from reconcile.commands.definition_diff import Cluster
from reconcile.embedded import InProcessTransport, service_account
from reconcile.predecessors import PEERINGS, entry_of
from reconcile.testing import FakeClient
from tests.clients.gadgets import deployment
from tests.commands.test_adopt_rights import BINDING, role
from tests.helpers.definitions import ANYTHING, definition

KIND: Final = ("--kind", "sites.back.example.com")
PEER, FREEZE = "me@host/1", "reconcile/sites"
SCALE: Final = "/apis/apps/v1/namespaces/default/deployments/operator/scale"
OPERATOR: Final = """
from reconcile import Manager
from tests.adoption.returned_sites import sites
manager = Manager(sites, name="sites", sharding="sites-system/shared")
"""


class Right(NamedTuple):
    group: str
    resource: str
    verb: str


def rights_of(role: Mapping[str, Any]) -> Iterator[Right]:
    for rule in role["rules"]:
        for group in rule["apiGroups"]:
            yield from (
                Right(group, resource, verb) for resource in rule["resources"] for verb in rule["verbs"]
            )


def right_of(request: HttpRequest) -> Right | None:
    """What a server asks for on a request; None for one that every account may make."""
    _, root, *rest = request.path.split("/")
    group, rest = ("", rest[1:]) if root == "api" else (rest[0] if rest else "", rest[2:])
    if rest[:1] == ["namespaces"] and len(rest) > 2:
        rest = rest[2:]
    if not rest:
        return None
    resource, name, part = (*rest, "", "")[:3]
    verb = {"GET": "get" if name else "list", "PATCH": "patch"}[request.method]
    return Right(group, f"{resource}/{part}" if part else resource, verb)


class Asked(PassingTransport):
    """Notes the rights that are asked for, and what is refused; the operator ends when it is scaled to 0."""

    def __init__(self, inner: Transport, world: "World") -> None:
        super().__init__(inner)
        self.world = world
        self.rights: set[Right] = set()
        self.refused: list[str] = []

    async def request(self, request: HttpRequest) -> Response:
        response = await super().request(request)
        if (right := right_of(request)) is not None:
            self.rights.add(right)
        if response.status == 403:
            self.refused.append(f"{request.method} {request.path}")
        if request.path == SCALE:
            await self.world.sign(PEER, None)
        return response


class World:
    """An operator on kopf that signs in each kind of peering object, as an administrator sees it."""

    def __init__(self, rules: Mapping[str, Any]) -> None:
        self.now = SystemClock().now()
        kinds = [self._definition(one.kind, one.group, namespaced=one.namespaced) for one in PEERINGS]
        peerings = [self._peering(number) for number in range(len(PEERINGS))]
        self.fake = FakeClient(
            *kinds,
            self._definition("Site", "back.example.com"),
            *peerings,
            deployment("operator", "operator:1"),
            self._site("taken", finalizers=["back.example.com/site"]),
            self._site("half"),
            rules,
            BINDING,
            user=service_account("default", "mover"),
        )
        self.admin = Client(InProcessTransport(self.fake.server, settle=True), clock=self.fake.clock)

    async def prepare(self) -> None:
        await self.sign(PEER, dict(entry_of(0, 600, self.now)))
        half = {"kopf": {"progress": {"make": {"started": "2026-01-01", "purpose": "create"}}}}
        await self._status(self._site("half"), half)

    async def sign(self, identity: str, entry: Mapping[str, Any] | None) -> None:
        for number in range(len(PEERINGS)):
            await self._status(self._peering(number), {identity: entry})

    async def _status(self, document: Mapping[str, Any], status: Mapping[str, Any]) -> None:
        found = await self.admin.raw.unstructured(document)
        await self.admin.raw.merge(found, {"status": status}, guard={}, subresource="status")

    def _definition(self, kind: str, group: str, *, namespaced: bool = True) -> dict[str, Any]:
        found = definition(kind, ANYTHING, group=group)
        found["spec"]["scope"] = "Namespaced" if namespaced else "Cluster"
        return found

    def _peering(self, number: int) -> dict[str, Any]:
        kind = PEERINGS[number]
        place = {"namespace": "default"} if kind.namespaced else {}
        return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "default", **place}}

    def _site(self, name: str, **metadata: Any) -> dict[str, Any]:
        head = {"name": name, "namespace": "default", **metadata}
        return {"apiVersion": "back.example.com/v1", "kind": "Site", "metadata": head}


def test_the_role_of_the_guide_is_enough_and_each_right_of_it_is_used(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "ours.py").write_text(OPERATOR)
    world = World(role())
    asked = Asked(world.fake.transport, world)

    @asynccontextmanager
    async def connected(self: Cluster) -> AsyncIterator[Sender]:
        yield Sender(asked, SystemClock())

    monkeypatch.setattr(Cluster, "connected", connected)
    monkeypatch.setattr("reconcile.adoption.switch_run.FIRST_WAIT", 0.01)
    anyio.run(world.prepare)
    named = (*KIND, "--deployment", "operator")
    assert kopf("audit") == kopf("audit", *named) == 1  # the object that is half-way through its creation
    assert kopf("switch", *named, "--drain", "0", "--unfinished", "run", "--yes") == 0
    assert kopf("switch", *KIND, "--finished", "default/half", "--yes") == 0
    anyio.run(world.sign, FREEZE, dict(entry_of(100, 600, world.now)))
    assert kopf("back", "ours", "--yes") == 0
    shown = capsys.readouterr().out
    assert "released sites.back.example.com default/half" in shown
    assert "lifted the freeze in KopfPeering default/default" in shown
    assert asked.refused == []
    assert asked.rights == {*rights_of(role())}


def kopf(*arguments: str) -> int:
    return main(["adopt", "kopf", *arguments])
