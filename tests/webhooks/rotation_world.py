"""Replicas that keep certificates on one server, API servers that call them, and a death at one write."""

import base64
import datetime
import functools
import itertools
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import anyio
from anyio.abc import TaskGroup
from attrs import define, field, frozen
from cryptography import x509
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError

from informers import HttpRequest, Response
from informers.transport import PassingTransport
from reconcile import Client
from reconcile.embedded import ApiServer, InProcessTransport
from reconcile.kinds import Secret
from reconcile.manager.certificate_keeper import CertificateKeeper, NotReady
from reconcile.models import Unstructured, thaw
from reconcile.testing import VirtualClock
from reconcile.webhooks.calling_objects import (
    CallingObject,
    Definition,
    MutatingConfiguration,
    ValidatingConfiguration,
)
from reconcile.webhooks.certificate_secret import StoredCertificates, read_secret
from reconcile.webhooks.configurations import WebhookService

SERVICE = WebhookService("shop", "shop-webhooks")
SECRET = SERVICE.secret
OBJECTS = (
    CallingObject(MutatingConfiguration, "defaults.shop.example.com"),
    CallingObject(ValidatingConfiguration, "refuses.shop.example.com"),
    CallingObject(Definition, "shops.shop.example.com"),
)
CALLS_EACH_SECOND = 50
INFORMER_SECONDS = 50.0
"""How far an API server may be behind with what it reads."""

_CONFIG = {"service": {"name": SERVICE.name, "namespace": SERVICE.namespace, "path": "/x"}}


def _configuration(called_by: CallingObject) -> dict[str, Any]:
    webhook = {
        "name": "hook.shop.example.com",
        "clientConfig": _CONFIG,
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "rules": [
            {
                "apiGroups": ["shop.example.com"],
                "apiVersions": ["v1"],
                "operations": ["CREATE"],
                "resources": ["shops"],
            }
        ],
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": called_by.kind.__name__,
        "metadata": {"name": called_by.name},
        "webhooks": [webhook, {**webhook, "name": "other.shop.example.com"}],
    }


