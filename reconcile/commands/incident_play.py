"""Plays the incidents of the demo, each with the original's logic first and then with ours."""

from collections.abc import Callable, Mapping, Sequence

import anyio
from attrs import define, frozen

from informers import get_logger
from informers.kubernetes import connect
from reconcile.commands.embedded_cluster import EmbeddedCluster
from reconcile.kinds import Namespace
from reconcile.models import ObjectMeta
from reconcile.runs.supervision import without_groups
from reconcile.simulation import Incident, IncidentStage, IncidentVerdict, Logic

AT_ONCE = 3
"""Incidents played side by side. All of them would slow the flood of events that one of them needs."""
TIME_LIMIT = 60.0
"""Seconds that one incident may take with one logic."""

_log = get_logger("reconcile.demo")


@frozen
class SideRunning:
    """Running since this time of the event loop."""

    since: float


@frozen
class SideResult:
    """`broken` is the error that ended the side early, or empty."""

    verdict: IncidentVerdict
    broken: str = ""


@define
class IncidentPlay:
    """One incident of the demo; when `sabotaged`, our side is played with the original's logic too."""

    incident: Incident
    sabotaged: bool = False
    now: str = "waiting"
    original: SideRunning | SideResult | None = None
    ours: SideRunning | SideResult | None = None

    @property
    def finished(self) -> bool:
        return isinstance(self.original, SideResult) and isinstance(self.ours, SideResult)

    @property
    def holds(self) -> bool:
        """Whether our side passed and neither side broke; an original that happens to pass is only a note."""
        original, ours = self.original, self.ours
        if not isinstance(original, SideResult) or not isinstance(ours, SideResult):
            return False
        return ours.verdict.ok and not original.broken and not ours.broken

    @property
    def notes(self) -> Sequence[str]:
        notes = []
        for side, played in (("original", self.original), ("ours", self.ours)):
            if isinstance(played, SideResult) and played.broken:
                notes.append(f"{self.incident.name}: {side}: could not be played: {played.broken}")
        if isinstance(self.original, SideResult) and self.original.verdict.ok:
            notes.append(f"{self.incident.name}: the original did not fail this time")
        if isinstance(self.ours, SideResult) and not self.ours.verdict.ok and self.ours.verdict.explanation:
            notes.append(f"{self.incident.name}: {self.ours.verdict.explanation}")
        return notes

    def to_json(self) -> Mapping[str, object]:
        """The entry of the report: the counts of our side, and under `original` those of the control."""
        report: dict[str, object] = {"name": self.incident.name, "ok": self.holds}
        if self.sabotaged:
            report["sabotaged"] = True
        report |= {name: value for name, value in _counts(self.ours).items() if name != "ok"}
        return {**report, "original": _counts(self.original)}


def _counts(side: SideRunning | SideResult | None) -> dict[str, object]:
    if not isinstance(side, SideResult):
        return {}
    counts = {**side.verdict.to_json(), "seconds": round(side.verdict.seconds, 2)}
    return {**counts, "broken": side.broken} if side.broken else counts


async def play_all(plays: Sequence[IncidentPlay], cluster: EmbeddedCluster) -> None:
    """Play every incident in namespaces of its own, AT_ONCE side by side, the longest first."""
    places = anyio.CapacityLimiter(AT_ONCE)

    async def play_both(play: IncidentPlay) -> None:
        async with places:  # first come, first served
            play.original = SideRunning(anyio.current_time())
            play.original = await _play_side(play, "original", "original", cluster)
            play.ours = SideRunning(anyio.current_time())
            play.ours = await _play_side(play, "ours", "original" if play.sabotaged else "ours", cluster)
            play.now = "done"

    async with anyio.create_task_group() as group:
        for play in sorted(plays, key=lambda play: -play.incident.seconds):
            group.start_soon(play_both, play)


async def _play_side(play: IncidentPlay, side: Logic, logic: Logic, cluster: EmbeddedCluster) -> SideResult:
    def report(line: str) -> None:
        play.now = f"{side}: {line}"
        _log.info("incident", incident=play.incident.name, side=side, logic=logic, now=line)

    report("making its namespace")
    started = anyio.current_time()
    try:
        with anyio.move_on_after(TIME_LIMIT) as limit, without_groups(_log):
            verdict = await _play_in_namespace(
                play.incident, f"{play.incident.name}-{side}", logic, cluster, report
            )
            _log.info("verdict", incident=play.incident.name, side=side, **verdict.to_json())
            return SideResult(verdict)
        broken = f"it took longer than {TIME_LIMIT:g} s" if limit.cancelled_caught else "it was cancelled"
    except Exception as error:
        _log.exception("incident broke", incident=play.incident.name, side=side)
        broken = f"{type(error).__name__}: {error}"
    return SideResult(IncidentVerdict(ok=False, seconds=anyio.current_time() - started), broken)


async def _play_in_namespace(
    incident: Incident, namespace: str, logic: Logic, cluster: EmbeddedCluster, report: Callable[[str], None]
) -> IncidentVerdict:
    await cluster.make_namespace(namespace)
    observer = await connect(cluster.kubeconfig)
    try:
        return await incident.play(IncidentStage(cluster.transport(), observer, namespace, report), logic)
    finally:
        with anyio.CancelScope(shield=True):
            await observer.aclose()
            await cluster.client.delete(Namespace(metadata=ObjectMeta(namespace)))
