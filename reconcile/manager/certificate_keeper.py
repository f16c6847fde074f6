"""Keeps the certificates of the webhooks: the effects around `rotation.step`, the same in every replica.

Each look reads the objects that call webhooks, then the Secret, and then writes: first the Secret, then the
bundles that differ from it. The order is what makes a slow replica harmless. A bundle is written only into
the version of an object that was read before the Secret: had another replica put a newer CA into the bundle
since, that version is gone; had it done so before, the Secret that was read names that CA.
"""

import asyncio
import datetime
import platform
import ssl
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Literal

import anyio
from attrs import define, evolve, field, frozen

from informers import ApiError, Conflict, NotFound, get_logger
from informers.memory_files import as_file
from reconcile.client.client import Client
from reconcile.controller.event_recorder import Recorder
from reconcile.controller.run_output import PendingEvent
from reconcile.kinds import Secret
from reconcile.models import Unstructured
from reconcile.ops.serving_context import ServingContext
from reconcile.runs.supervision import supervise
from reconcile.webhooks import rotation
from reconcile.webhooks.ca_bundles import bundle_patch, trusted_by
from reconcile.webhooks.calling_objects import CallingObject
from reconcile.webhooks.certificate_secret import (
    StoredCertificates,
    UnusableSecret,
    first_certificates,
    new_secret,
    read_secret,
    restored_certificates,
    secret_data,
    stepped,
)
from reconcile.webhooks.configurations import WebhookService
from reconcile.webhooks.rotation import Member, Move, Replica, Rotation, Sighting

LOOK_SECONDS = 15.0
SOON_SECONDS = 1.0
LEAVE_SECONDS = 5.0
"""How long a replica that stops tries to take its entry out of the Secret."""

_NOTES: Mapping[Move, str] = {
    Move.ANNOUNCE: "a new CA was made, which all that call the webhooks are to trust",
    Move.RENEW: "a new certificate was made, of the same CA",
    Move.SWITCH: "a new certificate was made, of the new CA",
    Move.DROP: "the former CA is no longer trusted",
}
_NEVER = float("-inf")
_CLOCKS_APART = datetime.timedelta(minutes=10)

_log = get_logger("reconcile.certificates")


class NotReady(Exception):
    """Calls to this replica would fail, or may fail soon."""


@frozen
class _Look:
    """An object that was read, and the CAs that all its webhooks of the service trust."""

    called_by: CallingObject
    found: Unstructured
    trusted: Collection[str]


@asynccontextmanager
async def kept_certificate(
    client: Client,
    service: WebhookService,
    objects: Sequence[CallingObject],
    on_shown: Callable[[datetime.datetime], None] = lambda until: None,
) -> AsyncIterator["CertificateKeeper"]:
    """A certificate for the Service, kept while inside. Raises UnusableSecret.

    `on_shown` gets the end of validity of each certificate that is served from then on.
    """
    keeper = CertificateKeeper(client, service, objects, on_shown=on_shown)
    await keeper.start()
    scope = anyio.CancelScope()

    async def watch() -> None:
        with scope:
            await supervise(keeper.watch, "webhook certificates", client.clock, _log)

    watching = asyncio.create_task(watch(), name="webhook certificates")
    try:
        yield keeper
    finally:
        scope.cancel()
        with anyio.CancelScope(shield=True):
            await asyncio.wait([watching])
            await keeper.leave()


