"""What a decision over 1,000 pods costs, and how long a pass over pods that hang takes.

The decision: pods into classes, the estimate of two metrics over all of them, windows of 180 s that are
full, both rules. The pass asks 200 pods on a loopback address over real sockets, half of which accept a
connection and never answer; its deadline is that of `ScrapeLimits`, 3 s.
"""

import datetime
import statistics
import time
from functools import partial

import anyio
from aiohttp import web

from reconcile import ObjectMeta, SystemClock
from reconcile.blocks import AllowedHosts, Behaviour, Rates, ReplicaBounds, Samples, ScrapeLimits
from reconcile.blocks.autoscaler.decision import Measured, Memory, TargetState, decide
from reconcile.blocks.autoscaler.metric_pages import HttpFetch, MetricSeries
from reconcile.blocks.autoscaler.scraper import Candidates, Scraper
from reconcile.kinds import Pod, PodStatus
from reconcile.kinds.core import PodCondition

PODS = 1_000
HANGING = 100
ANSWERING = 100
ROUNDS = 15
MADE = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


def figures() -> dict[str, float]:
    """Milliseconds: the median of a decision, and one pass."""
    return {
        "autoscaling.decide_1000_pods_ms": _decide_ms(),
        "autoscaling.pass_with_100_hanging_ms": anyio.run(_pass_ms),
        "autoscaling.pass_deadline_ms": ScrapeLimits().run_seconds * 1000,
    }


def _pod(number: int, address: str) -> Pod:
    metadata = ObjectMeta(f"pod-{number:04d}", "bench", uid=str(number), creation_timestamp=MADE)
    return Pod(metadata=metadata, status=PodStatus("Running", address, (PodCondition("Ready", "True"),)))


def _decide_ms() -> float:
    pods = [_pod(number, f"10.0.{number // 250}.{number % 250}") for number in range(PODS)]
    rates = Rates(up=2_000, down=2_000)
    took = []
    for rule in ("demand", "ratio"):
        how = Behaviour(rule=rule, stable_window=180_000, panic_window=60_000, rates=rates)  # type: ignore[arg-type]
        bounds, memory = ReplicaBounds(minimum=1, maximum=2_000), Memory()
        for second in range(180 + ROUNDS):
            began = time.perf_counter()
            ready = Candidates.among(pods).ready
            known = Samples(
                known=tuple(300 + number % 400 for number in range(len(ready) - 50)), missing={"A": 50}
            )
            measured = [Measured("a", 500, known), Measured("b", 700, known)]
            _, memory = decide(how, bounds, memory, measured, TargetState(PODS, PODS, second * 1000))
            if second >= 180:
                took.append(time.perf_counter() - began)
    return statistics.median(took) * 1000


async def _pass_ms() -> float:
    async def page(_: web.Request) -> web.Response:
        return web.Response(text="load 1\n")

    async def never(_: web.Request) -> web.Response:
        await anyio.sleep_forever()
        raise AssertionError("unreachable")

    app = web.Application()
    app.router.add_get("/page", page)
    app.router.add_get("/never", never)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, backlog=1024).start()
    port = runner.addresses[0][1]
    pods = [_pod(number, "127.0.0.1") for number in range(HANGING + ANSWERING)]
    scraper = Scraper(SystemClock(), fetch=partial(HttpFetch, hosts=AllowedHosts(["127.0.0.0/8"])))
    began = time.perf_counter()
    heard = await scraper.ask(
        Candidates.among(pods),
        lambda pod: f"http://127.0.0.1:{port}/{'never' if int(pod.uid) < HANGING else 'page'}",
        MetricSeries("load").value,
    )
    took = time.perf_counter() - began
    await runner.cleanup()
    if (len(heard.known), heard.lost) != (ANSWERING, HANGING):
        raise RuntimeError(f"of {ANSWERING} answers {len(heard.known)} were heard")
    return took * 1000
