"""What looks on while runs are executed: for a recording that runs them again."""

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from informers import APIResource
from reconcile.controller.run_result import RunResult
from reconcile.runs.run_request import Cause, Request


class ObservedRun(Protocol):
    def ended(self, outcome: RunResult | None) -> None:
        """The run ended so; None: it was cancelled. Called last, in the task of the run."""


class RunObserver(Protocol):
    """Called in the task of each run, before it takes time, chance or anything else from outside."""

    def began(
        self, request: Request, causes: Sequence[Cause], attempt: int, epoch: int
    ) -> ObservedRun | None:
        """A run begins; None: it is not observed."""

    def forgotten(self, buckets: Collection[int]) -> None:
        """What is remembered of the keys in these buckets is forgotten, and runs left there are cancelled."""


class BucketObserver(Protocol):
    """Called before each change of what a replica has of the objects, where replicas share them."""

    def followed(self, resource: APIResource, buckets: Collection[int]) -> None:
        """The cache of a resource follows the objects of these buckets, and no others."""

    def held(self, epochs: Mapping[int, int], clean: bool) -> None:
        """Buckets are held, each in an epoch; not `clean`: what the former holder wrote last is unknown."""

    def closed(self, buckets: Collection[int]) -> None:
        """No more runs begin in these buckets."""

    def dropped(self, buckets: Collection[int]) -> None:
        """These buckets are not held any more, and runs there are cancelled."""
