"""The least rights of controllers, in full: what is not in these lists nobody may do."""

from typing import Any

import pytest

from reconcile import Controller, Object, Watch, Write, resource
from reconcile.controller.declaration import Predecessor
from reconcile.controller.permissions import (
    Permission,
    beyond_namespaces,
    definition_permissions,
    lease_permissions,
    merged,
    permissions_of,
    predecessor_permissions,
    review_permissions,
)
from reconcile.kinds import ConfigMap, Deployment, Namespace, Node, Pod, Secret
from reconcile.models.versions import is_custom
from tests.helpers.managers import Toy, idle

READ = ("get", "list", "watch")
EVENTS = Permission("events.k8s.io", "events", ("create", "patch"))


@resource("plain.example.com/v1")
class Plain(Object):
    size: int = 0


@resource("plain.example.com/v1", has_status=False)
class Old(Object):
    status: str = ""


@resource("v1.networking.k8s.io/v1", kind="Route")
class Beside(Object):
    status: str = ""


@resource("networking.k8s.io/v1", kind="IngressClass", namespaced=False)
class OfKubernetes(Object):
    status: str = ""


@pytest.mark.parametrize(
    ("controller", "rights"),
    [
        (
            Controller(Toy, idle),
            [
                EVENTS,
                Permission("toys.example.com", "toys", READ),
                Permission("toys.example.com", "toys/status", ("patch",)),
            ],
        ),
        (
            Controller(Old, idle),  # its status is written with the object
            [EVENTS, Permission("plain.example.com", "olds", (*READ, "patch"))],
        ),
        (
            Controller(Toy, idle, cleanup=idle),
            [
                EVENTS,
                Permission("toys.example.com", "toys", (*READ, "patch")),
                Permission("toys.example.com", "toys/status", ("patch",)),
            ],
        ),
        (Controller(Plain, idle), [EVENTS, Permission("plain.example.com", "plains", READ)]),
        (Controller(Deployment, idle), [Permission("apps", "deployments", READ), EVENTS]),
        (
            Controller(Plain, idle, owns=[ConfigMap, Secret], writes=[Write(Secret, ("deletecollection",))]),
            [
                Permission("", "configmaps", (*READ, "create", "update", "patch", "delete")),
                Permission("", "secrets", (*READ, "create", "update", "patch", "delete", "deletecollection")),
                EVENTS,
                Permission("plain.example.com", "plains", READ),
            ],
        ),
        (
            Controller(
                Plain,
                idle,
                watches=[Watch(Secret, by=lambda _: "s")],
                reads=[Pod],
                writes=[
                    Write(Object, ("patch", "get"), subresource="scale"),
                    Write(Pod, ("create",), subresource="eviction"),
                    Write(Node, ("patch",)),
                ],
            ),
            [
                Permission("", "nodes", ("patch",)),
                Permission("", "pods", READ),
                Permission("", "pods/eviction", ("create",)),
                Permission("", "secrets", READ),
                Permission("*", "*/scale", ("get", "patch")),
                EVENTS,
                Permission("plain.example.com", "plains", READ),
            ],
        ),
    ],
)
def test_a_controller_may_do_what_it_declares_and_nothing_else(
    controller: Controller[Any], rights: list[Permission]
) -> None:
    assert permissions_of([controller]) == rights


def test_the_right_to_owners_finalizers_is_granted_only_if_needed_and_requested() -> None:
    owner, other = Controller(Toy, idle, owns=[ConfigMap]), Controller(Plain, idle)
    asked = permissions_of([owner, other], owner_finalizers=True)
    assert [one for one in asked if one not in permissions_of([owner, other])] == [
        Permission("toys.example.com", "toys/finalizers", ("update",))
    ]


def test_several_controllers_share_one_permission_for_each_resource() -> None:
    assert permissions_of([Controller(Plain, idle, name="a"), Controller(Plain, idle, name="b")]) == [
        EVENTS,
        Permission("plain.example.com", "plains", READ),
    ]
    assert permissions_of([]) == [EVENTS]


