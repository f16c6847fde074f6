"""An audit as lines for people and as JSON for programs.

No value of an annotation, and no message of a handler, is in either.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from attrs import asdict

from reconcile.adoption.audit import Audit, counted, ready
from reconcile.adoption.tally import Counts, Sightings, Tally
from reconcile.doctor.findings import Report, printable

MANAGERS: Final = 8
"""Field managers that a line names."""


def facts(audit: Audit) -> Iterator[str]:
    """What was seen, good or bad, in lines that a terminal shows as they are."""
    return map(printable, _facts(audit))


def _facts(audit: Audit) -> Iterator[str]:
    for tally in audit.tallies:
        yield from _kind(tally)
    if not any(tally.shows_kopf for tally in audit.tallies):
        yield f"no traces of kopf on the objects of {counted(audit.looked_at, 'kind')}"
    for peer in audit.peers:
        yield (
            f"peer {peer.identity} in {peer.peering}: priority {peer.priority}, "
            f"alive for {peer.seconds:.0f} s more"
        )
    for one in audit.deployments:
        yield f"Deployment {one.name}: {counted(one.replicas, 'replica')}, {counted(one.pods, 'pod')}"


def _kind(tally: Tally) -> Iterator[str]:
    name, finalizer = tally.kind.resource.name, tally.kind.names.finalizer
    yield (
        f"{name}: {counted(tally.objects, 'object')}, {tally.with_traces:,} with traces of kopf: "
        f"{tally.held:,} held by {finalizer}, {tally.handled:,} handled to the end"
    )
    if tally.finalizers.by_name:
        yield f"  their finalizers: {_listed(tally.finalizers)}"
    if tally.prefixes.by_name:
        yield f"  prefixes of their annotations: {_listed(tally.prefixes)}"
    if tally.results.by_name:
        yield f"  fields of status that kopf wrote, and others may read: {_listed(tally.results)}"
    if tally.owned.by_name:
        most = sorted(tally.owned.by_name.items(), key=lambda one: -one[1])[:MANAGERS]
        yield f"  fields by their manager: {', '.join(f'{name} {count:,}' for name, count in most)}"


def _listed(counts: Counts) -> str:
    return ", ".join(f"{name} ({count:,})" for name, count in sorted(counts.by_name.items()))


def as_json(audit: Audit, report: Report) -> Mapping[str, Any]:
    return {"ready": ready(report), "findings": report.as_json(), **facts_as_json(audit)}


def facts_as_json(audit: Audit) -> Mapping[str, Any]:
    """What was found, without what follows from it."""
    return {
        "kinds": [_kind_as_json(tally) for tally in audit.tallies],
        "kindsRead": audit.looked_at,
        "peers": [asdict(one) for one in audit.peers],
        "deployments": [asdict(one) for one in audit.deployments],
        "webhooks": list(audit.webhooks),
    }


def _kind_as_json(tally: Tally) -> Mapping[str, Any]:
    return {
        "resource": tally.kind.resource.name,
        "objects": tally.objects,
        "withTraces": tally.with_traces,
        "held": tally.held,
        "handled": tally.handled,
        "halfCreated": _sightings_as_json(tally.half_created),
        "begun": _sightings_as_json(tally.begun),
        "underWay": _sightings_as_json(tally.under_way),
        "deleting": _sightings_as_json(tally.deleting),
        "copiesOfSecrets": _sightings_as_json(tally.copies),
        "finalizers": tally.finalizers.by_name,
        "prefixes": tally.prefixes.by_name,
        "results": tally.results.by_name,
        "ownedFields": tally.owned.by_name,
    }


def _sightings_as_json(sightings: Sightings) -> Mapping[str, Any]:
    return {"count": sightings.count, "first": [asdict(one) for one in sightings.first]}
