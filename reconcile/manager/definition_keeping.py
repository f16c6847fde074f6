"""Keeps the definitions of a manager's kinds at the versions of its classes (`definitions="apply"`).

Every replica has the server serve what its classes need, before the first lists; the rest is the leader's.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import anyio
from anyio.abc import TaskGroup
from attrs import define, field

from informers import Transport
from reconcile.client.client import Client
from reconcile.controller.declaration import Controller
from reconcile.controller.event_recorder import Recorder
from reconcile.controller.run_output import PendingEvent
from reconcile.manager.option_list import ManagerOptions
from reconcile.models import Object, decode, kind_of
from reconcile.models.versions import families
from reconcile.webhooks.calling_objects import Definition
from reconcile.webhooks.configurations import WebhookService, conversion_of
from reconcile.webhooks.definition_rollout import DefinitionRollout, Report, Reporting
from reconcile.webhooks.routes import conversion_route
from reconcile.webhooks.wanted_definitions import WantedDefinition, wanted_definition

if TYPE_CHECKING:
    from reconcile.ops.metrics import Metrics


@define
class EventsAndMetrics(Reporting):
    """Makes Events of the definition, and metrics, of what a rollout reports."""

    recorder: Recorder
    metrics: "Metrics | None" = None

    def report(self, report: Report) -> None:
        metadata = {"name": report.definition, "uid": report.uid}
        event = PendingEvent(report.type, report.reason, report.note, "Migrate")
        self.recorder.record(decode(Definition, {"metadata": metadata, **_HEAD}), event)

    def rewrote(self, definition: str, done: int, failed: int) -> None:
        if self.metrics is not None:
            self.metrics.objects_rewritten(definition, done, failed)

    def finished(self, definition: str, finished: bool) -> None:
        if self.metrics is not None:
            self.metrics.definition_finished(definition, finished)


_HEAD: Mapping[str, str] = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}


@define(eq=False)
class DefinitionKeeper:
    """Keeps the definitions in one cluster. `first` leads there before there is a leader, `client` after."""

    wanted: list[WantedDefinition]
    first: Transport
    client: Client
    component: str
    metrics: "Metrics | None" = None
    recorder: Recorder = field(init=False)
    _rollouts: TaskGroup | None = field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        writer = Client(self.client.transport, field_manager=self.component, clock=self.client.clock)
        self.recorder = Recorder(writer, self.component)

    async def serve(self) -> None:
        """Have all versions of the classes served. Raises DefinitionRefused, and ApiError."""
        for wanted in self.wanted:
            await self._rollout(wanted, self.first).serve()

    async def serve_kinds_of(self, controller: Controller[Any]) -> None:
        """The same for a controller that is about to be added. Raises TypeError too.

        Webhooks are not served for it before the next start, so those of installed definitions stay.
        """
        for wanted in self._new(controller):
            await self._rollout(wanted, self.first).serve()

    def admit(self, controller: Controller[Any]) -> None:
        """Take the steps for the kind of a further controller too. Raises TypeError."""
        for wanted in self._new(controller):
            self.wanted.append(wanted)
            if self._rollouts is not None:
                self._rollouts.start_soon(self._rollout(wanted, self.client.transport).run)

    def _new(self, controller: Controller[Any]) -> Sequence[WantedDefinition]:
        known = {wanted.name for wanted in self.wanted}
        return [wanted for wanted in wanted_definitions([controller]) if wanted.name not in known]

    async def run(self) -> None:
        """Take the other steps, for as long as this manager leads."""
        async with anyio.create_task_group() as group:
            with self.recorder.writing_in(group):
                self._rollouts = group
                try:
                    for wanted in self.wanted:
                        group.start_soon(self._rollout(wanted, self.client.transport).run)
                    await anyio.sleep_forever()
                finally:
                    self._rollouts = None

    def _rollout(self, wanted: WantedDefinition, transport: Transport) -> DefinitionRollout:
        reporting = EventsAndMetrics(self.recorder, self.metrics)
        return DefinitionRollout(wanted, transport, self.client.clock, reporting=reporting)


def definition_keeper_of(
    options: ManagerOptions,
    first: Transport,
    client: Client,
    controllers: Iterable[Controller[Any]],
    service: str,
    metrics: "Metrics | None" = None,
) -> DefinitionKeeper:
    """The keeper of a cluster with those controllers."""
    return DefinitionKeeper(wanted_definitions(controllers, service), first, client, options["name"], metrics)


def wanted_definitions(controllers: Iterable[Controller[Any]], service: str = "") -> list[WantedDefinition]:
    """What the kinds of these controllers need. Raises TypeError for a class without a definition.

    Kinds that another project defines (`as_installed`) are left alone. `service` is that of the webhooks,
    NAMESPACE/NAME; without it, the webhooks of installed definitions stay as they are.
    """
    kinds = [controller.kind for controller in controllers]
    return [
        wanted_definition(versions, _webhook(versions, service))
        for versions in families(kinds)
        if not any(kind_of(version).as_installed for version in versions)
    ]


def _webhook(versions: Sequence[type[Object]], service: str) -> Mapping[str, Any] | None:
    route = conversion_route(versions) if service else None
    if route is None:
        return None
    webhook: Mapping[str, Any] = conversion_of(route, WebhookService.of(service))["webhook"]
    return webhook
