"""Pools of nodes, or of other hosts of pods: which of them must grow, so that pods find a place.

`CapacityPools.decide` is pure: the caller writes the new sizes, best with `Client.scale`.
"""

import datetime
from collections.abc import Iterable, Mapping, Sequence

from attrs import field, frozen

from reconcile.blocks.capacity.expanders import Expander, ExpanderChoice, ExpanderOption, choose, least_waste
from reconcile.blocks.capacity.node_template import NodeTemplate
from reconcile.blocks.capacity.packing import by_shape, fill, pack_groups
from reconcile.blocks.capacity.pod_needs import PodNeeds
from reconcile.blocks.capacity.pool_backoff import PoolBackoff


@frozen
class Pool:
    """A pool of `size` desired nodes; `upcoming` do not exist yet. `held`: why it must not grow, if so."""

    name: str
    size: int
    largest: int
    template: NodeTemplate | None
    smallest: int = 0
    upcoming: int = 0
    backoff: PoolBackoff | None = None
    held: str = ""


@frozen
class Growth:
    """A pool that grows from `now` to `to` nodes, and the pods it is for."""

    pool: str
    now: int
    to: int
    pods: tuple[str, ...]


@frozen
class CapacityDecision:
    """The `growths`, in order; `housed` pods have room on existing or upcoming nodes.

    `left` gives the reason for each other pod without a place, `skipped` for each pool that cannot grow.
    `unmatched` are pools that an expander does not know, `notices` its other messages.
    """

    growths: tuple[Growth, ...] = ()
    housed: tuple[str, ...] = ()
    left: Mapping[str, str] = field(factory=dict)
    skipped: Mapping[str, str] = field(factory=dict)
    unmatched: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()


def _expanders(given: Iterable[Expander]) -> tuple[Expander, ...]:
    return tuple(given)


@frozen
class CapacityPools:
    """Fits pods to pools; `expanders` choose one after the other. One pool grows by `most` nodes at most."""

    expanders: Sequence[Expander] = field(default=(least_waste,), converter=_expanders)
    most: int = 1000

    def decide(
        self,
        pods: Iterable[PodNeeds],
        nodes: Iterable[NodeTemplate],
        pools: Iterable[Pool],
        now: datetime.datetime,
    ) -> CapacityDecision:
        """Which pools grow, for pods without room on `nodes` or on upcoming ones.

        A pool that is in back-off, held or at its limit cannot grow; no other failure changes the order of
        pools. Decided again with its own growths as upcoming nodes, nothing more grows.
        """
        waiting, left = _modelled(pods)
        pools = sorted(pools, key=lambda pool: pool.name)
        there = fill(waiting, list(nodes))
        waiting = [pod for pod in waiting if pod.name not in there]
        coming = [pool.template for pool in pools if pool.template is not None for _ in range(pool.upcoming)]
        then = fill(waiting, coming)
        waiting = [pod for pod in waiting if pod.name not in then]
        skipped = {pool.name: why for pool in pools if (why := out_of_question(pool, now))}
        open_pools = [pool for pool in pools if pool.name not in skipped]
        growths: list[Growth] = []
        said: list[ExpanderChoice] = []
        while waiting:
            chosen, reasons = self._choose(waiting, open_pools)
            said.append(chosen)
            if not chosen.options:
                left.update(reasons)
                break
            growths.append(_growth(chosen.options[0], open_pools))
            placed = set(growths[-1].pods)
            waiting = [pod for pod in waiting if pod.name not in placed]
            open_pools = [pool for pool in open_pools if pool.name != growths[-1].pool]
        for pod in waiting:
            left.setdefault(pod.name, "no pool is left that could grow" if pools else "there are no pools")
        return CapacityDecision(
            tuple(growths),
            tuple(sorted({**there, **then})),
            left,
            skipped,
            tuple(dict.fromkeys(pool for one in said for pool in one.unmatched)),
            tuple(dict.fromkeys(one.notice for one in said if one.notice)),
        )

    def _choose(
        self, pods: Sequence[PodNeeds], pools: Sequence[Pool]
    ) -> tuple[ExpanderChoice, dict[str, str]]:
        options, reasons, groups = [], dict[str, list[str]](), by_shape(pods)
        for pool in pools:
            assert pool.template is not None
            packing = pack_groups(groups, pool.template, min(self.most, pool.largest - pool.size))
            for pod, why in packing.left.items():
                reasons.setdefault(pod, []).append(f"{pool.name}: {why}")
            if packing.placed:
                options.append(ExpanderOption(pool.name, pool.template, packing))
        texts = {pod: "; ".join(whys) for pod, whys in reasons.items()}
        return choose(options, self.expanders), texts


def out_of_question(pool: Pool, now: datetime.datetime) -> str:
    """Why a pool cannot grow now; empty if it can."""
    if pool.held:
        return pool.held
    if pool.backoff is not None and pool.backoff.holds(now):
        return f"in back-off: {pool.backoff.reason}" if pool.backoff.reason else "in back-off"
    if pool.size >= pool.largest:
        return f"as large as it may be ({pool.largest})"
    return "" if pool.template is not None else "what its nodes offer is not known"


def _modelled(pods: Iterable[PodNeeds]) -> tuple[list[PodNeeds], dict[str, str]]:
    waiting, left = [], dict[str, str]()
    for pod in sorted(pods, key=lambda pod: pod.name):
        if pod.shape.unmodelled:
            left[pod.name] = f"not modelled: {', '.join(pod.shape.unmodelled)}"
        else:
            waiting.append(pod)
    return waiting, left


def _growth(option: ExpanderOption, pools: Iterable[Pool]) -> Growth:
    pool = next(one for one in pools if one.name == option.pool)
    return Growth(pool.name, pool.size, pool.size + option.packing.nodes, option.packing.placed)
