"""Planned faults of an operator, each with the alerts that it must fire, and those that may follow."""

from collections.abc import Awaitable, Callable, Collection
from typing import Any, Final, TypeAlias

import anyio
from attrs import field, frozen

from reconcile import Context, Controller, LeaderElection, Result
from reconcile.errors import TerminalError
from reconcile.kinds import ConfigMap
from reconcile.sharding import Sharding
from reconcile.sharding.ring import assignment_name
from reconcile.testing import Cut, Drop, Refuse, RefuseAsStale, SlowReply, Stall, When
from reconcile.testing.virtual_time import VirtualTimeLoop
from tests.controller.outage import child
from tests.helpers.managers import Toy
from tests.monitoring.promtool import Expected
from tests.monitoring.simulated_operator import Operator, garbled

Play: TypeAlias = Callable[[Operator], Awaitable[None]]

MINUTE: Final = 60.0
NAMES: Final = ("a", "b", "c", "d", "e")
ALWAYS: Final = When(times=None)
WRITES: Final = When("write", "*/toys*", times=None)
WATCHES: Final = When("watch", "*/toys*", times=None)

LATE: Final = ("ReconcileSlowReaction", "ReconcileReactionBudget")
NOT_READY: Final = ("ReconcileSlowConvergence", "ReconcileConvergenceBudget", "ReconcileNothingConverges")


@frozen
class Planned:
    """A fault: what happens, and what must be said about it."""

    name: str
    play: Play
    expected: Expected
    quick: bool = False
    """Whether the suite plays it; `make alerts` plays all."""


PLANNED: list[Planned] = []

QUICK: Final = {
    *("the_only_replica_dies", "two_replicas_have_leases_in_two_namespaces", "the_api_server_is_away"),
    *("an_object_comes_that_cannot_be_read", "one_object_fails_for_good", "the_code_has_an_error"),
    *("a_run_hangs", "a_run_does_not_let_itself_be_cancelled", "a_controller_wakes_itself"),
    *("runs_compute_for_seconds", "each_run_writes_something", "the_functions_of_a_webhook_fail"),
    *("the_certificate_of_the_webhooks_is_not_renewed", "the_files_of_the_certificate_are_broken"),
    *("an_object_cannot_be_rewritten", "one_object_fails_run_after_run"),
}


def fires(
    *alerts: str, may: Collection[str] = (), lasting: Collection[str] = (), **labels: str
) -> Callable[[Play], Play]:
    """The alerts that a fault must fire, with these labels; the end of those in `lasting` is not awaited."""

    def add(play: Play) -> Play:
        expected = Expected(dict.fromkeys((*alerts, *lasting), labels), may, lasting)
        PLANNED.append(Planned(play.__name__, play, expected, play.__name__ in QUICK))
        return play

    return add


async def tidy(ctx: Context[Toy]) -> None:
    """What a sound reconciler does: a child, a status, a condition."""
    await ctx.apply(child(ctx, str(ctx.object.spec.size)))
    ready(ctx)


def ready(ctx: Context[Toy], is_ready: bool = True) -> None:
    ctx.status(size=ctx.object.spec.size)
    ctx.condition("Ready", is_ready, reason="Sized", message="")


def toys(reconcile: Any = tidy, **options: Any) -> Controller[Toy]:
    return Controller(Toy, reconcile, owns=[ConfigMap], **options)


async def begin(op: Operator, *controllers: Controller[Any], every: float = 10.0, **options: Any) -> None:
    """A sound operator with users, for five minutes."""
    await op.start(*(controllers or [toys()]), **options)
    await op.make_all(NAMES)
    op.users(NAMES, every)
    await anyio.sleep(5 * MINUTE)


@frozen
class Trouble:
    """A reconciler that is sound, until `bad` takes its place."""

    bad: Any
    is_on: list[bool] = field(factory=lambda: [False])

    async def __call__(self, ctx: Context[Toy]) -> Result | None:
        function = self.bad if self.is_on[0] else tidy
        result: Result | None = await function(ctx)
        return result

    async def last(self, seconds: float, after: float) -> None:
        self.is_on[0] = True
        await anyio.sleep(seconds)
        self.is_on[0] = False
        await anyio.sleep(after)


async def broken_down(op: Operator, seconds: float, after: float, *faults: Any) -> None:
    """Faults of requests for a time, and what comes after."""
    op.break_down(*faults)
    await anyio.sleep(seconds)
    op.heal()
    await anyio.sleep(after)


# --- replicas -----------------------------------------------------------------------------------------


@fires("ReconcileAbsent")
async def the_only_replica_dies(op: Operator) -> None:
    await begin(op)
    await op.kill()
    await anyio.sleep(15 * MINUTE)
    await op.start(toys())
    await anyio.sleep(5 * MINUTE)


