"""What a failed comparison says."""

import pytest
from attrs import frozen

from reconcile import Object, ObjectMeta, field, resource
from reconcile.kinds import ConfigMap, Secret
from reconcile.testing import FakeClient, run_once
from reconcile.testing.object_comparison import explain
from tests.testing.site_operator import site, sites


@frozen
class VaultSpec:
    doors: tuple[str, ...] = ()
    password: str = field(default="", secret=True)


@resource("kit.example.com/v1")
class Vault(Object):
    spec: VaultSpec = VaultSpec()


def vault(*doors: str, password: str = "") -> Vault:
    return Vault(metadata=ObjectMeta("v", "default"), spec=VaultSpec(doors, password))


@pytest.mark.rule("kit-told-apart")
def test_each_field_that_differs_is_named_with_both_values() -> None:
    assert explain(vault("a", "b"), vault("a", "c", "d")) == [
        "two Vaults differ:",
        "  .spec.doors[1]: 'b' != 'c'",
        "  .spec.doors[2]: nothing != 'd'",
    ]
    left = ConfigMap(metadata=ObjectMeta("c", "default", labels={"a": "1"}), data={"x": "1"})
    right = ConfigMap(metadata=ObjectMeta("c", "default"), data={"x": "2"})
    assert explain(left, right) == [
        "two ConfigMaps differ:",
        "  .metadata.labels['a']: '1' != nothing",
        "  .data['x']: '1' != '2'",
    ]


@pytest.mark.rule("kit-told-apart")
def test_a_secret_differs_without_being_shown() -> None:
    lines = explain(vault(password="hunter2"), vault(password="swordfish"))
    assert lines == ["two Vaults differ:", "  .spec.password: <secret> != another"]
    one = Secret(metadata=ObjectMeta("s", "default"), data={"key": "aHVudGVyMg=="})
    other = Secret(metadata=ObjectMeta("s", "default"), data={"key": "c3dvcmRmaXNo"})
    assert "aHVudGVyMg" not in str(explain(one, other))


def test_values_other_than_objects_of_one_kind_are_not_explained() -> None:
    assert explain(1, 2) is None
    assert explain(vault(), site()) is None


async def test_the_repr_of_a_run_report_shows_its_writes() -> None:
    done = await run_once(sites(), site(), FakeClient(site()))
    assert "apply configmaps default/web" in repr(done)
