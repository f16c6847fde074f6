"""An operator under the rights of its manifests, all of them or all but some, in virtual time."""

import copy
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, TypeAlias

import anyio
from attrs import frozen

from reconcile import Client, Controller, Manager
from reconcile.embedded import InProcessTransport, User
from reconcile.manager.option_list import from_flags
from reconcile.testing import FakeClient, Fault, FaultPlan, LoseReply, When, eventually, simulate

Document: TypeAlias = Mapping[str, Any]
Story: TypeAlias = Callable[[Client, Manager], Awaitable[None]]
"""What somebody does, as the administrator, while that manager runs; it starts and stops it."""


@frozen
class Right:
    """One verb of one rule of a role."""

    role: str
    rule: int
    verb: str
    said: str


def rights_of(documents: Sequence[Document]) -> Sequence[Right]:
    return [
        Right(role["metadata"]["name"], number, verb, f"{verb} {'/'.join(rule['resources'])}")
        for role in documents
        for number, rule in enumerate(role.get("rules", ()))
        for verb in rule["verbs"]
    ]


def without(documents: Sequence[Document], missing: Collection[Right]) -> Sequence[Document]:
    left = copy.deepcopy(list(documents))
    for document in left:
        for right in missing:
            if "rules" in document and document["metadata"]["name"] == right.role:
                document["rules"][right.rule]["verbs"].remove(right.verb)
        if "rules" in document:
            document["rules"][:] = [rule for rule in document["rules"] if rule["verbs"]]
    return left


@frozen
class Deployed:
    """An operator whose manifests are `documents`; twice the answer to a write of `lost` is lost."""

    documents: Sequence[Document]
    account: User
    controllers: Sequence[Controller[Any]]
    story: Story
    lost: Sequence[str] = ()

    def refused(self, missing: Collection[Right] = ()) -> set[str]:
        """Play the story under its rights, save `missing`: what the server refused."""
        plan = FaultPlan(tuple(Fault(When("patch", path), LoseReply()) for path in self.lost))
        client = FakeClient(*without(self.documents, missing), plan=plan, user=self.account)
        simulate(self._until_refused, client)
        return refusals(client)

    async def _until_refused(self, client: FakeClient) -> None:
        """The end, the first refusal, or NotYet where it gets stuck."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._play, client, group.cancel_scope)
            await eventually(lambda: group.cancel_scope.cancel_called or bool(refusals(client)), within=300)
            group.cancel_scope.cancel()

    async def _play(self, client: FakeClient, scope: anyio.CancelScope) -> None:
        admin = Client(InProcessTransport(client.server, settle=True), clock=client.clock)
        await self.story(admin, self._manager(client))
        scope.cancel()

    def _manager(self, client: FakeClient) -> Manager:
        """As a pod of the Deployment runs it; it serves nothing, since its time is virtual."""
        (deployment,) = [one for one in self.documents if one["kind"] == "Deployment"]
        arguments = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
        flags = dict(one.removeprefix("--").split("=", 1) for one in arguments if "=" in one)
        taken = {
            name.replace("-", "_"): flags[name]
            for name in ("namespaces", "leader-election", "sharding")
            if name in flags
        }
        manager = Manager(*self.controllers, environ={}, clock=client.clock, sync_seconds=20)
        manager = manager.on(client.transport)
        manager.configure(from_flags(taken))
        return manager


def refusals(client: FakeClient) -> set[str]:
    return {str(request) for request in client.transport.requests if request.server_status == 403}
