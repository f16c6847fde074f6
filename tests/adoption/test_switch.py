"""A switch from an operator on kopf cuts no handler off, wherever the command is killed."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import anyio
import pytest
from anyio.abc import TaskGroup
from attrs import evolve

from informers import HttpRequest, OutcomeUnknown, Response, Transport
from informers.transport import PassingTransport
from reconcile import ObjectMeta
from reconcile.adoption.adopted_kinds import AdoptedKind
from reconcile.adoption.switch_plan import IDENTITY, Finished, Terms
from reconcile.adoption.switch_run import LIFETIME, RENEWAL, Scope, Switch, SwitchStuck
from reconcile.client.kopf_peerings import PeeringReading, Signature
from reconcile.client.sender import Sender
from reconcile.kinds import Deployment, Namespace
from reconcile.testing import Fault, FaultyTransport, Refuse, When, simulate
from tests.adoption.kopf_model import LOOK, OPERATOR, PARTS, PLACE, Handler, Part, Town
from tests.clients.gadgets import deployment

pytestmark = pytest.mark.rule("takeover-kopf")

SCOPE = Scope([AdoptedKind(PARTS)], deployments=[f"{PLACE}/{OPERATOR}"], peering="default")
HANDLERS = {
    "slow": Handler(seconds=20),
    "retried": Handler(seconds=1, failures=2, delay=8),
    "endless": Handler(failures=10**6),
}
OLD = ("a", "b")


class Killed(PassingTransport):
    """The process ends with the write that follows `writes` others; whether it still `arrives`."""

    def __init__(self, inner: Transport, writes: int, arrives: bool) -> None:
        super().__init__(inner)
        self.left, self.arrives, self.ended = writes, arrives, anyio.Event()

    async def request(self, request: HttpRequest) -> Response:
        if self.ended.is_set():
            raise OutcomeUnknown("killed")
        if request.method == "GET" or self.left > 0:
            self.left -= request.method != "GET"
            return await super().request(request)
        if self.arrives:
            await super().request(request)
        self.ended.set()
        raise OutcomeUnknown("killed")


async def make(town: Town, *names: str) -> None:
    for name in names:
        await town.client.create(Part(metadata=ObjectMeta(name, PLACE)))


async def switched(
    town: Town, timeout: float = 300, scope: Scope = SCOPE, **terms: Any
) -> tuple[Finished, list[str]]:
    lines: list[str] = []
    sender = Sender(town.transport, town.clock)
    done = await Switch(sender, town.clock, scope, Terms(**terms), lines.append).run(timeout)
    return done, lines


async def nothing_was_cut_off(town: Town, *names: str) -> None:
    assert town.operator.cut_off == []
    assert sorted(town.operator.calls) == sorted(names)
    assert await town.half_created() == []
    assert await town.signs() == []
    assert (await town.client.get(Deployment, OPERATOR, PLACE)).spec.replicas == 0


def test_a_switch_waits_for_creations_freezes_stops_and_leaves_nothing_behind() -> None:
    async def run() -> None:
        town = Town(HANDLERS)
        async with town.lives():
            await make(town, *OLD)
            await anyio.sleep(5)
            await make(town, "slow", "retried")
            await anyio.sleep(1)
            done, lines = await switched(town)
            await nothing_was_cut_off(town, *OLD, "slow", "retried")
        assert done.notes == []
        assert lines == [
            "waiting until kopf has finished the creation of default/retried, default/slow",
            "freezing the peers in ClusterKopfPeering default",
            "waiting until handlers that run have ended",
            "scaling Deployment default/operator to 0",
            "waiting until the pods of default/operator have ended: 1 left",
            "lifting the freeze in ClusterKopfPeering default: no operator on kopf is left",
        ]

    simulate(run)


class Meanwhile(PassingTransport):
    """Does something before the first freeze is written, and waits until kopf has noted it."""

    def __init__(self, inner: Transport, act: Callable[[], Awaitable[None]]) -> None:
        super().__init__(inner)
        self.act: Callable[[], Awaitable[None]] | None = act

    async def request(self, request: HttpRequest) -> Response:
        act = self.act
        if act is not None and request.method == "PATCH":
            self.act = None
            await act()
            await anyio.sleep(3 * LOOK)
        return await super().request(request)


@pytest.mark.parametrize("name", ["slow", "retried"])
def test_a_creation_that_begins_in_the_moment_of_the_freeze_is_finished_by_kopf(name: str) -> None:
    async def run() -> None:
        town = Town(HANDLERS)
        async with town.lives():
            await make(town, *OLD)
            await anyio.sleep(5)
            lines: list[str] = []
            transport = Meanwhile(town.transport, partial(make, town, name))
            switch = Switch(Sender(transport, town.clock), town.clock, SCOPE, Terms(drain=30), lines.append)
            await switch.run(300)
            await nothing_was_cut_off(town, *OLD, name)
        lifted = "lifting the freeze in ClusterKopfPeering default: kopf has to finish the creation of "
        # A call that runs ends under the freeze; none that failed is called again.
        assert (f"{lifted}default/{name}" in lines) == (name == "retried")

    simulate(run)


def test_an_object_that_is_made_while_kopf_is_frozen_is_left_to_the_new_operator() -> None:
    async def run() -> None:
        town = Town(HANDLERS)
        async with town.lives():
            await make(town, *OLD)
            await anyio.sleep(5)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(switched, town)
                await anyio.sleep(6)
                await make(town, "late")
            await nothing_was_cut_off(town, *OLD)
            assert "finalizers" not in (await town.parts())["late"]

    simulate(run)


@pytest.mark.parametrize(("arrives", "pause"), [(True, 1.0), (True, LIFETIME + 1.0), (False, LIFETIME + 1.0)])
def test_a_switch_that_was_killed_at_any_write_goes_on_when_it_is_run_again(
    arrives: bool, pause: float
) -> None:
    async def run(writes: int) -> bool:
        town = Town(HANDLERS)
        async with town.lives():
            await make(town, *OLD, "slow")
            await anyio.sleep(3)
            killed = Killed(town.transport, writes, arrives)
            transport = Meanwhile(killed, partial(make, town, "retried"))
            async with anyio.create_task_group() as tasks:
                switch = Switch(Sender(transport, town.clock), town.clock, SCOPE)
                tasks.start_soon(partial(ended_by, tasks, switch))
                tasks.start_soon(partial(cancelled_when, tasks, killed.ended))
            await anyio.sleep(pause)
            await switched(town)
            await nothing_was_cut_off(town, *OLD, "slow", "retried")
        return killed.ended.is_set()

    async def cancelled_when(tasks: TaskGroup, event: anyio.Event) -> None:
        await event.wait()
        tasks.cancel_scope.cancel()

    async def ended_by(tasks: TaskGroup, switch: Switch) -> None:
        await switch.run(300)
        tasks.cancel_scope.cancel()

    writes = 0
    while simulate(run, writes):
        writes += 1
    assert writes >= 6  # freeze, lift, freeze, renew, scale, lift


def test_an_operator_whose_creation_never_ends_goes_on_after_the_time_limit() -> None:
    async def run() -> None:
        town = Town(HANDLERS)
        async with town.lives():
            await make(town, "endless")
            await anyio.sleep(5)
            with pytest.raises(SwitchStuck, match=r"waiting until kopf has .* --unfinished run"):
                await switched(town, 60)
            assert await town.signs() == ["me@host/1"]
            await make(town, "a")
            await anyio.sleep(5)
            assert town.operator.calls == ["a"]

    simulate(run)


def test_creations_are_not_waited_for_where_the_new_operator_runs_them_anyway() -> None:
    async def run() -> None:
        town = Town(HANDLERS)
        async with town.lives():
            await make(town, "endless")
            await anyio.sleep(5)
            await switched(town, 60, unfinished="run")
            assert await town.half_created() == ["endless"]

    simulate(run)


def test_without_a_deployment_it_waits_for_the_person_and_keeps_the_operator_frozen() -> None:
    async def run() -> None:
        town = Town(HANDLERS)
        async with town.lives():
            await make(town, *OLD)
            await anyio.sleep(5)
            done: list[Finished] = []

            async def switch() -> None:
                done.append((await switched(town, 600, evolve(SCOPE, deployments=())))[0])

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(switch)
                await anyio.sleep(3 * LIFETIME)
                assert town.operator.paused
                assert IDENTITY in await town.signs()
                assert not done
                deployment = await town.client.get(Deployment, OPERATOR, PLACE)
                await town.client.raw.merge(deployment, {"spec": {"replicas": 0}})
            await nothing_was_cut_off(town, *OLD)
            (note,) = done[0].notes
            assert note.startswith("no Deployment was named")

    simulate(run)


def test_a_switch_that_is_interrupted_lets_the_operator_go_on_at_once() -> None:
    async def run() -> None:
        town = Town(HANDLERS)
        async with town.lives():
            await make(town, *OLD)
            await anyio.sleep(5)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(switched, town, 600, evolve(SCOPE, deployments=()))
                await anyio.sleep(10)
                assert town.operator.paused
                tasks.cancel_scope.cancel()
            await make(town, "later")
            await anyio.sleep(2)
            assert "later" in town.operator.calls

    simulate(run)


def test_a_freeze_that_a_killed_process_left_is_kept_alive_by_the_next_one() -> None:
    async def run() -> None:
        town = Town(HANDLERS)
        async with town.lives():
            await anyio.sleep(5)
            (peering,) = await PeeringReading(Sender(town.transport, town.clock), "default").peerings()
            signature = Signature(Sender(town.transport, town.clock), town.clock, IDENTITY, LIFETIME)
            await signature.sign(peering)
            await anyio.sleep(LIFETIME - 5)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(switched, town, 600, evolve(SCOPE, deployments=()))
                for _ in range(2 * LIFETIME):
                    await anyio.sleep(1)
                    assert town.operator.paused
                tasks.cancel_scope.cancel()

    simulate(run)


def test_a_renewal_that_fails_is_told_of_and_repeated() -> None:
    async def run() -> None:
        town = Town(HANDLERS)
        async with town.lives():
            await anyio.sleep(5)
            lines: list[str] = []
            transport = FaultyTransport(town.transport)
            refused = When("patch", "*/clusterkopfpeerings/default", nth=2, times=2)
            transport.add(Fault(refused, Refuse(500, "InternalError", "no")))
            scope = evolve(SCOPE, deployments=())
            switch = Switch(Sender(transport, town.clock), town.clock, scope, tell=lines.append)
            with anyio.move_on_after(4 * RENEWAL):
                await switch.run(600)
            said = [line for line in lines if "was not renewed" in line]
            assert len(said) == 2
            assert said[0].startswith("the freeze of ClusterKopfPeering default was not renewed: ")
            assert town.operator.paused

    simulate(run)


def test_an_operator_without_a_peering_object_is_stopped_when_no_creation_is_under_way() -> None:
    async def run() -> None:
        town = Town(HANDLERS, peering=False)
        async with town.lives():
            await make(town, *OLD, "slow", "retried")
            await anyio.sleep(5)
            await switched(town)
            await nothing_was_cut_off(town, *OLD, "slow", "retried")

    simulate(run)


def test_a_creation_that_is_cut_off_all_the_same_is_told_of() -> None:
    async def run() -> None:
        town = Town(HANDLERS, peering=False)
        async with town.lives():
            await make(town, *OLD)
            await anyio.sleep(5)
            transport = Meanwhile(town.transport, partial(make, town, "slow"))
            switch = Switch(Sender(transport, town.clock), town.clock, SCOPE)
            with pytest.raises(SwitchStuck) as stuck:
                await switch.run(300)
            assert town.operator.cut_off == ["slow"]
        assert stuck.value.problem == "half-way through its creation: default/slow"
        assert "--finished NAMESPACE/NAME" in stuck.value.hint

    simulate(run)


class Failing(PassingTransport):
    """Lists of objects fail once, or as often as `times`."""

    def __init__(self, inner: Transport, times: int) -> None:
        super().__init__(inner)
        self.times = times

    async def request(self, request: HttpRequest) -> Response:
        if request.path == PARTS.path() and self.times:
            self.times -= 1
            return Response(500, {}, b'{"kind":"Status","reason":"InternalError","code":500}')
        return await super().request(request)


def test_a_list_that_fails_once_does_not_end_a_switch() -> None:
    async def run() -> None:
        town = Town(HANDLERS)
        async with town.lives():
            await make(town, *OLD)
            await anyio.sleep(5)
            await Switch(Sender(Failing(town.transport, 1), town.clock), town.clock, SCOPE).run(300)
            await nothing_was_cut_off(town, *OLD)

    simulate(run)


def test_a_list_that_fails_again_ends_it_and_nothing_was_written() -> None:
    async def run() -> None:
        town = Town(HANDLERS)
        async with town.lives():
            switch = Switch(Sender(Failing(town.transport, 10**6), town.clock), town.clock, SCOPE)
            with pytest.raises(SwitchStuck, match=r"parts\.switch\.example\.com cannot be read"):
                await switch.run(300)
            assert (await town.client.get(Deployment, OPERATOR, PLACE)).spec.replicas == 1
            assert IDENTITY not in await town.signs()

    simulate(run)


def test_a_second_switch_has_nothing_to_do() -> None:
    async def run() -> None:
        town = Town(HANDLERS)
        async with town.lives():
            await make(town, *OLD)
            await anyio.sleep(5)
            await switched(town)
            assert (await switched(town))[1] == []

    simulate(run)


@pytest.mark.parametrize(
    ("names", "problem"),
    [
        (["other/operator"], "there is no Deployment other/operator"),
        (["operator"], "default/operator, elsewhere/operator have the same name"),
    ],
)
def test_a_deployment_that_is_not_clear_is_not_stopped(names: Sequence[str], problem: str) -> None:
    async def run() -> None:
        town = Town()
        async with town.lives():
            await town.client.create(Namespace(metadata=ObjectMeta("elsewhere")))
            other = deployment(OPERATOR, "operator:1")
            other["metadata"]["namespace"] = "elsewhere"
            await town.client.create(other)
            with pytest.raises(SwitchStuck) as stuck:
                await switched(town, 60, evolve(SCOPE, deployments=names))
            assert stuck.value.problem == problem
            assert (await town.client.get(Deployment, OPERATOR, PLACE)).spec.replicas == 1

    simulate(run)
