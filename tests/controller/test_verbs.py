"""Which verbs a controller may declare."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from informers import APIResource
from reconcile import Context, Controller, Object, Write, resource
from reconcile.controller.permissions import permissions_of
from reconcile.controller.rbac_verbs import REQUEST_VERBS, check_verb, ordered
from reconcile.kinds import ConfigMap, Pod, ServiceAccount
from reconcile.testing import FakeClient, run_once
from tests.helpers.managers import Toy, idle


@resource("rbac.authorization.k8s.io/v1", namespaced=False)
class ClusterRole(Object):
    """As far as a right to it needs it."""


@resource("certificates.k8s.io/v1", namespaced=False)
class Signer(Object):
    """No server has objects of it; RBAC knows it."""


@resource("cert-manager.io/v1", kind="Signer", namespaced=False)
class ForeignSigner(Object):
    """An extension asks for verbs of its own."""


@pytest.mark.parametrize(
    ("kind", "verbs"),
    [
        (ClusterRole, ("bind", "escalate")),
        (ServiceAccount, ("impersonate",)),
        (Signer, ("approve", "attest", "sign")),
        (ForeignSigner, ("approve", "reference")),
        (Toy, ("approve", "use")),
        (Pod, ("use",)),
        (Toy, ("mark-done", "impersonate:user-info")),
        (Toy, ("list", "deletecollection", "frobnicate")),
    ],
)
def test_verbs_outside_of_requests_can_be_declared(kind: type[Object], verbs: tuple[str, ...]) -> None:
    rights = permissions_of([Controller(Toy, idle, writes=[Write(kind, verbs)])])
    granted = {verb for one in rights for verb in one.verbs if one.resource == kind.__kind__.resource.plural}
    assert set(verbs) <= granted


async def test_permission_to_bind_does_not_permit_writes() -> None:
    async def write(ctx: Context[Toy]) -> None:
        await ctx.client.delete(await ctx.client.get(ConfigMap, "map", "default"))

    toy = {"metadata": {"name": "toy"}, "apiVersion": "toys.example.com/v1", "kind": "Toy"}
    client = FakeClient({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "map"}})
    client.serve(Toy)
    client.add(toy)
    done = await run_once(Controller(Toy, write, writes=[Write(ConfigMap, ("use",))]), "toy", client)
    assert done.undeclared == ['Write(ConfigMap, ("delete",))']


@pytest.mark.parametrize(
    ("kind", "verb", "fault"),
    [
        (Pod, "getx", r"Write\(Pod\): 'getx' is not an RBAC verb: use 'get'"),
        (Pod, "lst", "use 'list'"),
        (Pod, "creat", "use 'create'"),
        (Pod, "patched", "use 'patch'"),
        (Pod, "GET", "use 'get'"),
        (Pod, "deletecolection", "use 'deletecollection'"),
        (Pod, "apply", "use 'patch'"),
        (Pod, "put", "use 'update'"),
        (Pod, "read", "use 'get'"),
        (ClusterRole, "excalate", "use 'escalate'"),
        (Pod, "*", "expected words in lower case"),
        (Pod, "", "expected words in lower case"),
        (Pod, "mark done", "expected words in lower case"),
        (Pod, "bind", r"'bind' is an RBAC verb for Role and ClusterRole, not for pods"),
        (ConfigMap, "impersonate", "'impersonate' is an RBAC verb for users, groups"),
        (
            ClusterRole,
            "sign",
            "'sign' is an RBAC verb for signers of certificates.k8s.io, not for clusterroles",
        ),
    ],
)
def test_a_misspelt_or_misplaced_verb_is_refused_with_a_suggestion(
    kind: type[Object], verb: str, fault: str
) -> None:
    with pytest.raises(ValueError, match=fault):
        Write(kind, (verb,))


@given(st.sampled_from(REQUEST_VERBS), st.integers(0, 20), st.sampled_from("abcxyz"))
def test_a_common_verb_with_one_wrong_letter_is_never_accepted(verb: str, place: int, letter: str) -> None:
    at = place % len(verb)
    wrong = verb[:at] + letter + verb[at + 1 :]
    if wrong in REQUEST_VERBS or len(verb) < 4:
        return
    with pytest.raises(ValueError, match=f"use {verb!r}|use "):
        check_verb(wrong, APIResource("", "v1", "Pod", "pods"))


def test_a_rule_lists_request_verbs_first_and_the_others_alphabetically() -> None:
    assert ordered({"sign", "patch", "approve", "get"}) == ("get", "patch", "approve", "sign")
