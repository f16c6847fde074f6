"""Whatever a spec says that its model lets through: it is refused by field, or its objects can be made."""

import copy
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from controllers.workergroups import RayCluster
from controllers.workergroups.fault_tolerance import cleanup_job
from controllers.workergroups.pod_plan import plan_cluster
from controllers.workergroups.ray_autoscaler import permissions
from controllers.workergroups.ray_pods import head_pod, worker_pod
from controllers.workergroups.ray_services import endpoints, head_ingress, head_service, services
from controllers.workergroups.raycluster_spec import cluster_view
from controllers.workergroups.raycluster_status import failure_in_plan, status_of
from controllers.workergroups.raycluster_view import ClusterView
from reconcile.blocks import NewHost
from reconcile.errors import DecodeError
from reconcile.models import decode, encode
from tests.controllers.ray_views import is_idle

NOW = datetime(2026, 3, 1, tzinfo=UTC)
OWN = Path(__file__).parent / "rayclusters"
GIVEN = [yaml.safe_load((OWN / f"{name}.yaml").read_text()) for name in ("fault-tolerant", "several-hosts")]
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 70_000)
    | st.sampled_from(["", "a", "a b", "-1", "1Gi", "true"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["name", "spec", "env", "a"]), inner, max_size=2)
    ),
    max_leaves=4,
)


def paths(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    children = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, child in children:
        yield (*path, key)
        yield from paths(child, (*path, key))


@st.composite
def specs(draw: st.DrawFn) -> dict[str, Any]:
    """A cluster that makes sense, but for up to three fields that are anything."""
    made = copy.deepcopy(draw(st.sampled_from(GIVEN)))
    for _ in range(draw(st.integers(1, 3))):
        *way, last = draw(st.sampled_from(list(paths(made["spec"]))))
        node = made["spec"]
        for key in way:
            node = node[key]
        node[last] = draw(JSON)
    made["metadata"] |= {"uid": "u", "namespace": "default"}
    return made


def make_all(view: ClusterView) -> list[Any]:
    """Everything that a run would send for a new cluster."""
    made = [head_pod(view), head_service(view), *services(view), *head_ingress(view), *permissions(view)]
    made += [worker_pod(view, group, NewHost("r", 0, 0, 1)) for group in view.groups]
    return [*made, cleanup_job(view, head_pod(view)), endpoints(view)]


@pytest.mark.rule("kuberay-1d-bad-input")
@given(specs())
def test_a_spec_is_refused_by_field_or_its_objects_can_be_created(manifest: dict[str, Any]) -> None:
    try:
        read = decode(RayCluster, msgspec.json.encode(manifest))
    except DecodeError:
        return  # the definition would not have let it through
    view = cluster_view(encode(read))
    plan = plan_cluster(view, [], NOW)
    status = status_of(view, [], failure=failure_in_plan(plan))
    if view.refused:
        assert is_idle(plan)
        assert all("spec" in str(one) for one in view.refused)
        assert status.state == "failed"
        return
    msgspec.json.encode(make_all(view))
