"""What of an operator on kopf is left after a switch, as findings. Pure functions."""

from collections.abc import Iterator
from typing import Final

from reconcile.adoption.audit import counted
from reconcile.adoption.switch_plan import Seen, names_of, peer_text
from reconcile.adoption.tally import Sightings, Tally
from reconcile.client.kopf_peerings import OWN
from reconcile.doctor.findings import Finding, Report

CHECKS: Final = ("objects", "creations", "prefixes", "peers", "deployments", "webhooks")


def leftovers(seen: Seen) -> Report:
    """Errors: something of kopf's is left; warnings: it may be another operator's, or goes by itself."""
    findings = [finding for tally in seen.audit.tallies for finding in _of_kind(tally)]
    findings += [
        Finding("peers", "error", f"{peer_text(peer)} in {one}", "is alive", "stop that operator on kopf")
        for one, peer in seen.live
    ]
    findings += [
        Finding(
            "peers",
            "warning",
            f"{peer_text(peer)} in {one}",
            f"freezes operators on kopf for {peer.seconds_left(seen.now):.0f} s more",
            "it expires, once start the manager without freeze_predecessor",
        )
        for one in seen.peerings
        for peer in one.peers
        if peer.identity.startswith(OWN) and peer.is_alive(seen.now)
    ]
    findings += [
        Finding(
            "deployments",
            "error",
            one.name,
            f"has {counted(one.replicas, 'replica')} and {counted(one.pods, 'pod')}",
            "stop it with reconcile adopt kopf switch; leave --deployment out if it is the new operator",
        )
        for one in seen.audit.deployments
        if not one.stopped
    ]
    findings += [
        Finding("webhooks", "error", name, "is a webhook configuration of kopf", "delete it")
        for name in seen.audit.webhooks
    ]
    findings += [one.finding("objects") for one in seen.audit.unread]
    return Report(CHECKS, findings)


def _of_kind(tally: Tally) -> Iterator[Finding]:
    name = tally.kind.resource.name
    held = Sightings(
        tally.half_created.count + tally.begun.count, [*tally.half_created.first, *tally.begun.first]
    )
    if held.count:
        yield Finding(
            "creations",
            "error",
            f"{name}: {counted(held.count, 'object')}",
            f"held, as kopf began to create them and did not finish: {names_of(held)}",
            "see to each, then reconcile adopt kopf switch --finished NAMESPACE/NAME",
        )
    if others := tally.with_traces - held.count:
        yield Finding(
            "objects",
            "error",
            f"{name}: {counted(others, 'object')}",
            f"with what kopf left; its finalizer holds {counted(tally.held, 'object')}",
            "it goes with the first good run of the new operator for each: see which fail",
        )
    for prefix, count in sorted(tally.prefixes.by_name.items()):
        if prefix != tally.kind.names.prefix:
            yield Finding(
                "prefixes",
                "error" if tally.kind.any_prefix else "warning",
                f"{name}: {counted(count, 'object')}",
                f"with annotations of kopf under {prefix}",
                f"verify with --prefix {prefix}, unless that is another operator",
            )
