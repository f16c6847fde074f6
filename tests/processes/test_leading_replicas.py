"""Replicas that are killed, frozen, cut off and stopped, on one server over HTTPS, with default timings.

Each scenario has a Lease, a namespace and three replicas of its own, and all are played at once, because
each has to wait until a lease runs out. What is asserted is what the server wrote down.
"""

import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import AsyncExitStack
from multiprocessing.process import BaseProcess

import anyio
import pytest
from attrs import define, field

from reconcile.manager.leadership import LeaseTerms
from tests.processes import replica
from tests.processes.harness import Group, Machine, machine, prepare, send, through, until
from tests.processes.tcp_proxy import TcpProxy, proxying

TERMS = LeaseTerms()
TAKEN_OVER = TERMS.duration + 2 * TERMS.retry
"""Seconds after which another leads, at the latest."""
REQUEST = max(1.0, TERMS.renew_deadline / 2)
"""Seconds that a request of an election may take."""
PER_SECOND = 40
"""Requests that one replica may send in any second; it writes fifteen times when all is well."""


@define
class LeaderChange:
    """How one leader followed another; times are the machine's monotonic clock."""

    group: Group
    old: str = ""
    at: float = 0.0
    heir: str = ""
    acquired: float = 0.0
    exit_status: int | None = None
    latest: dict[str, int] = field(factory=dict)

    async def begin(self) -> BaseProcess:
        """Wait until one leads; the process of that leader."""
        self.old, self.at = await self.group.until_warm(), time.monotonic()
        return self.group.members[self.old]

    async def watch(self, seconds: float) -> None:
        self.heir, self.acquired = await self.group.until_another_leads(seconds)

    @property
    def late_work(self) -> list[float]:
        """Seconds after the heir's acquisition at which the old leader still changed something."""
        return [at - self.acquired for at in self.group.work_of(self.old) if at > self.acquired]


@define
class Played:
    killed: LeaderChange
    stopped: LeaderChange
    frozen: LeaderChange
    cut: LeaderChange
    restarted: LeaderChange


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    with machine(tmp_path_factory.mktemp("replicas")) as made:
        yield anyio.run(play, made)


async def play(on: Machine) -> Played:
    folder = on.folder / "https"
    killed, frozen, cut = (Group(name, folder) for name in ("killed", "frozen", "cut"))
    users = [user for group in (killed, frozen, cut) for user in group.users]
    _, port = await on.serve(folder, users)
    restarted = LeaderChange(Group("restarted", on.folder / "http", ["one"]))
    outcome = Played(
        LeaderChange(killed), LeaderChange(killed), LeaderChange(frozen), LeaderChange(cut), restarted
    )
    async with AsyncExitStack() as stack:
        proxies = {user: await stack.enter_async_context(proxying(port)) for user in cut.users}
        for group in (killed, frozen, cut):
            await prepare(folder, group.name, "a", "b", "c")
            kubeconfigs = {user: through(folder, user, proxies[user].port) for user in cut.users}
            group.start(on, kubeconfigs if group is cut else None)
        async with anyio.create_task_group() as scenarios:
            scenarios.start_soon(kill_then_stop, outcome.killed, outcome.stopped)
            scenarios.start_soon(freeze, outcome.frozen)
            scenarios.start_soon(cut_off, outcome.cut, proxies)
            scenarios.start_soon(restart, restarted, on)
    return outcome


async def kill_then_stop(killed: LeaderChange, stopped: LeaderChange) -> None:
    send(await killed.begin(), signal.SIGKILL)
    await killed.watch(TAKEN_OVER + 10)
    await anyio.sleep(TERMS.retry)  # the third sees the new leader's Lease
    stopped.old, stopped.at = killed.heir, time.monotonic()
    send(stopped.group.members[stopped.old], signal.SIGTERM)
    await stopped.watch(10)
    stopped.exit_status = await stopped.group.until_gone(stopped.old)


async def freeze(change: LeaderChange) -> None:
    process = await change.begin()
    send(process, signal.SIGSTOP)
    await change.watch(TAKEN_OVER + 10)
    send(process, signal.SIGCONT)
    change.exit_status = await change.group.until_gone(change.old)


async def cut_off(change: LeaderChange, proxies: dict[str, TcpProxy]) -> None:
    await change.begin()
    proxies[change.old].cut = True
    await change.watch(TAKEN_OVER + 10)
    proxies[change.old].cut = False
    change.exit_status = await change.group.until_gone(change.old)


async def restart(change: LeaderChange, on: Machine) -> None:
    """A server that goes and comes back, at first with its data and then without."""
    group = change.group
    process, port = await on.serve(group.folder, group.users, tls=False)
    await prepare(group.folder, group.name, "a", "b", "c")
    group.start(on)
    await change.begin()
    send(process, signal.SIGUSR1)
    await until(lambda: worked_on(group, "a", time.monotonic() - 0.5, after=change.at + 2))
    send(process, signal.SIGKILL)
    process.join()
    change.acquired = time.monotonic()
    await on.serve(group.folder, group.users, tls=False, port=port)
    await prepare(group.folder, group.name, "d")
    await until(lambda: worked_on(group, "d", time.monotonic() - 0.5))
    send(group.members[change.old], signal.SIGTERM)
    change.exit_status = await group.until_gone(change.old)
    change.latest = dict(Counter(int(asked.at) for asked in group.asked))


def worked_on(group: Group, name: str, since: float, after: float = 0.0) -> bool:
    """Whether an object was changed of late, and after that time."""
    found = [a.at for a in group.asked if a.committed and a.path.endswith(f"/configmaps/{name}")]
    return bool(found) and found[-1] > max(since, after)


@pytest.mark.rule("L1")
@pytest.mark.parametrize("scenario", ["killed", "frozen", "cut"])
def test_another_replica_leads_within_duration_and_two_retries_of_the_leaders_end(
    played: Played, scenario: str
) -> None:
    change: LeaderChange = getattr(played, scenario)
    assert change.heir != change.old
    assert change.acquired - change.at <= TAKEN_OVER


@pytest.mark.rule("L6")
@pytest.mark.parametrize("scenario", ["killed", "frozen", "cut", "stopped"])
def test_nothing_of_the_old_leader_is_committed_once_another_leads(played: Played, scenario: str) -> None:
    change: LeaderChange = getattr(played, scenario)
    assert len(change.group.work_of(change.old)) > 3
    assert [late for late in change.late_work if late > REQUEST] == []
    on_its_way = (
        1 if scenario == "frozen" else 0
    )  # a process may be frozen between its last look and its send
    assert len(change.late_work) <= on_its_way


@pytest.mark.rule("L9")
@pytest.mark.parametrize("scenario", ["frozen", "cut"])
def test_a_process_that_lost_its_lease_exits_with_a_distinct_status(played: Played, scenario: str) -> None:
    change: LeaderChange = getattr(played, scenario)
    assert change.exit_status == replica.LOST


@pytest.mark.rule("L7")
def test_a_clean_stop_hands_over_in_less_than_two_seconds(played: Played) -> None:
    change = played.stopped
    assert change.exit_status == 0
    assert change.acquired - change.at < 2


def test_a_replica_survives_restarts_of_its_server_without_flooding_it(played: Played) -> None:
    change = played.restarted
    assert change.exit_status == 0
    assert max(change.latest.values()) <= PER_SECOND