@fires("ReconcileNoLeader", may=["ReconcileRequestErrors"], name="toys")
async def the_lease_cannot_be_written(op: Operator) -> None:
    op.break_down((When("write", "*/leases*", times=None), Refuse(500)))
    await op.start(toys(), leader_election=LeaderElection("toys"))
    await op.make_all(NAMES)
    await anyio.sleep(10 * MINUTE)
    op.heal()
    await anyio.sleep(25 * MINUTE)


@fires("ReconcileSeveralLeaders", name="toys")
async def two_replicas_have_leases_in_two_namespaces(op: Operator) -> None:
    await begin(op, leader_election=LeaderElection("toys", "default"))
    await op.start(toys(), instance="pod-2", leader_election=LeaderElection("toys", "kube-system"))
    await anyio.sleep(5 * MINUTE)
    await op.stop("pod-2")
    await anyio.sleep(5 * MINUTE)


@fires("ReconcileShardsUnowned", may=["ReconcileRequestErrors"])
async def a_replica_dies_and_its_buckets_cannot_be_given_away(op: Operator) -> None:
    ring = Sharding("toys", buckets=16)
    await op.start(toys(), sharding=ring)
    await op.start(toys(), instance="pod-2", sharding=ring)
    await op.make_all(NAMES)
    await anyio.sleep(5 * MINUTE)
    op.break_down((When("write", f"*/leases/{assignment_name('toys')}", times=None), Refuse(500)))
    await op.kill("pod-2")
    await anyio.sleep(10 * MINUTE)
    op.heal()
    await anyio.sleep(25 * MINUTE)


# --- the API server -----------------------------------------------------------------------------------


@fires("ReconcileApiServerUnreachable")
async def the_api_server_is_away(op: Operator) -> None:
    await begin(op)
    await broken_down(op, 8 * MINUTE, 15 * MINUTE, (ALWAYS, Drop()))


@fires("ReconcileRequestErrors", "ReconcileErrors", may=[*NOT_READY, "ReconcileConvergenceBudget"])
async def the_api_server_answers_writes_with_500(op: Operator) -> None:
    await begin(op)
    await broken_down(op, 20 * MINUTE, 40 * MINUTE, (When("write", times=None), Refuse(500)))


@fires("ReconcileConflicts", may=[*NOT_READY, "ReconcileConvergenceBudget"])
async def each_write_of_a_status_meets_a_conflict(op: Operator) -> None:
    await begin(op)
    every_other = [(When("write", "*/toys/*/status", nth, 1), RefuseAsStale()) for nth in range(1, 300, 2)]
    await broken_down(op, 25 * MINUTE, 15 * MINUTE, *every_other)


@fires("ReconcileThrottled", may=["ReconcileErrors", *NOT_READY, "ReconcileConvergenceBudget"])
async def the_api_server_throttles(op: Operator) -> None:
    await begin(op)
    await broken_down(op, 20 * MINUTE, 40 * MINUTE, (WRITES, Refuse(429, retry_after=1)))


@fires("ReconcileForbidden", may=["ReconcileErrors", *NOT_READY, "ReconcileConvergenceBudget"])
async def a_right_is_taken_away(op: Operator) -> None:
    await begin(op)
    await broken_down(op, 20 * MINUTE, 40 * MINUTE, (WRITES, Refuse(403, "Forbidden")))


@fires("ReconcileSlowRequests", may=[*LATE, "ReconcileReactionBudget"])
async def the_api_server_is_slow(op: Operator) -> None:
    await begin(op)
    await broken_down(op, 25 * MINUTE, 20 * MINUTE, (When(times=None), SlowReply(5)))


# --- the cache ----------------------------------------------------------------------------------------


@fires("ReconcileInformerSilent", may=NOT_READY[:2], lasting=["ReconcileFreshnessBudget"])
async def watches_open_and_send_nothing(op: Operator) -> None:
    await begin(op)
    await broken_down(op, 20 * MINUTE, 45 * MINUTE, (WATCHES, Stall()))


@fires(
    "ReconcileInformerFailing",
    may=[*LATE, "ReconcileInformerSilent", "ReconcileFreshnessBudget"],
    resource="toys.toys.example.com",
)
async def watches_are_cut_again_and_again(op: Operator) -> None:
    await begin(op)
    await broken_down(op, 20 * MINUTE, 20 * MINUTE, (WATCHES, Cut()))


