"""A child that is deleted while the cache is behind: it was never there, so no change tells of its end."""

import pytest

from reconcile import ObjectMeta
from reconcile.kinds import ConfigMap
from reconcile.testing import Apply, Cut, Delete, Expire, Fault, FaultPlan, Refuse, Wait, When, World, replay
from tests.simulation.toys import Plot, PlotSpec, keep, scenario

EAST = Plot(metadata=ObjectMeta("east"), spec=PlotSpec(1))
BED = "/api/v1/namespaces/default/configmaps/east-0"


def the_bed_is_there(world: World) -> None:
    assert [bed.name for bed in world.objects(ConfigMap)] == ["east-0"]


@pytest.mark.rule("write-11")
@pytest.mark.parametrize("broken", [Expire(1), Cut(1)], ids=["expired", "cut"])
@pytest.mark.parametrize("seconds", [0.5, 1.5, 30.0])
def test_a_child_that_was_deleted_before_the_cache_had_it_is_made_again(
    broken: Expire | Cut, seconds: float
) -> None:
    watch = Fault(When("watch", "*/configmaps*"), broken)
    next_tries = Fault(When("*", "*/configmaps", nth=2, times=2), Refuse(500))
    acts = [Wait(1.0), Apply(EAST), Wait(seconds), Delete(BED)]
    replay(scenario(keep, invariants=[the_bed_is_there]), FaultPlan([watch, next_tries], acts))
