"""Asks many pods at once for their metrics: within a time for each and a deadline for all.

Terminating pods and those without an address are not asked (aibrix#617). Nothing is ever taken for 0.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import anyio
from attrs import define, field, frozen

from informers import Clock
from reconcile.blocks.autoscaler.metric_pages import MOST_BYTES, Fetch, FetchFailed, HttpFetch
from reconcile.blocks.autoscaler.readings import Missing, Samples
from reconcile.blocks.autoscaler.scaling_rules import sample_size
from reconcile.kinds import Pod
from reconcile.replicas import FINAL_PHASES
from workqueue import Backoff


@frozen
class Candidates:
    """The pods of a target: `ready` (with an address, oldest first), `unready`, and `ignored` as they end."""

    ready: Sequence[Pod] = ()
    unready: Sequence[Pod] = ()
    ignored: Sequence[Pod] = ()

    @classmethod
    def among(cls, pods: Iterable[Pod]) -> "Candidates":
        ready, unready, ignored = [], [], []
        for pod in pods:
            if pod.terminating or pod.status.phase in FINAL_PHASES:
                ignored.append(pod)
            elif pod.ready and pod.status.pod_ip:
                ready.append(pod)
            else:
                unready.append(pod)
        return cls(sorted(ready, key=_age), unready, ignored)


def _age(pod: Pod) -> tuple[float, str]:
    created = pod.metadata.creation_timestamp
    return (0.0 if created is None else created.timestamp(), pod.name)


@frozen(kw_only=True)
class ScrapeLimits:
    """The costs of scraping: seconds for a pod, seconds for all pods of a run, bytes of a page.

    At most `at_once` are asked at the same time. A failed pod is left alone for `backoff` seconds, doubled
    each time up to `backoff_limit`.
    """

    pod_seconds: float = 1.0
    run_seconds: float = 3.0
    page_bytes: int = MOST_BYTES
    at_once: int = 200
    backoff: float = 5.0
    backoff_limit: float = 60.0


@define
class _Failing:
    why: Missing
    failures: int = 0
    until: float = 0.0


@define(eq=False)
class Scraper:
    """Asks pods, and remembers only those that failed, by uid and address."""

    clock: Clock
    limits: ScrapeLimits = field(factory=ScrapeLimits)
    fetch: Callable[[], Fetch] = HttpFetch
    _failing: dict[tuple[str, str], _Failing] = field(factory=dict, init=False, repr=False)

    async def ask(
        self,
        candidates: Candidates,
        url: Callable[[Pod], str],
        value: Callable[[bytes], int | Missing],
        *,
        sampled: bool = False,
        not_made: int = 0,
    ) -> Samples:
        """The values of the pods, within `run_seconds`; `value` reads a page. Failures are not raised.

        With `sampled` it asks the oldest `sample_size` pods, and another for each that fails.
        """
        wanted = sample_size(len(candidates.ready)) if sampled else len(candidates.ready)
        asking = _Asking(self, url, value, wanted, list(candidates.ready))
        await asking.run()
        return Samples(
            known=tuple(asking.known),
            missing=dict(Counter(asking.missing)),
            unasked=len(candidates.ready) - len(asking.known) - len(asking.missing),
            unready=len(candidates.unready) + not_made,
            ignored=len(candidates.ignored),
            wanted=wanted,
        )

    async def page(self, url: str, value: Callable[[bytes], int | Missing]) -> int | Missing:
        async with self.fetch() as fetch:
            return await self._one(fetch, url, value, ("", url))

    def forget(self, living: Iterable[str]) -> None:
        kept = {*living, ""}
        for key in [key for key in self._failing if key[0] not in kept]:
            del self._failing[key]

    def _resting(self, key: tuple[str, str]) -> Missing | None:
        """The failure of a pod that is left alone now: the same words, or a status would change with them."""
        failing = self._failing.get(key)
        return failing.why if failing is not None and anyio.current_time() < failing.until else None

    def _failed(self, key: tuple[str, str], why: Missing) -> None:
        failing = self._failing.setdefault(key, _Failing(why))
        backoff = Backoff(base=self.limits.backoff, limit=self.limits.backoff_limit)
        failing.until = anyio.current_time() + backoff.delay(failing.failures, self.clock.random())
        failing.failures, failing.why = failing.failures + 1, why

    async def _one(
        self, fetch: Fetch, url: str, value: Callable[[bytes], int | Missing], key: tuple[str, str]
    ) -> int | Missing:
        if (resting := self._resting(key)) is not None:
            return resting
        try:
            with anyio.fail_after(self.limits.pod_seconds):
                found = value(await fetch.page(url, self.limits.page_bytes))
        except FetchFailed as failure:
            found = Missing(failure.reason, str(failure))
        except TimeoutError:
            found = Missing("NoAnswerInTime", "it did not answer in time")
        if isinstance(found, Missing):
            self._failed(key, found)
        else:
            self._failing.pop(key, None)
        return found


@define
class _Asking:
    """One round over pods; each turn asks as many as are still missing."""

    scraper: Scraper
    url: Callable[[Pod], str]
    value: Callable[[bytes], int | Missing]
    wanted: int
    waiting: list[Pod]
    known: list[int] = field(factory=list, init=False)
    missing: list[str] = field(factory=list, init=False)

    async def run(self) -> None:
        limits = self.scraper.limits
        if not self.waiting:
            return
        with anyio.move_on_after(limits.run_seconds):
            async with self.scraper.fetch() as fetch:
                while self.waiting and len(self.known) < self.wanted:
                    count = min(self.wanted - len(self.known), limits.at_once)
                    turn, self.waiting = self.waiting[:count], self.waiting[count:]
                    async with anyio.create_task_group() as group:
                        for pod in turn:
                            group.start_soon(self._ask, fetch, pod)
        short = self.wanted - len(self.known) - len(self.missing)
        self.missing += ["NoAnswerInTime"] * max(0, short)

    async def _ask(self, fetch: Fetch, pod: Pod) -> None:
        found = await self.scraper._one(fetch, self.url(pod), self.value, (pod.uid, self.url(pod)))
        if isinstance(found, Missing):
            self.missing.append(found.reason)
        else:
            self.known.append(found)
