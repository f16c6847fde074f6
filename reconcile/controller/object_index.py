"""An index of `Controller(indexes=)` in the store of its kind."""

from collections.abc import Hashable, Iterable
from typing import Any

from attrs import define

from informers import Snapshot
from informers.cancellation import FAILURES
from reconcile.client.object_indexes import Index
from reconcile.controller.function_failures import FunctionFailures
from reconcile.models import DecodeError, kind_of


@define(eq=False)
class ObjectIndex:
    """The values of one object, for the store; none where the author's function fails, which is logged."""

    name: str
    index: Index[Any]
    failures: FunctionFailures

    def __call__(self, snapshot: Snapshot) -> Iterable[Hashable]:
        try:
            return self.index.values(snapshot)
        except DecodeError:
            return ()  # a list of the kind fails for that object, and says so
        except FAILURES as error:
            place, instead = f"indexes= {self.name!r}: {self.index}", "the index leaves the object out"
            resource = kind_of(self.index.kind).resource
            self.failures.report(place, self.index.by, error, instead, resource, [snapshot])
            return ()
