"""Which Lease a manager leads by, and as whom: the value of the option, without what it takes to lead."""

import platform

from attrs import evolve, frozen

from informers import Clock


@frozen
class LeaderElection:
    """The Lease, and this candidate's unique `identity`, by default its host's name and a random part."""

    name: str
    namespace: str = "default"
    identity: str = ""

    def identified(self, clock: Clock) -> "LeaderElection":
        """The same with an identity."""
        return self if self.identity else evolve(self, identity=f"{platform.node()}_{clock.uuid()}")