def test_named_objects_need_a_separate_permission() -> None:
    one, named = Permission("g", "r", ("patch", "get")), Permission("g", "r", ("list",), ("n",))
    assert merged([named, one, Permission("g", "r", ("watch",), ("n",))]) == [
        Permission("g", "r", ("get", "patch")),
        Permission("g", "r", ("list", "watch"), ("n",)),
    ]


def test_a_rule_lists_resource_names_only_if_it_is_limited_to_some() -> None:
    assert [one.rule() for one in lease_permissions("operator")] == [
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"]},
        {
            "apiGroups": ["coordination.k8s.io"],
            "resources": ["leases"],
            "resourceNames": ["operator"],
            "verbs": ["get", "watch", "update"],
        },
    ]


def test_definitions_are_changed_by_name_and_only_created_without() -> None:
    definitions = ("apiextensions.k8s.io", "customresourcedefinitions")
    migrations = ("storagemigration.k8s.io", "storageversionmigrations")
    name = ("plains.plain.example.com",)
    assert definition_permissions([Plain, Plain, Node]) == [
        Permission(*definitions, ("create",)),
        Permission(*definitions, ("get", "update"), name),
        Permission(definitions[0], f"{definitions[1]}/status", ("update",), name),
        Permission(*migrations, ("create",)),
        Permission(*migrations, ("get", "delete"), name),
        Permission("plain.example.com", "plains", ("list", "patch")),
        Permission("plain.example.com", "plains/status", ("patch",)),
    ]
    assert definition_permissions([Node]) == []


def test_the_review_permissions_only_allow_creating_reviews() -> None:
    assert review_permissions() == [
        Permission("authentication.k8s.io", "tokenreviews", ("create",)),
        Permission("authorization.k8s.io", "subjectaccessreviews", ("create",)),
    ]


LEASES = Permission("coordination.k8s.io", "leases", ("list",))
DEPLOYMENTS = Permission("apps", "deployments", ("list",))


@pytest.mark.parametrize(
    ("original", "rights"),
    [
        (None, []),
        (Predecessor("x"), []),
        (Predecessor("x", leases=("x",)), [LEASES]),
        (Predecessor("x", deployments=("x",)), [DEPLOYMENTS]),
        (Predecessor("x", images=("x",)), [DEPLOYMENTS]),
        (Predecessor("x", leases=("x",), images=("x",)), [LEASES, DEPLOYMENTS]),
    ],
)
def test_a_predecessor_may_be_listed_and_nothing_else(
    original: Predecessor | None, rights: list[Permission]
) -> None:
    others: list[Controller[Any]] = [Controller(Toy, idle), Controller(Plain, idle, predecessor=original)]
    assert predecessor_permissions(others) == rights


def test_each_reason_why_namespaced_roles_do_not_suffice_is_reported_once() -> None:
    controllers: list[Controller[Any]] = [
        Controller(
            Node,
            idle,
            owns=[Namespace, ConfigMap],
            watches=[Watch(Node, by=lambda _: "n"), Watch(Secret, by=lambda _: "s", everywhere=True)],
            reads=[Namespace, Pod],
            writes=[Write(Object, ("get",), subresource="scale"), Namespace, Secret],
            operator="example.com",
        ),
        Controller(Toy, idle),
        Controller(Plain, idle, reads=[Namespace, Node]),
    ]
    assert beyond_namespaces(controllers) == [
        "Controller(Node) is of a kind without namespaces",
        "owns=Namespace is of a kind without namespaces",
        "Watch(Node) is of a kind without namespaces",
        "reads=Namespace is of a kind without namespaces",
        "Write(Namespace) is of a kind without namespaces",
        "Watch(Secret, everywhere=True) follows all namespaces",
        "reads=Node is of a kind without namespaces",
    ]
    assert beyond_namespaces([Controller(Toy, idle, owns=[ConfigMap], reads=[Pod])]) == []


def test_a_kind_is_custom_by_its_group_whatever_the_origin_of_its_model() -> None:
    kinds = (Toy, Plain, Beside, OfKubernetes, Deployment, Pod, Node)
    assert [kind for kind in kinds if is_custom(kind)] == [Toy, Plain, Beside]
