"""All bugs of the zoo."""

from collections.abc import Sequence

from tests.verification.zoo import intermediate_states, several_faults, stale_states
from tests.verification.zoo.patterns import BugPattern

ZOO: Sequence[BugPattern] = (*intermediate_states.BUGS, *stale_states.BUGS, *several_faults.BUGS)

BY_NAME = {bug.name: bug for bug in ZOO}
