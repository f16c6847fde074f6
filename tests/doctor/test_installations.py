"""Other ways to install an operator, and to look at it: all healthy, or with one fault."""

import pytest

from reconcile.doctor.findings import Finding
from reconcile.embedded import service_account
from reconcile.kinds import Lease
from tests.doctor.clinic import POD, Clinic, clinic
from tests.helpers.scenarios import simulated

RING = ("--sharding", "sites", "--replicas", "2")


def lines(findings: list[Finding]) -> list[str]:
    return [finding.line() for finding in findings]


@pytest.mark.parametrize("options", [RING, ("--namespaces", "shop"), ("--owner-finalizers",)])
@simulated
async def test_every_way_to_install_an_operator_is_healthy(options: tuple[str, ...]) -> None:
    async with clinic(*options) as ward:
        found = [*await ward.findings()]
    assert lines(found) == []


@simulated
async def test_an_operator_is_looked_at_without_its_code() -> None:
    async with clinic() as ward:
        report = await ward.report(module="")
    assert lines([*report.findings]) == []
    assert {"rights", "definitions"}.isdisjoint(report.checked)
    assert report.summary() == "checked 9 things: nothing found"


@simulated
async def test_what_rights_do_not_show_is_a_finding_of_each_check_that_needs_it() -> None:
    async with clinic() as ward:
        found = [*await ward.findings(user=service_account("default", "nothing"))]
    assert {finding.severity for finding in found} == {"unknown"}
    unknown = {finding.check for finding in found}
    assert unknown == {
        "operator",
        "rights",
        "definitions",
        "stored-versions",
        "webhooks",
        "finalizers",
        "leases",
        "api-priority",
    }
    assert all("your rights do not allow it" in finding.what for finding in found)


async def buckets_without_owner(ward: Clinic) -> list[Finding]:
    await ward.stop()
    lease = await ward.admin.find(Lease, f"sites-{POD}-1", "sites-system")
    if lease is not None:
        await ward.admin.delete(lease)
    return [*await ward.findings()]


@simulated
async def test_buckets_of_a_ring_that_lost_its_members_have_no_owner() -> None:
    async with clinic(*RING) as ward:
        (found,) = await buckets_without_owner(ward)
    assert (found.check, found.severity) == ("leases", "error")
    assert "has 5 of 5 buckets without a live owner: 0-4" in found.what
    assert "reconcile shards sites-system/sites" in found.next_step


@simulated
async def test_a_clock_that_is_ahead_of_the_servers_lets_no_lease_of_a_ring_run_out() -> None:
    async with clinic(*RING) as ward:
        ward.ahead = 60.0
        found = [*await ward.findings()]
    assert [one.check for one in found] == ["clock"]


@pytest.mark.parametrize("ring", [False, True])
@simulated
async def test_the_arguments_of_a_bundle_name_the_namespace_of_the_pod(ring: bool) -> None:
    async with clinic(*(RING if ring else ())) as ward:
        path = "/apis/apps/v1/namespaces/sites-system/deployments/sites"
        deployment = ward.change("GET", path)
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        told = [text.replace("sites-system/", "$(POD_NAMESPACE)/") for text in container["args"]]
        assert told != container["args"]
        container["args"] = told
        ward.change("PUT", path, deployment)
        found = [*await ward.findings()]
    assert lines(found) == []


@simulated
async def test_an_operator_that_is_not_installed_is_one_error() -> None:
    async with clinic() as ward:
        await ward.stop()
        ward.change("DELETE", "/apis/apps/v1/namespaces/sites-system/deployments/sites")
        found = [*await ward.findings()]
    assert [(one.check, one.severity) for one in found if one.severity == "error"] == [("operator", "error")]


@pytest.mark.parametrize(
    ("options", "words"),
    [(RING, "--sharding sites-system/sites`"), (("--namespaces", "shop"), "--namespaces shop`")],
)
@simulated
async def test_the_command_for_missing_rights_prints_those_of_this_installation(
    options: tuple[str, ...], words: str
) -> None:
    async with clinic(*options) as ward:
        path = "/apis/rbac.authorization.k8s.io/v1"
        path += "/clusterroles/sites" if options == RING else "/namespaces/shop/roles/sites"
        role = ward.change("GET", path)
        role["rules"] = [rule for rule in role["rules"] if rule["resources"] != ["sites/status"]]
        ward.change("PUT", path, role)
        (found,) = await ward.findings()
    assert (found.check, found.severity) == ("rights", "error")
    assert words in found.next_step