@fires("ReconcileInformerNotSynced", may=["ReconcileForbidden", "ReconcileInformerFailing"])
async def a_kind_may_not_be_listed(op: Operator) -> None:
    configmaps = (When(verb, "*/configmaps*", times=None) for verb in ("list", "watch"))
    op.break_down(*((when, Refuse(403, "Forbidden")) for when in configmaps))
    await op.start(toys(), sync_seconds=3600)
    await anyio.sleep(20 * MINUTE)
    op.heal()
    await anyio.sleep(20 * MINUTE)


@fires("ReconcileObjectsSkipped", resource="toys.toys.example.com")
async def an_object_comes_that_cannot_be_read(op: Operator) -> None:
    await begin(op)
    op.line.lead_to(garbled(op.line._inner))
    await anyio.sleep(2 * MINUTE)
    op.heal()
    await anyio.sleep(20 * MINUTE)


@fires(
    "ReconcileOwnWritesLate",
    may=[
        "ReconcileInformerSilent",
        "ReconcileInformerFailing",
        "ReconcileErrors",
        "ReconcileRequestErrors",
        *NOT_READY,
        "ReconcileFreshnessBudget",
        "ReconcileConvergenceBudget",
    ],
)
async def the_cache_does_not_show_what_is_written(op: Operator) -> None:
    runs = 0

    async def restless(ctx: Context[Toy]) -> None:
        nonlocal runs
        runs += 1
        ready(ctx)
        ctx.status(note=f"run {runs}")

    trouble = Trouble(restless)
    await begin(op, toys(trouble, every=30))
    trouble.is_on[0] = True
    lists = (When("list", "*/toys*", times=None), Refuse(500))
    await broken_down(op, 15 * MINUTE, 1, (WATCHES, Stall()), lists)
    trouble.is_on[0] = False
    await anyio.sleep(40 * MINUTE)


# --- what users are owed ------------------------------------------------------------------------------


@fires("ReconcileSlowReaction", lasting=["ReconcileReactionBudget"], controller="toy")
async def one_worker_has_too_much_to_do(op: Operator) -> None:
    async def slow(ctx: Context[Toy]) -> None:
        await anyio.sleep(4)
        ready(ctx)

    trouble = Trouble(slow)
    await op.start(toys(trouble, workers=1))
    await op.make_all(NAMES)
    for name in NAMES:
        op.users([name], 25)
    await anyio.sleep(5 * MINUTE)
    await trouble.last(20 * MINUTE, 35 * MINUTE)


@fires("ReconcileSlowConvergence", lasting=["ReconcileConvergenceBudget"], controller="toy")
async def what_is_made_needs_long_to_be_ready(op: Operator) -> None:
    seen: dict[tuple[str, int], float] = {}

    async def later(ctx: Context[Toy]) -> Result | None:
        since = seen.setdefault((ctx.object.name, ctx.object.spec.size), anyio.current_time())
        is_ready = anyio.current_time() - since > 400
        ready(ctx, is_ready)
        return None if is_ready else Result(requeue_after=20)

    trouble, many = Trouble(later), [f"toy-{number}" for number in range(20)]
    await op.start(toys(trouble))
    await op.make_all(many)
    op.users(many, 25)
    await anyio.sleep(5 * MINUTE)
    await trouble.last(30 * MINUTE, 40 * MINUTE)


@fires("ReconcileNothingConverges", may=[*NOT_READY, "ReconcileConvergenceBudget"], controller="toy")
async def nothing_becomes_ready(op: Operator) -> None:
    async def never(ctx: Context[Toy]) -> Result:
        ready(ctx, False)
        return Result(requeue_after=20)

    trouble = Trouble(never)
    await begin(op, toys(trouble))
    await trouble.last(25 * MINUTE, 40 * MINUTE)


@fires("ReconcileStuck", controller="toy")
async def one_object_never_becomes_ready(op: Operator) -> None:
    async def not_a(ctx: Context[Toy]) -> Result | None:
        ready(ctx, ctx.object.name != "a")
        return Result(requeue_after=60) if ctx.object.name == "a" else None

    trouble = Trouble(not_a)
    await begin(op, toys(trouble), every=60)
    await trouble.last(75 * MINUTE, 10 * MINUTE)


@fires(lasting=["ReconcileNotQuiet"], controller="toy")
async def each_run_writes_something(op: Operator) -> None:
    runs = 0

    async def restless(ctx: Context[Toy]) -> None:
        nonlocal runs
        runs += 1
        ready(ctx)
        ctx.status(note=f"run {runs}")

    await op.start(toys(restless, resync=120))
    await op.make_all(NAMES)
    await anyio.sleep(60 * MINUTE)


# --- runs ---------------------------------------------------------------------------------------------


