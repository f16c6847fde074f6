"""The fixtures. Each imports what it needs when a test first uses it, so that the plugin loads fast."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from reconcile.testing import VirtualClock
    from reconcile.testing.cluster_places import ClusterPlace, ListeningServer, VirtualCluster
    from reconcile.testing.control_plane import ServerEndpoint
    from reconcile.testing.fixture_handles import FaultControl, ManagerRunner, NodesRunner

SEED = pytest.StashKey[int]()
"""The seed of a test in virtual time."""
_SERVER = pytest.StashKey["ServerEndpoint"]()


@pytest.fixture
def cluster(request: pytest.FixtureRequest) -> "VirtualCluster":
    """A cluster inside the test, in virtual time: `client`, `clock`, `server`."""
    from reconcile.testing.cluster_places import VirtualCluster

    return VirtualCluster(request.node.stash.get(SEED, 0))


@pytest.fixture
def clock(cluster: "VirtualCluster") -> "VirtualClock":
    """The clock of the cluster: `now()`, and `advance(seconds)` where its wall time jumps."""
    return cluster.clock


@pytest.fixture
def api_server(request: pytest.FixtureRequest) -> "Iterator[ListeningServer]":
    """A server on HTTPS, in real time: embedded, or a real one where KUBEBUILDER_ASSETS is set."""
    from reconcile.testing import cluster_places, control_plane

    with ExitStack() as stack:
        folder = control_plane.assets()
        if folder is None:
            endpoint = stack.enter_context(control_plane.embedded())
        else:
            endpoint = _shared(request.session, folder)
        yield cluster_places.listening_server(endpoint)


@pytest.fixture
def faults(request: pytest.FixtureRequest) -> "FaultControl":
    """Faults between managers and their server: `add`, `fail`, `crash`, `applied`, `writes`."""
    from reconcile.testing.fixture_handles import FaultControl

    return FaultControl(_place(request))


@pytest.fixture
def manager(request: pytest.FixtureRequest) -> "ManagerRunner":
    """Runs managers: `async with manager(sites) as running:`."""
    from reconcile.testing.fixture_handles import ManagerRunner

    return ManagerRunner(_place(request))


@pytest.fixture
def nodes(request: pytest.FixtureRequest) -> "NodesRunner":
    """Runs simulated nodes: `async with nodes(3):`."""
    from reconcile.testing.fixture_handles import NodesRunner

    return NodesRunner(_place(request))


def _place(request: pytest.FixtureRequest) -> "ClusterPlace":
    name = "api_server" if "api_server" in request.fixturenames else "cluster"
    place: ClusterPlace = request.getfixturevalue(name)
    return place


def _shared(session: pytest.Session, folder: "Path") -> "ServerEndpoint":
    """The real server of this session, started when the first test needs it."""
    from reconcile.testing import control_plane

    endpoint = session.stash.get(_SERVER, None)
    if endpoint is None:
        stack = ExitStack()
        endpoint = stack.enter_context(control_plane.real(folder))
        session.config.add_cleanup(stack.close)
        session.stash[_SERVER] = endpoint
    return endpoint
