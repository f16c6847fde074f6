"""How AIBrix 0.2.0 collected metrics, for comparison in the demo only.

The flaw is kept (aibrix#617): every pod is asked, Ready or not, and the first that does not answer ends the
run with an error. So one pod that cannot be reached prevents every decision.
"""

from collections.abc import Callable

import anyio
from attrs import frozen

from reconcile import Context, Controller
from reconcile.blocks import Autoscaler, Fetch, PodMetric, read_series
from reconcile.kinds import Pod

from ..controller import NAME
from ..models import PodAutoscaler
from ..pod_autoscaler_spec import policy_of

CLIENT_SECONDS = 5.0
PAGE_BYTES = 1024 * 1024


class NoDecision(Exception):
    """A pod did not answer."""


@frozen
class AskEveryPod:
    fetch: Callable[[], Fetch]

    async def keep(self, ctx: Context[PodAutoscaler]) -> None:
        policy = policy_of(ctx.object)
        source = policy.sources[0]
        assert isinstance(source, PodMetric)
        name = {"name": policy.target.name, "namespace": ctx.object.namespace}
        target = await ctx.client.raw.unstructured(
            {"apiVersion": policy.target.api_version, "kind": policy.target.kind, "metadata": name}
        )
        scale = await ctx.client.raw.read_subresource(target, "scale")
        pods = await ctx.client.list(Pod, ctx.object.namespace, labels=scale["status"]["selector"])
        total = 0
        async with self.fetch() as fetch:
            for pod in sorted(pods, key=lambda pod: pod.name):
                total += await self._ask(fetch, source, pod)
        wanted = policy.how.bounds.within(-(-total // source.target))
        await ctx.client.scale(target, lambda replicas: wanted)

    @staticmethod
    async def _ask(fetch: Fetch, source: PodMetric, pod: Pod) -> int:
        try:
            with anyio.fail_after(CLIENT_SECONDS):
                value = read_series(source.metric, await fetch.page(source.url_of(pod), PAGE_BYTES))
        except Exception as error:
            raise NoDecision(f"pod {pod.name} did not answer") from error
        if not isinstance(value, int):
            raise NoDecision(f"pod {pod.name} has no such metric")
        return value


def make_original_controller(fetch: Callable[[], Fetch], every: float) -> Controller[PodAutoscaler]:
    declared = Autoscaler(policy_of)
    return Controller(
        PodAutoscaler,
        AskEveryPod(fetch).keep,
        watches=declared.watches,
        writes=declared.writes,
        name=NAME,
        every=every,
        timeout=30.0,
    )
