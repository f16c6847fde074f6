"""Children that a run no longer wants: deleted at its end, and only if nothing went wrong in it."""

from collections.abc import Collection, Sequence

from informers import APIResource, Key, PreconditionFailed, Snapshot
from reconcile.client.client import Client, core_of, reads_of
from reconcile.models import Object, kind_of


async def prune(
    client: Client,
    owner: Object,
    kinds: Sequence[type[Object]],
    spared: Collection[tuple[APIResource, Key]] = (),
) -> int:
    """Delete the children of `kinds` that the run of `client` has not written; says how many.

    A child is what `owner` controls, by uid. Those that are going already, and those of `spared`, are
    left alone. Each is deleted by its uid, and its own children with it (of a Job the API server would leave
    them). Does nothing where a request of the run has failed: then it is not known what should be there.
    """
    run = core_of(client).run
    if not run.flawless:
        return 0
    deleted = 0
    for kind in kinds:
        resource = kind_of(kind).resource
        for child in await reads_of(client).snapshots(resource, owner.namespace, owner=owner):
            kept = run.keeps(resource, child.key) or (resource, child.key) in spared
            if kept or child.terminating or not _controls(owner, child):
                continue
            deleted += await _delete(client, resource, child)
    return deleted


async def _delete(client: Client, resource: APIResource, child: Snapshot) -> bool:
    try:
        await client.raw.delete_snapshot(resource, child, propagation="Background")
    except PreconditionFailed:
        return False
    return True


def _controls(owner: Object, child: Snapshot) -> bool:
    return any(reference.controller and reference.uid == owner.uid for reference in child.owners)