@fires("ReconcileErrors", controller="toy")
async def runs_fail_now_and_then(op: Operator) -> None:
    runs = 0

    async def unsure(ctx: Context[Toy]) -> None:
        nonlocal runs
        runs += 1
        if runs % 2:
            raise ConnectionError("the cloud is busy")
        ready(ctx)

    trouble = Trouble(unsure)
    await begin(op, toys(trouble), every=5)
    await trouble.last(25 * MINUTE, 15 * MINUTE)


@fires("ReconcileKeysFailing", may=["ReconcileErrors"], controller="toy")
async def one_object_fails_run_after_run(op: Operator) -> None:
    async def poisoned(ctx: Context[Toy]) -> None:
        if ctx.object.name == "a":
            raise ConnectionError("this one cannot be made")
        ready(ctx)

    trouble = Trouble(poisoned)
    await begin(op, toys(trouble), every=30)
    await trouble.last(45 * MINUTE, 15 * MINUTE)


@fires("ReconcileTerminalErrors", controller="toy")
async def one_object_fails_for_good(op: Operator) -> None:
    async def refuse(ctx: Context[Toy]) -> None:
        if ctx.object.name == "a":
            raise TerminalError("its size is not known here")
        ready(ctx)

    trouble = Trouble(refuse)
    await begin(op, toys(trouble))
    await trouble.last(2 * MINUTE, 20 * MINUTE)


@fires("ReconcilePanics", controller="toy")
async def the_code_has_an_error(op: Operator) -> None:
    async def wrong(ctx: Context[Toy]) -> None:
        {}[ctx.object.name]

    trouble = Trouble(wrong)
    await begin(op, toys(trouble))
    await trouble.last(1 * MINUTE, 20 * MINUTE)


@fires("ReconcileTimeouts", may=[*LATE, "ReconcileErrors"], controller="toy")
async def a_run_hangs(op: Operator) -> None:
    async def hang(ctx: Context[Toy]) -> None:
        if ctx.object.name == "a":
            await anyio.sleep_forever()
        ready(ctx)

    trouble = Trouble(hang)
    await begin(op, toys(trouble, timeout=60), every=60)
    await trouble.last(3 * MINUTE, 25 * MINUTE)


@fires("ReconcileLongRun", may=["ReconcileTimeouts"], controller="toy")
async def a_run_does_not_let_itself_be_cancelled(op: Operator) -> None:
    async def stubborn(ctx: Context[Toy]) -> None:
        if ctx.object.name == "a" and trouble.is_on[0]:
            trouble.is_on[0] = False
            with anyio.CancelScope(shield=True):
                await anyio.sleep(30 * MINUTE)
        ready(ctx)

    trouble = Trouble(stubborn)
    await begin(op, toys(trouble), every=60)
    await trouble.last(30 * MINUTE, 25 * MINUTE)


@fires("ReconcileQueueGrowing", may=[*LATE, *NOT_READY, "ReconcileReactionBudget"], controller="toy")
async def there_is_more_to_do_than_workers_can(op: Operator) -> None:
    async def slow(ctx: Context[Toy]) -> None:
        await anyio.sleep(10)
        ready(ctx)

    trouble, many = Trouble(slow), [f"toy-{number}" for number in range(30)]
    await op.start(toys(trouble, workers=1))
    await op.make_all(many)
    op.users(many, 2)
    await anyio.sleep(5 * MINUTE)
    await trouble.last(25 * MINUTE, 15 * MINUTE)


@fires("ReconcileStorm", may=["ReconcileNotQuiet"], controller="toy")
async def a_controller_wakes_itself(op: Operator) -> None:
    runs = 0

    async def restless(ctx: Context[Toy]) -> None:
        nonlocal runs
        runs += 1
        await ctx.apply(child(ctx, f"run {runs}"))
        ready(ctx)

    trouble = Trouble(restless)
    await begin(op, toys(trouble), every=60)
    await trouble.last(12 * MINUTE, 20 * MINUTE)


@fires("ReconcilePaused", controller="toy")
async def a_pause_is_forgotten(op: Operator) -> None:
    manager = await op.start(toys())
    await op.make_all(NAMES)
    await anyio.sleep(5 * MINUTE)
    manager._runners[0].pause()
    await anyio.sleep(125 * MINUTE)
    manager._runners[0].resume()
    await anyio.sleep(5 * MINUTE)


@fires("ReconcileEventLoopBlocked", instance="pod-1", may=["ReconcileReactionBudget"])
async def runs_compute_for_seconds(op: Operator) -> None:
    async def compute(ctx: Context[Toy]) -> None:
        loop = anyio.lowlevel.current_token().native_token
        assert isinstance(loop, VirtualTimeLoop)
        loop.hold(3)
        ready(ctx)

    trouble = Trouble(compute)
    await begin(op, toys(trouble), every=15)
    await trouble.last(20 * MINUTE, 35 * MINUTE)
