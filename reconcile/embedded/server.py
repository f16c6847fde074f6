"""The embedded API server: requests in, answers and watches out, on one thread.

Only admission and conversion may wait.
"""

import weakref
from collections.abc import Awaitable, Coroutine, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import anyio
from msgspec.structs import replace

from informers.clock import Clock, SystemClock
from informers.resource import Key
from informers.transport import Response
from reconcile.embedded.admission.chain import finished
from reconcile.embedded.admission.policies import add_policies
from reconcile.embedded.admission.role_escalation import RoleGuard
from reconcile.embedded.admission.webhook_plugins import add_webhooks
from reconcile.embedded.api import ApiRequest, RequestTarget, target_at
from reconcile.embedded.auth import Access, attributes_of
from reconcile.embedded.auth.impersonation import impersonated, impersonation_acts
from reconcile.embedded.controllers.default_accounts import DefaultAccounts
from reconcile.embedded.controllers.deletion_clearance import DeletionClearance
from reconcile.embedded.controllers.disruption import Disruptions
from reconcile.embedded.controllers.garbage_collection import GarbageCollector
from reconcile.embedded.controllers.horizontal_autoscalers import Autoscalers
from reconcile.embedded.controllers.policy_types import PolicyTypes
from reconcile.embedded.controllers.quotas import Quotas
from reconcile.embedded.controllers.readability import Readability
from reconcile.embedded.controllers.role_aggregation import Aggregation
from reconcile.embedded.controllers.served_definitions import Definitions
from reconcile.embedded.controllers.storage_migrations import Migrations
from reconcile.embedded.controllers.storage_protection import StorageProtection
from reconcile.embedded.controllers.version_caches import VersionCaches
from reconcile.embedded.controllers.waiting_work import WaitingWork
from reconcile.embedded.durable.data_folder import DataFolder
from reconcile.embedded.durable.journal import FileJournal
from reconcile.embedded.durable.restoring import restore
from reconcile.embedded.engine import Engine
from reconcile.embedded.kinds import BUILT_IN, BuiltInKind, Catalogue
from reconcile.embedded.kinds.rbac import default_bindings, default_roles
from reconcile.embedded.kubectl.discovery_routes import Routes
from reconcile.embedded.log import MAX_HISTORY_BYTES, NAMESPACES, Log, StorageKey
from reconcile.embedded.protocol.api_failure import ApiFailure
from reconcile.embedded.protocol.request_info import RequestInfo, request_info
from reconcile.embedded.registry import ResourceRegistry
from reconcile.embedded.served import Converter, ServedResource
from reconcile.embedded.stored_forms import Unconverted, shown
from reconcile.embedded.verbs.answers import REFUSALS, failure_response, refused, with_deprecation
from reconcile.embedded.verbs.dispatch import Answer, act_for
from reconcile.embedded.verbs.watching import WatchStream
from reconcile.embedded.verbs.write_request import Outdated
from reconcile.embedded.webhook_calls import Endpoint

# Seconds: what a cluster's controllers take to hear of a change, and longer than a client's next request.
STATUS_DELAY = 0.5
FIRST_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
_READS = frozenset({"GET", "HEAD"})


