"""`reconcile adopt kopf switch` as a person types it, on a server of its own, without kopf."""

import datetime
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import anyio
import pytest

from informers import APIResource
from informers.kubernetes import connect
from reconcile import Client
from reconcile.commands.main import main
from reconcile.predecessors import PEERINGS, entry_of
from reconcile.testing.control_plane import ServerEndpoint
from tests.adoption.kopf_objects import FINALIZER, GROUP, SECRET, managed, record
from tests.clients.gadgets import deployment, gadget_definition
from tests.commands.helpers import complaint
from tests.helpers.definitions import definition

SWITCH = ("adopt", "kopf", "switch", "--kind", f"gadgets.{GROUP}")
GADGETS = APIResource(GROUP, "v1", "Gadget", "gadgets")
DEPLOYMENTS = APIResource("apps", "v1", "Deployment", "deployments")
PEERING = PEERINGS[0]


def on(server: ServerEndpoint, does: Callable[[Client], Awaitable[None]]) -> None:
    async def run() -> None:
        transport = await connect(server.kubeconfig)
        try:
            await does(Client(transport))
        finally:
            await transport.aclose()

    anyio.run(run)


def fill(
    server: ServerEndpoint,
    *objects: Mapping[str, Any],
    peers: Mapping[str, tuple[int, int]] = {},
    replicas: int | None = None,
) -> None:
    """Gadgets, peers by their priority and lifetime, and the Deployment `operator`."""

    async def write(client: Client) -> None:
        peerings = definition(PEERING.kind, group=PEERING.group, subresources={})
        peerings["spec"]["scope"] = "Cluster"
        for document in (gadget_definition(GROUP), peerings):
            await client.create(document)
        now = datetime.datetime.now(datetime.UTC)
        head = {"apiVersion": PEERING.api_version, "kind": PEERING.kind, "metadata": {"name": "default"}}
        made = await client.create(head)
        status = {name: entry_of(priority, seconds, now) for name, (priority, seconds) in peers.items()}
        await client.raw.merge(made, {"status": status}, guard={})
        for obj in objects:
            metadata = {name: value for name, value in obj["metadata"].items() if name != "managedFields"}
            await client.create({**obj, "metadata": metadata})
        if replicas is not None:
            workload = deployment("operator", "operator:1")
            workload["spec"]["replicas"] = replicas
            await client.create(workload)

    on(server, write)


def stored(server: ServerEndpoint) -> Mapping[str, Any]:
    """All that a switch may write."""
    found: dict[str, Any] = {}

    async def read(client: Client) -> None:
        for resource in (GADGETS, DEPLOYMENTS, PEERING):
            found[resource.plural] = [
                one.to_dict() for one in await client.raw.snapshots(resource, live=True)
            ]

    on(server, read)
    return found


def metadata_of(server: ServerEndpoint, name: str) -> Mapping[str, Any]:
    return next(one["metadata"] for one in stored(server)["gadgets"] if one["metadata"]["name"] == name)


def switch(server: ServerEndpoint, *arguments: str) -> int:
    return main([*SWITCH, *arguments, "--kubeconfig", str(server.kubeconfig)])


HALF = managed("half", handled=False, make=record())


# --- the switch ---------------------------------------------------------------------------------------


