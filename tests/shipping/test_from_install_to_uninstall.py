"""The whole life of an operator in a cluster, under its rights, and each step killed at its writes."""

import logging
import os
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from reconcile.shipping.chart import chart_of
from reconcile.shipping.chart_values import Choices
from reconcile.shipping.documents import Document
from reconcile.shipping.installation import Installation
from reconcile.shipping.project import Project
from reconcile.testing import simulate
from tests.helpers.chart_renderer import Chart, is_hook
from tests.helpers.sweeps import sweep_runs
from tests.shipping.depots import HOME, NEW, OLD, Depots

pytestmark = pytest.mark.timeout(7200 if "SWEEP_RUNS" in os.environ else 180)

STEPS = ("install", "fill", "upgrade", "roll back", "upgrade again", "uninstall")


HELM_ORDER = (
    "Namespace",
    "PodDisruptionBudget",
    "ServiceAccount",
    "CustomResourceDefinition",
    "ClusterRole",
    "ClusterRoleBinding",
    "Role",
    "RoleBinding",
    "Deployment",
)
"""The order in which Helm installs kinds, of those that this chart has."""


def rendered(
    installation: Installation, kinds: Sequence[Document], values: Mapping[str, Any]
) -> Sequence[Document]:
    """The objects of a release of the chart, in the order of Helm, and then those of its hooks."""
    project = Project(installation.name, installation.image.rpartition(":")[2])
    chart = Chart(chart_of(installation, lambda service: kinds, Choices(), project))
    objects = chart.objects(values, release="depot")
    release = [one for one in objects if not is_hook(one)]
    hooks = [one for one in objects if is_hook(one)]
    return [*sorted(release, key=lambda one: HELM_ORDER.index(one["kind"])), *hooks]


async def life(depots: Depots, count: int) -> None:
    """Install, have users fill it, upgrade, roll back, upgrade again and uninstall."""
    before: Mapping[str, Any] = {}
    depots.step = "install"
    await depots.apply(depots.objects_of(OLD))
    async with depots.running():
        depots.step = "fill"
        depots.fill(count)
        await depots.listed_by(OLD)
        before = depots.specs()
        depots.step = "upgrade"
        await depots.apply(depots.objects_of(NEW))
        await depots.listed_by(NEW)
        assert depots.specs() == before
        depots.name_keepers()
        before = depots.specs()
        await depots.listed_by(NEW)
        depots.step = "roll back"
        await depots.apply(depots.objects_of(OLD, definitions=False))
        await depots.listed_by(OLD)
        assert depots.specs() == before
        depots.step = "upgrade again"
        await depots.apply(depots.objects_of(NEW))
        await depots.listed_by(NEW)
        assert depots.specs() == before
        depots.step = "uninstall"
        assert await depots.uninstall() == [f"the namespace {HOME} stays"]
    assert depots.left() == set()
    assert depots.lists() == {}
    assert depots.cleaned == set(before)
    assert len(before) == count
    assert depots.refused == []


def played(count: int, most_writes: int = 0) -> Depots:
    depots = Depots(rendered, most_writes)
    logging.disable(logging.CRITICAL)  # killed processes say much
    try:
        simulate(life, depots, count, limit_seconds=10_000_000)
    finally:
        logging.disable(logging.NOTSET)
    return depots


def test_an_operator_with_200_objects_is_installed_upgraded_rolled_back_and_uninstalled() -> None:
    depots = played(200)
    assert set(depots.writes) == set(STEPS)
    assert depots.deaths.total() == 0


def test_each_step_survives_the_death_of_its_process_after_each_write(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The suite plays it with 8 objects, SWEEP_RUNS=0 with 200."""
    count = sweep_runs(8) or 200
    depots = played(count, most_writes=1)
    with capsys.disabled():
        told = ", ".join(
            f"{depots.deaths[step]} deaths at {depots.writes[step]} writes of {step}" for step in STEPS
        )
        print(f"\n{count} of 200 objects: {told}")
    for step in STEPS:
        assert depots.deaths[step] == depots.writes[step] > 0