class ApiServer:
    """A Kubernetes API server in this process.

    It starts with four namespaces, their default service accounts, and default roles. Call `handle` and
    `settle`, which never wait, from one thread only. Versions start at the microseconds of the wall clock, so
    a server that is started later never repeats one. `history` is how many changes of all resources together
    are kept for watches and paged lists, within about `history_bytes`.

    `ApiRequest.user` sends a request, by default the administrator. With `rbac` other users have the rights
    of the roles bound to them; without it they may do everything. `kinds` are served as if built in.
    `converter` converts custom resources in place of the conversion webhooks of their definitions, which are
    called over HTTPS without one. `webhooks` says where webhooks are, by the host of their URL, which for a
    service is `NAME.NAMESPACE.svc`: at an address and port, or a function; names are not resolved otherwise.

    With `data`, it continues where the server of that folder ended. No answer and no event of a watch is
    given before what it shows is on disk: `respond` awaits that, and `handle` blocks. A write that cannot be
    kept is a 500 and leaves no trace. Close the folder after the server.
    """

    def __init__(
        self,
        *,
        clock: Clock | None = None,
        history: int = 100_000,
        history_bytes: int = MAX_HISTORY_BYTES,
        rbac: bool = True,
        kinds: Iterable[BuiltInKind] = (),
        converter: Converter | None = None,
        webhooks: Mapping[str, Endpoint] | None = None,
        data: DataFolder | None = None,
    ) -> None:
        clock = clock or SystemClock()
        log = Log(int(clock.now().timestamp() * 1_000_000), history, history_bytes)
        catalogue = Catalogue((*BUILT_IN, *kinds))
        registry = ResourceRegistry(catalogue.resources)
        access = Access(log, enforced=rbac)
        self._journal = self._begin(Engine(clock, log, registry, catalogue, access, converter), data)
        self.webhooks.update(webhooks or {})
        self._make_first_namespaces()
        self._make_default_roles()
        if self._journal is not None:
            self._journal.flush()

    def _begin(self, engine: Engine, data: DataFolder | None = None) -> FileJournal | None:
        self._engine = engine
        self.log = engine.log
        """All objects and their changes, for observers in this process."""
        self.admission = engine.admission
        """Functions that every write passes in order before it is validated; append yours."""
        self.webhooks = engine.calls.endpoints
        """Where webhooks are, by the host of their URL (`NAME.NAMESPACE.svc` for a service); add yours."""
        self.access = engine.access
        self.tokens = engine.tokens
        self.resources = engine.registry
        """The resources that are served now."""
        self.protobuf = engine.kinds.protobuf
        self.clock = engine.clock
        self._watches: dict[StorageKey, dict[WatchStream, None]] = {}
        self._definitions = Definitions(self._engine, partial(_end_watches, self._watches))
        readable = Readability(self._engine)
        clearance = DeletionClearance(self._engine)
        self._garbage = GarbageCollector(self._engine, readable, clearance)
        me: ApiServer = weakref.proxy(self)  # so that a server goes with its last user, without a collection
        migrations = Migrations(self._engine, lambda request: me.respond(request))
        caches = VersionCaches(engine, lambda resource: me._wake(resource))
        self._waiting = WaitingWork(migrations, readable, caches, clearance, lambda: me._settle_objects())
        self._accounts = DefaultAccounts(self._engine)
        self._storage = StorageProtection(self._engine)
        self._quotas = Quotas(self._engine)
        self._aggregation = Aggregation(self._engine)
        self._status_keepers = (
            self._quotas, Disruptions(engine), Autoscalers(engine), PolicyTypes(engine),
        )  # fmt: skip
        self._engine.guards += [RoleGuard(self._engine.access), self._quotas.guard]
        add_webhooks(engine.phases, engine.log, engine.registry, engine.access, engine.calls, engine.clock)
        add_policies(engine.phases, engine.log, engine.registry, engine.access)
        self._routes = Routes(engine.registry)
        engine.log.on_shown(lambda change: self._wake(change.resource))
        return None if data is None else self._take_up(data)

    def _take_up(self, data: DataFolder) -> FileJournal:
        """Continue where the server of that folder ended."""
        engine = self._engine
        if data.found.tail is not None:
            restore(data.found, engine.log, engine.registry, self._definitions.resume)
        journal = data.begin(engine.log)
        journal.on_loss = self._definitions.follow
        journal.on_retry = self._garbage.wake
        engine.tokens.sign_with(data.signing_key())
        self._garbage.resume(engine.log.version)
        engine.log.retell()
        return journal

    def copy(self, clock: Clock, *, converter: Converter | None = None) -> "ApiServer":
        """A separate server with the objects and definitions of this one, and its own clock.

        It is much faster to create than a new server, and has the same admission functions, webhooks and,
        unless another is given, converter. Watches are not copied, and cannot resume at earlier versions.
        """
        engine = self._engine
        other = ApiServer.__new__(ApiServer)
        log, registry, kinds = engine.log.copy(), engine.registry.copy(), Catalogue(engine.kinds.kinds)
        access = Access(log, enforced=engine.access.enforced)
        converter = converter or engine.given_converter
        other._journal = other._begin(
            Engine(clock, log, registry, kinds, access, converter, list(engine.admission))
        )
        other.webhooks.update(self.webhooks)
        other._garbage.take_over(self._garbage)
        other._definitions.take_over(self._definitions)
        return other

    @property
    def version(self) -> int:
        """The version of the newest change."""
        return self._engine.log.version

    def handle(self, request: ApiRequest) -> Response | WatchStream:
        """Answer a request without waiting; the caller reads and closes a returned watch.

        If admission or conversion would have to wait, the answer is a 500: await `respond` then.
        """
        losses = 0 if self._journal is None else self._journal.losses
        answer = self._answer(request)
        if not isinstance(answer, (Response, WatchStream)):
            try:
                answer = finished(answer)
            except ApiFailure as failure:
                return failure_response(failure)
        if self._journal is None:
            return answer
        try:
            self._journal.flush()
            self._journal.require_no_loss_since(losses)
        except ApiFailure as failure:
            _drop(answer)
            return self.handle(request) if request.method in _READS else failure_response(failure)
        return answer

    async def respond(self, request: ApiRequest) -> Response | WatchStream:
        """Answer a request, and wait for admission and conversion where they do.

        Nothing is locked meanwhile, and cancelling the wait changes nothing.
        """
        if self._journal is not None:
            return await self._respond_durably(request, self._journal)
        answer = self._answer(request)
        return answer if isinstance(answer, (Response, WatchStream)) else await answer

    async def _respond_durably(self, request: ApiRequest, journal: FileJournal) -> Response | WatchStream:
        """Answer once everything that the answer may show is on disk.

        If that fails, a read is answered again from what is left. Anything else is a 500: even a refusal may
        have come from a change that was taken back.
        """
        while True:
            losses = journal.losses
            answer = self._answer(request)
            if not isinstance(answer, (Response, WatchStream)):
                answer = await answer
            try:
                await journal.until(self.log.version)
                journal.require_no_loss_since(losses)
                return answer
            except ApiFailure as failure:
                _drop(answer)
                if request.method not in _READS:
                    return failure_response(failure)
            except BaseException:
                _drop(answer)
                raise

    def settle(self) -> None:
        """Do all work of the controllers that is due now.

        They collect garbage, let unused volumes and claims end, finish deleting namespaces and definitions,
        create default accounts, expire events, and keep the status of quotas, budgets, autoscalers and
        validating policies.
        """
        self._settle_objects()
        self._settle_statuses()

    @property
    def has_waiting_work(self) -> bool:
        """Whether controllers wait for admission or conversion, and so for `settle_waiting`."""
        return self._waiting.pending

    async def settle_waiting(self) -> None:
        """Do the work of the controllers that awaits conversion or admission, and what follows from it.

        They migrate stored objects, collect or end what is stored in another version than they read, and
        delete what policies and webhooks allow.
        """
        if self._waiting.pending and not self._refusing:
            await self._waiting.once()

    def _settle_objects(self) -> None:
        if self._refusing:
            return  # no work is forgotten: what was taken back is due again
        # Definitions first: collecting garbage needs to know which kinds are served, and may end one.
        self._definitions.sync()
        self._garbage.settle()
        while self._storage.sync():
            self._garbage.settle()  # namespaces and owners may have waited for the claims
        self._accounts.sync()
        self._definitions.sync()
        self._aggregation.sync()

    def _settle_statuses(self) -> None:
        if not self._refusing:
            for one in self._status_keepers:
                one.sync()

    @property
    def _refusing(self) -> bool:
        return self._journal is not None and self._journal.refusing

    async def run(self) -> None:
        """Settle after every change, and when work falls due, until cancelled.

        The status of quotas, budgets, autoscalers and policies follows later, as in a cluster: a client may
        write a status before its controller does.
        """
        if self._journal is not None:
            self._journal.attend()
        changed = anyio.Event()

        def settle() -> None:
            self._settle_objects()
            self._waiting.wake()
            if any(one.dirty for one in self._status_keepers):
                changed.set()

        async with anyio.create_task_group() as group:
            group.start_soon(self._garbage.run, settle)
            group.start_soon(self._waiting.run)
            while True:
                await changed.wait()
                await anyio.sleep(STATUS_DELAY)
                changed = anyio.Event()
                self._settle_statuses()

    def close(self) -> None:
        """End every watch and stop all controllers; objects can still be read."""
        for watches in list(self._watches.values()):
            for watch in list(watches):
                watch.finish()
        self._engine.log.forget_all()

    # --- authorisation ---

    def _admit(self, request: ApiRequest, info: RequestInfo) -> ApiRequest:
        """The request as the user that it impersonates, if any. Raises ApiFailure (403)."""
        for name in request.headers:
            if name.startswith("impersonate-"):
                request = self._impersonate(request)
                break
        if not request.user.superuser:
            self._engine.access.require(attributes_of(request.user, info, request.path))
        return request

    def _impersonate(self, request: ApiRequest) -> ApiRequest:
        wanted = impersonated(request.headers)
        if wanted is None:
            return request
        for act in impersonation_acts(request.user, request.headers, wanted):
            self._engine.access.require(act)
        return replace(request, user=wanted)

    # --- dispatch ---

    def _answer(self, request: ApiRequest) -> Answer | Coroutine[Any, Any, Answer]:
        """The answer, or a coroutine for it: reads that need not wait cost no coroutine."""
        target: RequestTarget | None = None
        try:
            info = request_info(request.method, request.path, request.query)
            request = self._admit(request, info)
            response = self._routes(request)
            if response is not None:
                return response
            target = target_at(info.place, self._engine.registry)
            outcome = act_for(info, request, target)(self._engine, request, target)
            if isinstance(outcome, (Response, WatchStream)):
                return self._served(outcome, target)
            return self._wait(outcome, request, info, target)
        except Unconverted:
            target = target_at(info.place, self._engine.registry)
            return self._wait(self._begin_again(request, info, target), request, info, target)
        except REFUSALS as refusal:
            return refused(refusal, target)

    async def _wait(
        self, answering: Awaitable[Answer], request: ApiRequest, info: RequestInfo, target: RequestTarget
    ) -> Answer:
        try:
            while True:
                try:
                    return self._served(await answering, target)
                except Unconverted as missing:
                    await shown(missing.stored, missing.resource)
                except Outdated:
                    pass
                target = target_at(info.place, self._engine.registry)
                answering = self._begin_again(request, info, target)
        except REFUSALS as refusal:
            return refused(refusal, target)

    async def _begin_again(self, request: ApiRequest, info: RequestInfo, target: RequestTarget) -> Answer:
        outcome = act_for(info, request, target)(self._engine, request, target)
        return outcome if isinstance(outcome, (Response, WatchStream)) else await outcome

    def _served(self, answer: Answer, target: RequestTarget) -> Answer:
        if self._journal is None or not self._journal.refusing:
            self._definitions.sync()
        if isinstance(answer, WatchStream):
            self._register(answer)
            return answer
        return with_deprecation(answer, target)

    # --- watches ---

    def _register(self, watch: WatchStream) -> None:
        watch.on_close(self._forget)
        if not watch.ending:
            self._watches.setdefault(watch.resource.storage_key, {})[watch] = None

    def _forget(self, watch: WatchStream) -> None:
        self._watches.get(watch.resource.storage_key, {}).pop(watch, None)

    def _wake(self, resource: StorageKey) -> None:
        # A copy, since a watch that ends here removes itself.
        for watch in tuple(self._watches.get(resource, ())):
            watch.notify()

    def _make_first_namespaces(self) -> None:
        for name in FIRST_NAMESPACES:
            if self.log.get(NAMESPACES, Key("", name)) is not None:
                continue
            body = b'{"metadata":{"name":"%s"}}' % name.encode()
            headers = {"user-agent": "kube-apiserver"}
            made = self._answer(ApiRequest("POST", "/api/v1/namespaces", headers=headers, body=body))
            if not isinstance(made, (Response, WatchStream)):
                finished(made)
        self._accounts.sync()

    def _make_default_roles(self) -> None:
        for obj in (*default_roles(self._engine.kinds.kinds), *default_bindings()):
            resource = self._engine.registry.by_kind("rbac.authorization.k8s.io", obj["kind"])
            if resource is not None and self._engine.get(resource, "", obj["metadata"]["name"]) is None:
                obj["metadata"]["creationTimestamp"] = self._engine.now()
                self._engine.put(resource, obj)
        self._aggregation.sync()


def _end_watches(
    watches: Mapping[StorageKey, Mapping[WatchStream, None]], replaced: Sequence[ServedResource]
) -> None:
    for resource in replaced:
        for watch in list(watches.get(resource.storage_key, ())):
            if watch.resource is resource:
                watch.finish()


def _drop(answer: Answer) -> None:
    """End an answer that is not sent, if it is a watch."""
    if isinstance(answer, WatchStream):
        answer.close()