def _definition(called_by: CallingObject) -> dict[str, Any]:
    schema = {"openAPIV3Schema": {"type": "object"}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": called_by.name},
        "spec": {
            "group": "shop.example.com",
            "scope": "Namespaced",
            "names": {"plural": "shops", "singular": "shop", "kind": "Shop", "listKind": "ShopList"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
            "conversion": {
                "strategy": "Webhook",
                "webhook": {"clientConfig": _CONFIG, "conversionReviewVersions": ["v1"]},
            },
        },
    }


@frozen
class SkewedClock:
    """A machine's clock that is wrong by some seconds."""

    clock: VirtualClock
    ahead: float

    def now(self) -> datetime.datetime:
        return self.clock.now() + datetime.timedelta(seconds=self.ahead)

    def random(self) -> float:
        return self.clock.random()

    def uuid(self) -> uuid.UUID:
        return self.clock.uuid()

    def suspended(self) -> float:
        return 0.0


@define
class Death:
    """The sender of the write of that number dies: before it is sent, or before its answer is seen."""

    at: int = 0
    before: bool = False
    writes: int = 0
    met: str = ""

    def strikes(self) -> bool:
        self.writes += 1
        return self.writes == self.at


class Mortal(PassingTransport):
    """Carries out the death of its replica."""

    def __init__(self, inner: InProcessTransport, death: Callable[[], Death]) -> None:
        super().__init__(inner)
        self.death = death
        self.replica: Replica | None = None

    async def request(self, request: HttpRequest) -> Response:
        if request.reads or request.path.startswith("/apis/events.k8s.io"):
            return await self._inner.request(request)
        death = self.death()
        strikes = death.strikes()
        if strikes and death.before:
            await self._die(request)
        answer = await self._inner.request(request)
        if strikes:
            await self._die(request)
        return answer

    async def _die(self, request: HttpRequest) -> None:
        assert self.replica is not None
        self.death().met = str(request)
        self.replica.kill()
        await anyio.sleep_forever()


@define(eq=False)
class Replica:
    """A process: its keeper, and the chain that its socket shows."""

    keeper: CertificateKeeper
    transport: Mortal
    scope: anyio.CancelScope = field(factory=anyio.CancelScope)
    listening: bool = False
    alive: bool = True

    async def run(self) -> None:
        with self.scope:
            await self.keeper.start()
            self.listening = True
            await self.keeper.watch()

    def kill(self) -> None:
        self.alive = self.listening = False
        self.scope.cancel()

    @property
    def ready(self) -> bool:
        try:
            self.keeper.check_ready()
        except NotReady:
            return False
        return self.listening

    @property
    def leaf(self) -> str:
        stored = self.keeper._stored
        assert stored is not None
        return stored.leaf.certificate


@define
class Calls:
    """How many calls were made, and what became of those that failed."""

    made: int = 0
    without_endpoint: int = 0
    refused: list[str] = field(factory=list)


@define(eq=False)
class RotationWorld:
    seed: int = 0
    clock: VirtualClock = field(init=False)
    server: ApiServer = field(init=False)
    client: Client = field(init=False)
    replicas: list[Replica] = field(factory=list)
    calls: Calls = field(factory=Calls)
    death: Death = field(factory=Death)
    former: dict[str, list[tuple[float, str]]] = field(factory=dict)
    _skews: Iterator[float] = field(init=False)
    _numbers: Iterator[int] = field(factory=itertools.count)

    def __attrs_post_init__(self) -> None:
        self.clock = VirtualClock(self.seed)
        self.server = ApiServer(clock=self.clock)
        self.client = Client(InProcessTransport(self.server), clock=self.clock)
        self._skews = itertools.cycle([0.0, 60.0, -60.0])

    async def prepare(self) -> None:
        await self.client.create(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SERVICE.namespace}}
        )
        for called_by in OBJECTS:
            make = _definition if called_by.kind is Definition else _configuration
            await self.client.create(make(called_by))

    def replica(self, objects: Sequence[CallingObject] = OBJECTS) -> Replica:
        transport = Mortal(InProcessTransport(self.server), lambda: self.death)
        client = Client(transport, clock=SkewedClock(self.clock, next(self._skews)))
        identity = f"shop-{next(self._numbers)}"
        made = Replica(CertificateKeeper(client, SERVICE, objects, identity), transport)
        transport.replica = made
        self.replicas.append(made)
        return made

    def start(self, group: TaskGroup) -> Replica:
        made = self.replica()
        group.start_soon(made.run)
        return made

    async def stored(self) -> StoredCertificates:
        return read_secret(await self.client.get(Secret, SECRET, SERVICE.namespace))

    async def object(self, called_by: CallingObject) -> dict[str, Any]:
        found: Unstructured = await self.client.get(called_by.kind, called_by.name)
        body: dict[str, Any] = thaw(found.body)
        return body

    async def bundles(self) -> dict[str, str]:
        """The bundle of each webhook of each object, by name and place."""
        found: dict[str, str] = {}
        for called_by in OBJECTS:
            body = await self.object(called_by)
            configs = [webhook["clientConfig"] for webhook in body.get("webhooks", ())]
            if called_by.kind is Definition:
                configs = [body["spec"]["conversion"]["webhook"]["clientConfig"]]
            found |= {f"{called_by}/{at}": config.get("caBundle", "") for at, config in enumerate(configs)}
        return found

    async def call(self) -> None:
        """API servers call, fifty times a second, each with a bundle that may be fifty seconds old."""
        while True:
            now = anyio.current_time()
            for name, bundle in (await self.bundles()).items():
                history = self.former.setdefault(name, [])
                if not history or history[-1][1] != bundle:
                    history.append((now, bundle))
                while len(history) > 1 and history[1][0] <= now - INFORMER_SECONDS:
                    history.pop(0)
            self._call_now()
            await anyio.sleep(1)

    def _call_now(self) -> None:
        serving = [one for one in self.replicas if one.alive and one.ready]
        pairs = [(name, bundle) for name, history in self.former.items() for _, bundle in history]
        self.calls.made += CALLS_EACH_SECOND
        if not serving:
            self.calls.without_endpoint += CALLS_EACH_SECOND
            return
        # A call's outcome depends on nothing but these three, so each combination is tried, not fifty draws.
        for replica in serving:
            for name, bundle in pairs:
                if why := refusal(replica.leaf, bundle, self.clock.now()):
                    self.calls.refused.append(
                        f"{self.clock.now()}: {name} by {replica.keeper.identity}: {why}"
                    )


@functools.lru_cache(maxsize=4096)
def refusal(leaf: str, bundle: str, now: datetime.datetime) -> str:
    """Why an API server refuses this certificate for the Service; empty if it does not."""
    try:
        store = Store(_certificates(base64.b64decode(bundle)))
    except ValueError as error:
        return str(error)
    for skew in (-60, 60):
        builder = PolicyBuilder().store(store).time(now + datetime.timedelta(seconds=skew))
        verifier = builder.build_server_verifier(x509.DNSName(SERVICE.host_names[0]))
        try:
            verifier.verify(_certificates(leaf.encode())[0], [])
        except VerificationError as error:
            return str(error)
    return ""


@functools.lru_cache(maxsize=256)
def _certificates(text: bytes) -> list[x509.Certificate]:
    return x509.load_pem_x509_certificates(text)
