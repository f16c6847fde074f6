"""All bugs of the zoo."""

from collections.abc import Sequence

from tests.verification.zoo import (
    intermediate_states,
    liveness,
    orders_of_runs,
    outside_worlds,
    several_faults,
    spec_handling,
    stale_restarts,
    stale_states,
    unobserved_states,
)
from tests.verification.zoo.patterns import BugPattern

ZOO: Sequence[BugPattern] = (
    *intermediate_states.BUGS,
    *stale_restarts.BUGS,
    *stale_states.BUGS,
    *unobserved_states.BUGS,
    *orders_of_runs.BUGS,
    *several_faults.BUGS,
    *outside_worlds.BUGS,
    *liveness.BUGS,
    *spec_handling.BUGS,
)

BY_NAME = {bug.name: bug for bug in ZOO}
