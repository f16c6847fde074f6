"""Why a key does not run at this moment: one word, and a sentence for people."""

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

from attrs import frozen

State: TypeAlias = Literal[
    "resting",
    "running",
    "queued",
    "back-off",
    "later",
    "paused",
    "throttled",
    "not-leading",
    "elsewhere",
    "outage",
    "not-synced",
]

STATES: Final[tuple[State, ...]] = State.__args__  # type: ignore[attr-defined]

DueFor: TypeAlias = Literal["change", "retry", "asked", "timer"]
"""What a queued key is to run for: a change or a person, a failure, a Result, or `Controller(every=)`."""


@frozen
class KeyFacts:
    """What is known of one key at one moment; times are seconds from now, or until now.

    `running`: since when a run is under way, `waits_at`: the line where it waits. `due_in`: when it may run
    at the earliest, for what `due_for` says; None if it is not queued. `failures` count since the last
    success, the last with `error`. `ahead` keys are ready in the queue, for `workers`. `storm` says why it is
    slowed down, for `throttled_for`. `held_by` is the replica that works on it where `elsewhere`. `missing`
    are resources without a first list. `down_for`: since when the API server of `cluster` cannot be reached.
    """

    running: float | None = None
    waits_at: str = ""
    due_in: float | None = None
    due_for: DueFor = "change"
    failures: int = 0
    error: str = ""
    ahead: int = 0
    workers: int = 1
    paused_key: bool = False
    paused_controller: bool = False
    storm: str = ""
    throttled_for: float = 0.0
    leading: bool = True
    leader: str = ""
    elsewhere: bool = False
    held_by: str = ""
    synced: bool = True
    missing: Sequence[str] = ()
    down_for: float | None = None
    cluster: str = ""


class WhyNotNow(NamedTuple):
    """`sentence` is empty where nothing is to be done; `next_in`: seconds until it may run, if known."""

    state: State
    sentence: str = ""
    next_in: float | None = None


def why_not_now(facts: KeyFacts) -> WhyNotNow:
    """The first that holds, from what no waiting ends to what only waits for its turn."""
    if facts.running is not None:
        return _running(facts)
    if facts.elsewhere:
        who = f"the replica {facts.held_by} works on it" if facts.held_by else "another replica works on it"
        return WhyNotNow("elsewhere", f"{who}: look there")
    if not facts.synced:
        what = ", ".join(facts.missing)
        lists = f"the first list of {what}" if what else "the first lists"
        return WhyNotNow("not-synced", f"waits for {lists}")
    if not facts.leading:
        who = f"{facts.leader} leads" if facts.leader else "no replica is known to lead"
        return WhyNotNow("not-leading", f"this replica is on standby: {who}")
    if facts.paused_key:
        return WhyNotNow("paused", "paused by hand: resume it to have it run")
    if facts.paused_controller:
        return WhyNotNow("paused", "its controller is paused")
    if facts.due_in is None:
        return WhyNotNow("resting")
    if facts.down_for is not None:
        where = f" of cluster {facts.cluster}" if facts.cluster else ""
        down = f"the API server{where} cannot be reached, for {seconds_text(facts.down_for)}"
        return WhyNotNow("outage", f"{down}: it runs when that answers")
    if facts.storm:
        return _throttled(facts)
    return _due(facts, facts.due_in)


def _running(facts: KeyFacts) -> WhyNotNow:
    place = f", at {facts.waits_at}" if facts.waits_at else ""
    return WhyNotNow("running", f"running for {seconds_text(facts.running or 0.0)}{place}")


def _throttled(facts: KeyFacts) -> WhyNotNow:
    wait = max(facts.throttled_for, facts.due_in or 0.0)
    return WhyNotNow("throttled", f"slowed down, next run in {seconds_text(wait)}: {facts.storm}", wait)


def _due(facts: KeyFacts, due_in: float) -> WhyNotNow:
    if due_in <= 0:
        more = facts.ahead - 1
        others = f"; {more} other {'key is' if more == 1 else 'keys are'} ready" if more > 0 else ""
        workers = "the only worker" if facts.workers == 1 else f"one of {facts.workers} workers"
        return WhyNotNow("queued", f"waits for {workers}{others}", 0.0)
    when = seconds_text(due_in)
    if facts.due_for == "retry":
        times = "once" if facts.failures <= 1 else f"{facts.failures} times in a row"
        last = f", last with {facts.error}" if facts.error else ""
        return WhyNotNow("back-off", f"failed {times}{last}; tries again in {when}", due_in)
    if facts.due_for == "timer":
        return WhyNotNow("later", f"its timer is due in {when}", due_in)
    if facts.due_for == "asked":
        return WhyNotNow("later", f"its last run asked to run again, in {when}", due_in)
    return WhyNotNow("later", f"it was slowed down, and runs in {when}", due_in)


def after_tries(attempt: int) -> str:
    """How many runs before one failed, or asked for another at once: `after 1 try`."""
    return f"after {attempt} {'try' if attempt == 1 else 'tries'}"


def seconds_text(seconds: float) -> str:
    """A time for people: `0.4 s`, `12 s`, `5 min`, `3 h`."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"
