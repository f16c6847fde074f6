"""What stands against taking a cluster over from an operator on kopf, as findings. Pure functions."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from attrs import frozen

from reconcile.adoption.tally import Sighting, Sightings, Tally
from reconcile.doctor.findings import Finding, Report, Unread

CHECKS: Final = ("objects", "creations", "changes", "deletions", "prefixes", "webhooks", "secrets")
SHOWN: Final = 5
"""Objects that a finding names; the JSON has more."""


@frozen
class SeenPeer:
    """A live entry of a peering object; `seconds` until it expires unless it is renewed."""

    peering: str
    identity: str
    priority: int
    seconds: float


@frozen
class SeenDeployment:
    """A Deployment of the former operator: the replicas that it is to have, and the pods that have not
    ended, those that are being deleted included.
    """

    name: str
    replicas: int
    pods: int = 0

    @property
    def stopped(self) -> bool:
        return not (self.replicas or self.pods)


@frozen
class Audit:
    """What was found in a cluster. `looked_at` is how many kinds were read, with traces or without."""

    tallies: Sequence[Tally] = ()
    looked_at: int = 0
    peers: Sequence[SeenPeer] = ()
    deployments: Sequence[SeenDeployment] = ()
    webhooks: Sequence[str] = ()
    unread: Sequence[Unread] = ()

    @property
    def alive(self) -> bool:
        """Whether an operator on kopf runs, as far as peers and Deployments show."""
        return bool(self.peers) or any(not one.stopped for one in self.deployments)


def judged(audit: Audit) -> Report:
    """What stands against a switch now: an error has to be mended first, a warning is a risk to know of."""
    findings = [finding for tally in audit.tallies for finding in _of_kind(tally, audit.alive)]
    findings += [
        Finding(
            "webhooks",
            "warning",
            name,
            "is a webhook configuration of kopf, which stays when its operator is killed",
            "delete it once the operator has stopped: the API server would call a server that is gone",
        )
        for name in audit.webhooks
    ]
    findings += [one.finding("objects") for one in audit.unread]
    return Report(CHECKS, findings)


def ready(report: Report) -> bool:
    """Whether nothing stands against it: no error, and nothing that could not be read."""
    return all(one.severity == "warning" for one in report.findings)


def next_step(audit: Audit, report: Report) -> str:
    """The verdict, and what to do now, in one line."""
    if not ready(report):
        return "not ready: see to the lines with error and unknown, and run the audit again"
    if audit.alive:
        return "ready: stop the operator on kopf with `reconcile adopt kopf switch`, then start the new one"
    return "ready: no operator on kopf is seen to be alive; start the new one"


def _of_kind(tally: Tally, alive: bool) -> Iterator[Finding]:
    name = tally.kind.resource.name
    if tally.half_created.count:
        yield Finding(
            "creations",
            "error",
            f"{name}: {_objects(tally.half_created)}",
            "half-way through their creation, so something may have been done outside of the cluster: "
            f"{_named(tally.half_created)}",
            "let the operator on kopf finish them"
            if alive
            else "see to each, then reconcile adopt kopf switch --finished NAMESPACE/NAME",
        )
    if tally.begun.count:
        yield Finding(
            "creations",
            "warning",
            f"{name}: {_objects(tally.begun)}",
            f"held by kopf and never handled to the end: {_named(tally.begun)}",
            "let the operator on kopf finish them"
            if alive
            else "the new operator holds them, unless its Predecessor.kopf has unfinished='run': see to each",
        )
    if tally.under_way.count:
        yield Finding(
            "changes",
            "warning",
            f"{name}: {_objects(tally.under_way)}",
            f"with handlers that are not through: {_named(tally.under_way)}",
            "wait for them, or the new operator does that work from the start",
        )
    if tally.deleting.count:
        yield Finding(
            "deletions",
            "warning",
            f"{name}: {_objects(tally.deleting)}",
            f"being deleted and held by kopf: {_named(tally.deleting)}",
            "wait for them, or the new operator cleans them up from the start",
        )
    yield from _prefixes(tally)
    if tally.copies.count:
        yield Finding(
            "secrets",
            "warning",
            f"{name}: {_objects(tally.copies)}",
            f"with a copy of Secret data in an annotation under {tally.kind.names.prefix}: "
            f"{_named(tally.copies)}",
            "it goes after the new operator's first good run; until then it is shown with the metadata",
        )


def _prefixes(tally: Tally) -> Iterator[Finding]:
    for prefix, count in sorted(tally.prefixes.by_name.items()):
        if prefix == tally.kind.names.prefix:
            continue
        unsure = tally.kind.any_prefix
        yield Finding(
            "prefixes",
            "error" if unsure else "warning",
            f"{tally.kind.resource.name}: {counted(count, 'object')}",
            f"with annotations of kopf under {prefix}, which this audit did not read",
            f"audit with --prefix {prefix}" if unsure else "another operator on kopf keeps them too",
        )


# --- words ----------------------------------------------------------------------------------------


def counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _objects(sightings: Sightings) -> str:
    return counted(sightings.count, "object")


def _named(sightings: Sightings) -> str:
    texts = [_text_of(one) for one in sightings.first[:SHOWN]]
    more = sightings.count - len(texts)
    return ", ".join(texts) + (f" and {more:,} more" if more else "")


def _text_of(sighting: Sighting) -> str:
    if not sighting.handlers:
        return sighting.object
    parts = [_few(sighting.handlers)]
    parts += [f"since {sighting.since}"] if sighting.since else []
    parts += [counted(sighting.attempts, "attempt")] if sighting.attempts else []
    return f"{sighting.object} ({'; '.join(parts)})"


def _few(names: Iterable[str]) -> str:
    every = list(names)
    more = [f"{len(every) - SHOWN} more"] if len(every) > SHOWN else []
    return ", ".join([*every[:SHOWN], *more])
