"""Objects that hang: whose finalizer it is, and the command that mends each, run by kubectl."""

import datetime
import json
import shlex
import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconcile.doctor.finalizers import Stuck, mend
from reconcile.doctor.findings import Finding
from reconcile.testing.control_plane import embedded
from tests.doctor.clinic import OTHER_POD, POD, Clinic, clinic
from tests.helpers.scenarios import simulated

KUBECTL = shutil.which("kubectl")
SITES = "/apis/example.com/v1/namespaces/default/sites"


async def deleted_site(ward: Clinic, minutes: float) -> None:
    """A Site that the operator has not let go, and that was deleted so long ago."""
    body = {"apiVersion": "example.com/v1", "kind": "Site", "spec": {"image": "nginx"}}
    metadata = {"name": "web", "finalizers": ["other.io/first", "example.com/site"]}
    ward.change("POST", SITES, {**body, "metadata": metadata})
    ward.change("DELETE", f"{SITES}/web")
    ward.client.clock.advance(datetime.timedelta(minutes=minutes).total_seconds())


def own(findings: list[Finding]) -> Finding:
    (found,) = [one for one in findings if one.check == "finalizers" and "example.com/site" in one.what]
    return found


@simulated
async def test_a_finalizer_of_an_operator_that_does_not_run_is_an_error_with_its_patch() -> None:
    async with clinic() as ward:
        await ward.stop()
        for name in (POD, OTHER_POD):
            ward.change("DELETE", f"/api/v1/namespaces/sites-system/pods/{name}")
        await deleted_site(ward, 20)
        found = own([*await ward.findings()])
    assert found.severity == "error"
    assert "of sites-system/sites, which is not running" in found.what
    assert "kubectl patch sites.example.com web -n default --type=json -p " in found.next_step


@simulated
async def test_a_cleanup_that_does_not_end_is_to_be_explained_and_not_patched() -> None:
    async with clinic() as ward:
        await ward.stop()
        await deleted_site(ward, 20)
        found = own([*await ward.findings()])
    assert found.severity == "warning"
    assert found.next_step.endswith("reconcile explain sites.example.com default/web")


@simulated
async def test_an_object_that_was_deleted_a_moment_ago_is_not_stuck() -> None:
    async with clinic() as ward:
        await ward.stop()
        await deleted_site(ward, 2)
        assert [one for one in await ward.findings() if one.check == "finalizers"] == []


@given(st.text(min_size=1), st.text(min_size=1))
def test_a_command_that_mends_is_the_same_words_to_a_shell_whatever_the_names_are(
    name: str, finalizer: str
) -> None:
    words = shlex.split(mend(Stuck("sites.example.com", "shop", name, 0.0, ["a", finalizer]), finalizer))
    assert words[:6] == ["kubectl", "patch", "sites.example.com", name, "-n", "shop"]
    test, remove = json.loads(words[-1])
    assert test["value"] == finalizer
    assert remove == {"op": "remove", "path": test["path"]}


@pytest.mark.skipif(KUBECTL is None, reason="this machine has no kubectl")
def test_kubectl_runs_the_command_that_mends_and_the_object_goes() -> None:
    assert KUBECTL is not None
    with embedded() as server:
        base = [KUBECTL, "--kubeconfig", str(server.kubeconfig)]

        def kubectl(*arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
            return subprocess.run(
                [*base, *arguments], input=text, capture_output=True, text=True, check=False
            )

        metadata = {"name": "web", "namespace": "default", "finalizers": ["a.io/keep", "b.io/gone"]}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
        assert kubectl("create", "-f", "-", text=json.dumps(body)).returncode == 0
        kubectl("delete", "configmap", "web", "--wait=false")
        left = ["a.io/keep", "b.io/gone"]
        for finalizer in ("b.io/gone", "a.io/keep"):
            stuck = Stuck("configmaps", "default", "web", 600.0, [*left])
            left.remove(finalizer)
            done = kubectl(*shlex.split(mend(stuck, finalizer))[1:])
            assert done.returncode == 0, done.stderr
        assert "NotFound" in kubectl("get", "configmap", "web").stderr
