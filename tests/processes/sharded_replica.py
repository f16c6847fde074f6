"""One replica of a ring in a process of its own: each generation of an object has one effect outside."""

from functools import partial
from pathlib import Path

from informers.kubernetes import connect
from reconcile import Context, Controller, Intent, ObjectMeta
from reconcile.kinds import ConfigMap
from reconcile.manager.leadership import LeaseTerms
from reconcile.sharding import Sharding
from tests.helpers.managers import Toy
from tests.processes import ledger, replica

NAMESPACE = "work"
TERMS = LeaseTerms(3.0, 2.0, 0.4)
"""Short, so that many members come and go."""
BUCKETS = 64


async def keep(port: int, identity: str, ctx: Context[Toy]) -> None:
    """Have the effect of this generation once, then a child and a status that show it."""
    toy = ctx.object
    generation = toy.metadata.generation or 0
    await ctx.run_sync(ledger.note_once, port, toy.uid, generation, ctx.epoch, identity)
    size = str(toy.spec.size)
    await ctx.apply(Intent(ConfigMap, metadata=ObjectMeta(f"of-{toy.name}"), data={"size": size}))
    ctx.status(size=toy.spec.size)


def run(folder: Path, identity: str, kubeconfig: str, port: int) -> None:
    """Work as a member of the ring until SIGTERM, or until the Lease is lost; `port` is the ledger's."""
    controller = Controller(Toy, partial(keep, port, identity), name="toys", owns=[ConfigMap])
    replica.operate(
        folder,
        identity,
        partial(connect, folder / kubeconfig),
        controller,
        namespace=NAMESPACE,
        sharding=Sharding("ring", NAMESPACE, buckets=BUCKETS, identity=identity),
        lease_seconds=TERMS.duration,
        renew_seconds=TERMS.renew_deadline,
        retry_seconds=TERMS.retry,
        stop_seconds=6.0,
    )