def test_a_dry_run_says_what_it_would_do_and_changes_nothing(
    cluster: ServerEndpoint, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(cluster, managed("done"), HALF, peers={"me@host": (0, 600)}, replicas=2)
    before = stored(cluster)
    assert switch(cluster, "--deployment", "operator", "--dry-run") == 0
    assert capsys.readouterr().out.splitlines() == [
        "wait until kopf has finished the creation of default/half",
        "freeze 'me@host' in ClusterKopfPeering default, and let handlers that run end (10 s)",
        "scale Deployment default/operator from 2 to 0, and wait until its pods end",
    ]
    assert stored(cluster) == before


def test_it_changes_nothing_without_a_person_or_yes(
    cluster: ServerEndpoint, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(cluster, managed("done"), replicas=1)
    before = stored(cluster)
    arguments = (*SWITCH, "--deployment", "operator", "--kubeconfig", str(cluster.kubeconfig))
    said = "error: nothing was switched: add --yes, or see with --dry-run what it would do\n"
    assert complaint(capsys, *arguments) == said
    assert stored(cluster) == before


def test_it_scales_the_deployment_to_0_and_says_each_step(
    cluster: ServerEndpoint, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(cluster, managed("done"), peers={"me@host": (0, 6)}, replicas=1)
    assert switch(cluster, "--deployment", "default/operator", "--drain", "0.5", "--yes") == 0
    lines = capsys.readouterr().out.splitlines()
    assert "freezing the peers in ClusterKopfPeering default" in lines
    assert "scaling Deployment default/operator to 0" in lines
    assert lines[-1].startswith("the operator on kopf has stopped: start the new operator")
    (workload,), (peering,) = stored(cluster)["deployments"], stored(cluster)["clusterkopfpeerings"]
    assert workload["spec"]["replicas"] == 0
    assert list(peering["status"]) == ["me@host"]
    assert switch(cluster, "--deployment", "operator") == 0
    assert capsys.readouterr().out.startswith("no operator on kopf is seen to be alive: start")


def test_what_stands_against_it_ends_it_with_status_1(
    cluster: ServerEndpoint, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(cluster, HALF)
    assert switch(cluster, "--yes") == 1
    error = capsys.readouterr().err
    assert error.startswith("error: half-way through its creation: default/half: start the operator on kopf")
    assert "--finished NAMESPACE/NAME" in error
    assert SECRET not in error


def test_the_time_limit_says_what_is_missing_and_lifts_the_freeze(
    cluster: ServerEndpoint, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(cluster, managed("done"), peers={"me@host": (0, 600)})
    assert switch(cluster, "--drain", "0", "--timeout", "3", "--yes") == 1
    error = capsys.readouterr().err
    assert "not switched within 3 s: waiting until you have stopped the operator on kopf, which is" in error
    (peering,) = stored(cluster)["clusterkopfpeerings"]
    assert list(peering["status"]) == ["me@host"]


# --- objects that were created by half ----------------------------------------------------------------


def test_an_object_that_a_person_has_seen_to_is_released(
    cluster: ServerEndpoint, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(cluster, managed("done"), HALF)
    assert switch(cluster, "--finished", "default/half", "--dry-run") == 0
    shown = capsys.readouterr().out
    assert shown.splitlines()[0].startswith(f"gadgets.{GROUP} default/half: make (since 2026-11-23T10:00:00")
    assert SECRET not in shown
    assert switch(cluster, "--finished", "default/half", "--yes") == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"released gadgets.{GROUP} default/half"
    metadata = metadata_of(cluster, "half")
    assert metadata["annotations"] == {"kopf.zalando.org/last-handled-configuration": "{}"}
    assert metadata["finalizers"] == [FINALIZER]
    again = (*SWITCH, "--finished", "default/half", "--yes", "--kubeconfig", str(cluster.kubeconfig))
    assert complaint(capsys, *again) == (
        "error: no object default/half of the kinds that were read is half-way through its creation: "
        "check the name, and name its kind with --kind\n"
    )


def test_nothing_is_released_while_an_operator_on_kopf_would_finish_it(
    cluster: ServerEndpoint, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(cluster, HALF, peers={"me@host": (0, 600)}, replicas=1)
    before = stored(cluster)
    assert switch(cluster, "--finished", "default/half", "--yes") == 1
    assert "'me@host' in ClusterKopfPeering default is alive" in capsys.readouterr().err
    options = ("--peering", "other", "--deployment", "operator")
    assert switch(cluster, "--finished", "default/half", "--yes", *options) == 1
    assert "Deployment default/operator runs" in capsys.readouterr().err
    assert stored(cluster) == before


def test_an_object_is_released_beside_an_operator_that_a_manager_has_frozen(cluster: ServerEndpoint) -> None:
    fill(cluster, HALF, peers={"me@host": (0, 600), "reconcile/sites": (100, 600)})
    assert switch(cluster, "--finished", "default/half", "--yes") == 0
    assert "kopf.zalando.org/make" not in metadata_of(cluster, "half")["annotations"]


def test_of_several_objects_all_or_none_are_released(
    cluster: ServerEndpoint, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(cluster, HALF)
    before = stored(cluster)
    names = ("--finished", "default/half", "--finished", "default/other", "--yes")
    assert "no object default/other" in complaint(
        capsys, *SWITCH, *names, "--kubeconfig", str(cluster.kubeconfig)
    )
    assert stored(cluster) == before


@pytest.mark.parametrize("name", ["", "a/b/c", "default/"])
def test_what_is_not_the_name_of_an_object_is_refused(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "is not the name of an object: write NAMESPACE/NAME" in complaint(
        capsys, *SWITCH, "--finished", name
    )


# --- what is left -------------------------------------------------------------------------------------


def test_verify_says_what_is_left(cluster: ServerEndpoint, capsys: pytest.CaptureFixture[str]) -> None:
    fill(cluster, managed("done"), HALF, peers={"me@host": (0, 600)}, replicas=1)
    before = stored(cluster)
    assert switch(cluster, "--verify", "--deployment", "operator") == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in lines[:-1]] == [
        "error    creations",
        "error    objects",
        "error    peers",
        "error    deployments",
    ]
    assert lines[-1] == "something of kopf is left"
    assert stored(cluster) == before


def test_verify_says_that_nothing_is_left(
    cluster: ServerEndpoint, capsys: pytest.CaptureFixture[str]
) -> None:
    bare = managed("done", handled=False, finalizer=False)
    fill(cluster, bare, peers={"me@host": (0, 0)}, replicas=0)
    assert switch(cluster, "--verify", "--deployment", "operator") == 0
    assert capsys.readouterr().out == (
        "nothing of kopf is left on 1 object: leave predecessor= out of the controllers\n"
    )


def test_verify_as_json_has_the_verdict_the_findings_and_what_was_found(
    cluster: ServerEndpoint, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(cluster, managed("left"), replicas=0)
    verify = ("--verify", "--json", "--deployment", "operator")
    assert switch(cluster, *verify) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["nothingLeft"] is False
    (finding,) = found["findings"]
    assert (finding["check"], finding["severity"]) == ("objects", "error")
    assert found["deployments"] == [{"name": "default/operator", "replicas": 0, "pods": 0}]
    assert (found["kinds"][0]["objects"], found["kinds"][0]["withTraces"]) == (1, 1)
    on(cluster, _without_traces)
    assert switch(cluster, *verify) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["nothingLeft"], found["findings"]) == (True, [])


async def _without_traces(client: Client) -> None:
    (left,) = await client.raw.snapshots(GADGETS, live=True)
    gone = {"metadata": {"finalizers": None, "annotations": None}}
    await client.raw.patch(GADGETS, left.key, gone, guard={})


def test_json_is_for_verify_alone(capsys: pytest.CaptureFixture[str]) -> None:
    said = "error: --json is for what --verify finds: add --verify, or leave --json out\n"
    assert complaint(capsys, *SWITCH, "--json") == said


def test_verify_is_run_by_itself(capsys: pytest.CaptureFixture[str]) -> None:
    said = "error: --verify reads and changes nothing: run it by itself\n"
    assert complaint(capsys, *SWITCH, "--verify", "--finished", "default/a") == said
