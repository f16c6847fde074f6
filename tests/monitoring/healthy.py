"""Operators in which nothing is wrong, drawn from seeds: no alert may fire. `make alerts RUNS=200`."""

import random
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

import anyio
from attrs import evolve, frozen

from reconcile import Context, Controller, LeaderElection, Result
from reconcile.kinds import ConfigMap
from reconcile.sharding import Sharding
from reconcile.testing import Coalesce, Cut, Drop, EndEarly, Expire, Refuse, RefuseAsStale, When
from tests.controller.outage import child
from tests.helpers.managers import Toy
from tests.monitoring.judging import complaints
from tests.monitoring.promtool import Expected
from tests.monitoring.simulated_operator import Operator, Recording, record

IN_FULL: Final = 200
TOGETHER: Final = 5
"""Recordings that one promtool judges: it is slow to start."""
SILENCE: Final = Expected({})
PASSING: Final = (Expire(after=4), Cut(after=3), Cut(), EndEarly(after=2), Coalesce(events=4, seconds=3.0))
"""What any watch meets now and then."""


@frozen
class Healthy:
    """A sound operator, and what is usual around it. Times are in seconds."""

    seed: int
    objects: int
    churn: float
    """Between two changes of users."""
    work: float
    """How long a run takes at most."""
    rollout: float
    """How long an object takes to be ready."""
    workers: int
    flaky: float
    """The share of runs that fail, and succeed when they are tried again."""
    every: float | None
    resync: float
    replicas: str
    """How there is more than one: "one", "standby" or "sharded"."""
    updates: int
    """Rolling updates of the operator."""
    deaths: int
    blips: int
    """Times when the API server is away for some seconds."""
    refusals: int
    """Writes that meet a conflict or a busy server."""
    hiccups: int
    """Watches that break."""
    bursts: int
    """Times when users change all objects at once."""
    pause: bool

    @classmethod
    def drawn(cls, seed: int) -> "Healthy":
        chance = random.Random(f"{seed}/alerts")
        objects, churn = chance.choice((1, 5, 20, 50)), chance.choice((5.0, 20.0, 60.0, 600.0))
        drawn = cls(
            seed,
            objects=objects,
            churn=churn,
            work=chance.choice((0.0, 0.05, 0.3)),
            # One that is changed again before it is ready never is, and that is worth an alert.
            rollout=min(chance.choice((0.0, 5.0, 90.0)), objects * churn / 3),
            workers=chance.choice((2, 4, 10)),
            flaky=chance.choice((0.0, 0.0, 0.01)),
            every=chance.choice((None, None, 30.0)),
            resync=chance.choice((36_000.0, 300.0)),
            replicas=chance.choice(("one", "standby", "sharded")),
            updates=chance.randint(0, 2),
            deaths=chance.randint(0, 1),
            blips=chance.randint(0, 2),
            refusals=chance.randint(0, 5),
            hiccups=chance.randint(0, 5),
            # Two within an hour spend the budget of reaction, and are worth a ticket.
            bursts=chance.randint(0, 1),
            pause=chance.random() < 0.2,
        )
        # With fewer workers it reacts late to a burst, each time, and that is worth a ticket.
        return drawn if drawn.burst_seconds <= 1 else evolve(drawn, bursts=0)

    @property
    def burst_seconds(self) -> float:
        """Until its workers have begun the last of all objects, as a rule."""
        return self.objects * self.work / 2 / self.workers

    @property
    def names(self) -> list[str]:
        return [f"toy-{number}" for number in range(self.objects)]

    async def reconcile(self, ctx: Context[Toy]) -> Result | None:
        await anyio.sleep(self.work * ctx.client.clock.random())
        await ctx.apply(child(ctx, str(ctx.object.spec.size)))
        if ctx.client.clock.random() < self.flaky:
            raise ConnectionError("the cloud is busy")
        seen = ctx.object.status.note or ""
        generation, _, since = seen.partition("@")
        now = anyio.current_time()
        if generation != str(ctx.object.spec.size):
            since = str(round(now))
        left = float(since) + self.rollout - now
        ctx.status(size=ctx.object.spec.size, note=f"{ctx.object.spec.size}@{since}")
        ctx.condition("Ready", left <= 0, reason="Rollout", message="")
        return Result(requeue_after=left) if left > 0 else None

    def controller(self) -> Controller[Toy]:
        return Controller(
            Toy,
            self.reconcile,
            owns=[ConfigMap],
            workers=self.workers,
            every=self.every,
            resync=self.resync,
        )

    def options(self) -> dict[str, Any]:
        match self.replicas:
            case "standby":
                return {"leader_election": LeaderElection("toys")}
            case "sharded":
                return {"sharding": Sharding("toys", buckets=16)}
        return {}

    async def play(self, op: Operator) -> None:
        """An hour and a half of it."""
        chance = op.clock.random
        instances = ["pod-1"] if self.replicas == "one" else ["pod-1", "pod-2"]
        for instance in instances:
            await op.start(self.controller(), instance=instance, **self.options())
        await op.make_all(self.names)
        op.users(self.names, self.churn)
        events = [
            *[self._update] * self.updates,
            *[self._die] * self.deaths,
            *[self._blip] * self.blips,
            *[self._refusal] * self.refusals,
            *[self._hiccup] * self.hiccups,
            *[self._burst] * self.bursts,
            *([self._pause] if self.pause else []),
        ]
        events.sort(key=lambda _: chance())
        for event in events:
            await anyio.sleep(60 + 300 * chance())
            await event(op)
        await anyio.sleep(max(600.0, 5400 - anyio.current_time()))

    async def _update(self, op: Operator) -> None:
        """Replicas are replaced, each new one before the old one stops."""
        for instance in [*op.replicas]:
            await op.start(self.controller(), instance=f"{instance}x", **self.options())
            await anyio.sleep(20)
            await op.stop(instance)
            await anyio.sleep(20)

    async def _die(self, op: Operator) -> None:
        instance = next(iter(op.replicas))
        await op.kill(instance)
        await anyio.sleep(30)
        await op.start(self.controller(), instance=instance, **self.options())

    async def _blip(self, op: Operator) -> None:
        op.break_down((When(times=None), Drop()))
        await anyio.sleep(3 + 5 * op.clock.random())
        op.heal()

    async def _refusal(self, op: Operator) -> None:
        """A few writes are refused, as by somebody else's write or a server that is busy."""
        answers = (RefuseAsStale(), Refuse(500), Refuse(429, retry_after=1))
        what = answers[int(op.clock.random() * len(answers))]
        op.worsen(When("write", "*/toys/*", times=2), what)

    async def _hiccup(self, op: Operator) -> None:
        what = PASSING[int(op.clock.random() * len(PASSING))]
        op.worsen(When("watch", "*"), what)

    async def _burst(self, op: Operator) -> None:
        size = 10 + int(10 * op.clock.random())
        for name in self.names:
            await op.resize(name, size)

    async def _pause(self, op: Operator) -> None:
        runners = [runner for one in op.replicas.values() for runner in one.manager._runners]
        for runner in runners:
            runner.pause()
        await anyio.sleep(600)
        for runner in runners:
            runner.resume()


def recorded(seed: int) -> tuple[str, Recording, Expected]:
    case = Healthy.drawn(seed)
    return f"{case}", record(case.play, seed), SILENCE


def judged(first: int, runs: int) -> str:
    """What alerts say about the healthy runs from a seed on; empty if nothing."""
    said = []
    for start in range(first, first + runs, TOGETHER):
        tests = [recorded(seed) for seed in range(start, min(start + TOGETHER, first + runs))]
        with tempfile.TemporaryDirectory() as folder:
            found = complaints(Path(folder), tests)
        if found:
            said.append(f"seeds {start} to {start + len(tests) - 1}:\n{found}")
        print(f"{start + len(tests) - first} of {runs} healthy runs", file=sys.stderr, flush=True)
    return "\n".join(said)


def main(first: int, runs: int) -> int:
    """Judge `runs` healthy runs; the status is 1 if an alert fires in one of them."""
    said = judged(first, runs)
    print(said or f"no alert fired in {runs} healthy runs of {IN_FULL}")
    return 1 if said else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
