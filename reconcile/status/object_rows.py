"""The row of one object on the status page: how it does, and why it does not run now."""

from collections.abc import Callable
from math import inf
from typing import Any, Final

import msgspec
from attrs import frozen

from informers import Informer, Snapshot
from reconcile.client.redaction import replaced
from reconcile.controller.runner import Runner
from reconcile.models.secret_fields import secret_fields
from reconcile.runs.run_request import Request
from reconcile.status.key_facts import Around, facts_of
from reconcile.status.life_secrets import declared_values_of, redactor_of
from reconcile.status.object_glance import glance_at, health_at
from reconcile.status.object_health import HEALTHS, health_of, short
from reconcile.status.object_life import ERROR_FORGOTTEN
from reconcile.status.shown_values import without_pairs
from reconcile.status.why_not_now import WhyNotNow, why_not_now

SENTENCE_CHARACTERS: Final = 300
TEXT_READ: Final = 4096
"""Characters of a text that are looked at; fewer are shown."""
LATEST_LOOK: Final = 60.0
"""Seconds after which a row whose words have a time in them is made anew at the latest."""
_CONDITIONS: Final = (("status",), ("status", "conditions"))
_ranks: Final = {health: rank for rank, health in enumerate(HEALTHS)}


# A Struct that the garbage collector does not track: it would hold the loop to look at 20,000 of them.
class ObjectRow(msgspec.Struct, eq=False, gc=False):
    """An object on the page. `rank` is the place of its health in HEALTHS, `failures` count in a row.

    `text` is the row as JSON; None until it is asked for. `stale` is when its words are old (event loop's
    seconds) although nothing happened.
    """

    maker: "RowMaker"
    id: int
    request: Request
    rank: int = 0
    failures: int = 0
    text: bytes | None = None
    stale: float = inf


@frozen
class RowMaker:
    """Makes the rows of a controller, which is `number` in the stream's list."""

    runner: Runner[Any]
    number: int
    informer: Informer | None
    """Of its kind; None if the controller is not connected."""
    secret: frozenset[tuple[str, ...]]
    hides_conditions: bool

    @classmethod
    def of(cls, runner: Runner[Any], number: int) -> "RowMaker":
        resource = runner.controller.resource
        informer = next((one for one in runner.informers if one.resource == resource), None)
        secret = secret_fields(runner.controller.kind)
        return cls(runner, number, informer, secret, not secret.isdisjoint(_CONDITIONS))

    def object_of(self, request: Request) -> Snapshot | None:
        return None if self.informer is None else self.informer.store.get(request.key)

    def is_shown(self, snapshot: Snapshot, request: Request) -> bool:
        """Whether the object is this controller's to work on, here: not by a selector or another replica."""
        controller = self.runner.controller
        if controller.selector and not controller.keeps(snapshot):
            return False
        return not self.runner.is_left(request) or self.runner.history.active(request) is not None

    def judge(self, row: ObjectRow, snapshot: Snapshot) -> None:
        """Set what rows are counted and sorted by: cheap, as it is done for all of them at the start."""
        ran, error = self._last_run(row.request)
        row.rank = _ranks[health_at(snapshot, ran, error, self.hides_conditions).health]
        row.failures = self.runner.queue.retries(row.request)
        row.text = None

    def write(
        self, row: ObjectRow, now: float, unix: Callable[[float], float], around: Around
    ) -> bytes | None:
        """Make the text of a row; None without an object. `unix` makes wall time of times such as `now`."""
        request = row.request
        snapshot = self.object_of(request)
        if snapshot is None:
            return None
        ran, error = self._last_run(request)
        # Before it is cut: half of a secret would not be found.
        glance = glance_at(snapshot, ran, self._hide(error, snapshot), self.hides_conditions)
        health = health_of(glance.facts)
        facts = facts_of(self.runner, request, now, around)
        why = why_not_now(facts)
        row.stale = _stale(why, facts.running, now)
        ends = self.runner.history.ends
        last = None if ends is None else ends.last(request)
        reason = health.reason if error else self._hide_read(health.reason, request, snapshot)
        row.text = msgspec.json.encode(
            (
                row.id,
                self.number,
                str(request.key),
                row.rank,
                short(reason),
                why.state,
                short(self._hide(why.sentence, snapshot), SENTENCE_CHARACTERS),
                glance.created,
                None if last is None else round(unix(last.ended), 3),
                row.failures,
                None if why.next_in is None else round(unix(now + why.next_in), 3),
                glance.conditions,
            )
        )
        return row.text

    def _last_run(self, request: Request) -> tuple[bool, str]:
        """Whether a run of that key has ended here, and with which error."""
        history = self.runner.history
        last = None if history.ends is None else history.ends.last(request)
        if last is None:
            return False, ""
        if not last.failed:
            return True, ""
        runs = [run for run in history.past(request) if run.result != "cancelled"]
        return True, (runs[-1].error if runs else "") or ERROR_FORGOTTEN

    def _hide(self, text: str, snapshot: Snapshot) -> str:
        """A text without what the class declares secret in its object, or looks like a secret."""
        if text and self.secret:
            text = replaced(text, sorted(declared_values_of(snapshot, self.secret), key=len, reverse=True))
        return without_pairs(text[:TEXT_READ])

    def _hide_read(self, text: str, request: Request, snapshot: Snapshot) -> str:
        """The same for a text of the object, without the values of Secrets that the key's runs have read.

        Errors have none: they are redacted where they are raised.
        """
        if not text:
            return text
        hide = redactor_of(self.runner.history, request, self.runner.informers)
        return self._hide(hide(text), snapshot)


def _stale(why: WhyNotNow, running: float | None, now: float) -> float:
    """When the times in a row's words have moved on so far that a reader would be misled."""
    if running is not None:
        return now + min(LATEST_LOOK, max(1.0, running / 4))
    if why.next_in is not None and why.state != "queued":
        return now + min(LATEST_LOOK, max(1.0, why.next_in / 4))
    return now + 10 if why.state in ("queued", "outage") else inf