@define(eq=False)
class CertificateKeeper:
    """Serves a certificate of the operator's own in `context`, and keeps it trusted by `objects`.

    `client` writes for every replica, leader or not. `start` before the socket is opened, `watch` while it
    is open, `leave` when it is closed.
    """

    client: Client
    service: WebhookService
    objects: Sequence[CallingObject]
    identity: str = ""
    on_shown: Callable[[datetime.datetime], None] = lambda until: None
    recorder: Recorder = field(init=False)
    """Writes Events of the Secret."""
    _serving: ServingContext = field(factory=ServingContext, init=False)
    _stored: StoredCertificates | None = field(default=None, init=False)
    _sightings: Mapping[str, Sighting] = field(factory=dict, init=False)
    _held: Mapping[str, float] = field(factory=dict, init=False)
    _untrusting: Sequence[str] = field(default=(), init=False)
    _looked: float = field(default=_NEVER, init=False)
    _entered: float = field(default=_NEVER, init=False)
    _failures: int = field(default=0, init=False)
    _unread: frozenset[str] = field(default=frozenset(), init=False)

    def __attrs_post_init__(self) -> None:
        self.recorder = Recorder(self.client, self.client.field_manager)
        if not self.identity:
            self.identity = f"{platform.node()}_{self.client.clock.uuid()}"

    @property
    def context(self) -> ssl.SSLContext:
        """The same at all times; new connections get the certificate of the moment."""
        return self._serving.context

    async def start(self) -> None:
        """Wait until there is a certificate, and this replica is a member. Raises UnusableSecret."""
        while True:
            pause = await self._attempt()
            if self._entered > _NEVER:
                return
            await anyio.sleep(pause)

    async def watch(self) -> None:
        """Look again and again, until cancelled."""
        async with anyio.create_task_group() as group:
            with self.recorder.writing_in(group):
                pause = SOON_SECONDS
                while True:
                    await anyio.sleep(pause)
                    pause = await self._attempt()

    async def leave(self) -> None:
        """Take the entry out of the Secret, so that rotations need not wait for this replica."""
        with anyio.move_on_after(LEAVE_SECONDS, shield=True):
            try:
                left = await self._leave()
                while not left:
                    await anyio.sleep(self._soon())
                    left = await self._leave()
            except (ApiError, UnusableSecret) as error:
                _log.warning("the entry of this replica stays for now", secret=self._place, error=str(error))

    def check_ready(self) -> None:
        """Raises NotReady while calls to this replica fail, or may soon because it is out of touch."""
        stored = self._stored
        if stored is None or self._entered == _NEVER:
            raise NotReady("there is no certificate to serve yet")
        if self._looked == _NEVER:
            raise NotReady("it is not known yet whether the CA of the certificate is trusted")
        if self._untrusting:
            raise NotReady(f"the CA of the certificate is not trusted by {', '.join(self._untrusting)}")
        silent = self._time() - self._entered
        if silent >= rotation.CERTAIN_SECONDS and rotation.may_be_left_behind(
            stored.rotation, self.client.clock.now(), _CLOCKS_APART
        ):
            raise NotReady(
                f"Secret {self._place} was not written for {silent:.0f} s, and a rotation may be under way"
            )

    async def look(self) -> bool:
        """One look and what follows from it; returns whether another one is due soon.

        Raises Conflict if another replica was faster, ApiError, and UnusableSecret.
        """
        looks = await self._objects()
        secret = await self.client.find(Secret, self.service.secret, self.service.namespace, live=True)
        if secret is None:
            await self._create()
            return True
        try:
            stored = read_secret(secret)
        except UnusableSecret as error:
            self._tell(secret, "CertificatesNotKept", str(error), "Warning")
            raise
        self._serve(stored)
        self._see(stored, looks)
        after, moved = await self._step(secret, stored)
        wrote = [await self._write_bundle(secret, look, after.bundle) for look in looks]
        return any(wrote) or moved

    async def _attempt(self) -> float:
        """One look; returns the seconds until the next."""
        try:
            with anyio.fail_after(LOOK_SECONDS):
                soon = await self.look()
        except Conflict:
            return self._soon()
        except UnusableSecret as error:
            if self._entered == _NEVER:
                raise
            _log.error("the certificates are kept as they are", error=str(error))
            return LOOK_SECONDS
        except (ApiError, TimeoutError) as error:
            self._failures += 1
            text = str(error) or "no answer in time"
            _log.warning("cannot look after the certificates", secret=self._place, error=text)
            return min(LOOK_SECONDS, self._soon() * 2.0 ** min(self._failures, 10))
        self._failures = 0
        # Replicas that look at one time would all write at one time, and all but one in vain.
        return self._soon() if soon else LOOK_SECONDS * (0.8 + 0.2 * self.client.clock.random())

    def _soon(self) -> float:
        return SOON_SECONDS * (0.5 + self.client.clock.random())

    async def _objects(self) -> Sequence[_Look]:
        looks, unread = [], set()
        for called_by in self.objects:
            try:
                found = await self.client.find(called_by.kind, called_by.name, live=True)
            except ApiError as error:
                unread.add(str(called_by))
                _log.warning("cannot read which CAs are trusted", object=str(called_by), error=str(error))
                continue
            trusted = None if found is None else trusted_by(found.body, self.service)
            if found is not None and trusted is not None:
                looks.append(_Look(called_by, found, trusted))
        self._unread = frozenset(unread)
        return looks

    async def _create(self) -> None:
        """Raises AlreadyExists if another replica was faster."""
        now = self.client.clock.now()
        if self._stored is None:
            made = first_certificates(self.identity, self.service.host_names, now)
        else:
            made = restored_certificates(self._stored, self.identity, now)
        asked_at = self._time()
        secret = await self.client.create(new_secret(self.service.secret, self.service.namespace, made))
        self._serve(made)
        self._entered = asked_at
        self._tell(secret, "CertificatesCreated", f"for {self.service.host_names[0]}")
        _log.info("certificates created", secret=self._place, again=len(made.authorities) > 1)

    def _serve(self, stored: StoredCertificates) -> None:
        """Show the leaf to new connections; those that are open stay."""
        if self._stored is None or self._stored.leaf != stored.leaf:
            with as_file(f"{stored.leaf.certificate}{stored.leaf.key}".encode()) as path:
                self._serving.show(path)
            until = stored.rotation.leaf.validity.until
            self.on_shown(until)
            _log.info("serving a certificate", until=until.isoformat())
        self._stored = stored

    def _see(self, stored: StoredCertificates, looks: Sequence[_Look]) -> None:
        now, state = anyio.current_time(), stored.rotation
        if now - self._looked > rotation.GAP_SECONDS:
            # What was not looked at may have changed meanwhile, and members may have had no way to write.
            self._sightings, self._held = {}, {}
        self._looked = now
        self._sightings = rotation.sighted(self._sightings, state.members, now)
        bundles = [look.trusted for look in looks]
        self._held = {} if self._unread else rotation.held_since(self._held, state.trusted, bundles, now)
        without = {str(look.called_by) for look in looks if state.leaf.issuer not in look.trusted}
        self._untrusting = sorted(without | self._unread)

    async def _step(self, secret: Secret, stored: StoredCertificates) -> tuple[StoredCertificates, bool]:
        """The certificates as they stand then, and whether they changed. Raises StaleVersion."""
        state, names, now = stored.rotation, self.service.host_names, self.client.clock.now()
        silent = rotation.silent_members(self._sightings, anyio.current_time())
        step = rotation.step(state, Replica(self.identity, self._says(state), names), silent, now)
        if step.move is Move.KEEP and step.members == state.members:
            return stored, False
        after, asked_at = stepped(stored, step, names, now), self._time()
        await self.client.raw.update(secret.replace(data=secret_data(after)), whole=True)
        self._entered = asked_at
        if step.move is not Move.KEEP:
            _log.info("certificates changed", step=step.move.value, secret=self._place)
            self._tell(secret, "CertificatesChanged", _NOTES[step.move])
        if gone := sorted(state.members.keys() - step.members.keys()):
            _log.info("replicas that are silent are not waited for", replicas=gone)
        return after, step.move is not Move.KEEP

    def _says(self, state: Rotation) -> Member:
        entry = state.members.get(self.identity)
        beat = 0 if entry is None else entry.beat
        if self._time() - self._entered >= rotation.BEAT_SECONDS:
            beat += 1
        return Member(state.leaf.issuer, rotation.settled(self._held, anyio.current_time()), beat)

    async def _write_bundle(self, secret: Secret, look: _Look, bundle: str) -> bool:
        """Whether it was written, or the object was changed meanwhile."""
        patch = bundle_patch(look.found.body, self.service, bundle)
        if not patch:
            return False
        metadata = look.found.metadata
        guard = {"uid": metadata.uid, "resourceVersion": metadata.resource_version}
        resource = look.called_by.resource
        try:
            await self.client.raw.patch(resource, look.found.key, patch, guard=guard, patch_type="json")
        except (Conflict, NotFound):
            return True  # it is another one by now
        except ApiError as error:
            _log.warning("cannot write the CA bundle", object=str(look.called_by), error=str(error))
            self._tell(secret, "BundleNotWritten", f"{look.called_by}: {error}", "Warning")
            return False
        _log.info("CA bundle written", object=str(look.called_by))
        return True

    async def _leave(self) -> bool:
        """Whether the entry is gone; False if another replica was faster."""
        secret = await self.client.find(Secret, self.service.secret, self.service.namespace, live=True)
        stored = None if secret is None else read_secret(secret)
        if secret is None or stored is None or self.identity not in stored.members:
            return True
        members = {name: member for name, member in stored.members.items() if name != self.identity}
        try:
            data = secret_data(evolve(stored, members=members))
            await self.client.raw.update(secret.replace(data=data), whole=True)
        except Conflict:
            return False
        return True

    def _tell(
        self, secret: Secret, reason: str, note: str, kind: Literal["Normal", "Warning"] = "Normal"
    ) -> None:
        self.recorder.record(secret, PendingEvent(kind, reason, note, "Rotate"))

    def _time(self) -> float:
        """Seconds that pass for other machines too: the loop's clock stops while this one is suspended."""
        return anyio.current_time() + self.client.clock.suspended()

    @property
    def _place(self) -> str:
        return f"{self.service.namespace}/{self.service.secret}"
