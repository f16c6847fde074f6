"""Keeps an operator on kopf frozen that a controller replaces (option `freeze_predecessor`).

In a rollout of one Deployment the pods of the old operator end only when those of the new one are ready, so
the new one cannot wait for their end. It signs in their peering object with a higher priority instead, by
which they pause, and renews the entry as long as it works.

The entry is not removed at the end, but expires: an operator on kopf that went on would take the objects
which were taken over, and so have none of its annotations, for new ones. So a new pod of ours has time to
come up. `reconcile adopt kopf back` removes the entry.
"""

from collections.abc import Sequence
from typing import Final

import anyio
from attrs import define, field

from informers import ApiError, Clock, NotFound, Transport, get_logger
from reconcile.client.kopf_peerings import OWN, Peering, PeeringNotKept, Signature
from reconcile.client.sender import Sender

LIFETIME: Final = 600
"""Seconds for which the operator on kopf stays frozen after the last renewal."""
RENEWAL: Final = 60.0
SETTLING: Final = 10.0
"""Seconds for handlers that run to end, and for operators on kopf to note the entry: none confirms it."""
SHOWN: Final = 5
IDENTITY: Final = 100
"""Peers that are logged, and characters of their names: those who may write a peering object choose them."""

_log = get_logger("reconcile")


@define(eq=False)
class PredecessorFreeze:
    signature: Signature
    _signed: dict[str, Peering] = field(factory=dict, init=False)

    async def begin(self, peerings: Sequence[Peering]) -> None:
        """Freeze the operators of these peering objects; returns when they had time to pause.

        Those that start later pause too. Raises PeeringNotKept and ApiError.
        """
        now = self.signature.clock.now()
        new = {str(one): one for one in peerings if str(one) not in self._signed}
        for one in new.values():
            await self.signature.sign(one)
        frozen = [peer for one in new.values() for peer in one.operators(now)]
        if frozen:
            names = [peer.identity[:IDENTITY] for peer in frozen[:SHOWN]]
            _log.info("froze the predecessor", peers=names, count=len(frozen), settling=SETTLING)
            await anyio.sleep(SETTLING)
        self._signed |= new

    async def keep(self) -> None:
        """Renew the entries, for as long as this manager works."""
        while True:
            await anyio.sleep(RENEWAL)
            for name, peering in list(self._signed.items()):
                try:
                    await self.signature.sign(peering)
                except NotFound:
                    del self._signed[name]
                except (ApiError, PeeringNotKept) as error:
                    _log.warning("the freeze of the predecessor was not renewed", error=str(error))


def freeze_of(transport: Transport, clock: Clock, name: str) -> PredecessorFreeze:
    """The freeze that the operator `name` signs for."""
    return PredecessorFreeze(Signature(Sender(transport, clock), clock, f"{OWN}{name}", LIFETIME))
