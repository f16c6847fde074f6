"""Strategic merge patches of built-in kinds."""

from copy import deepcopy
from typing import Any

import pytest

from reconcile.embedded.protocol.api_failure import ApiFailure
from reconcile.embedded.schema import compile_schema
from reconcile.embedded.schema.builtin_schemas import schema_for
from reconcile.embedded.verbs.patches import strategic_merge

POD = compile_schema(schema_for("", "v1", "Pod"), unique_lists=False)
DEPLOYMENT = compile_schema(schema_for("apps", "v1", "Deployment"), unique_lists=False)

pytestmark = pytest.mark.rule("api-63")


def pod(*containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "a", "finalizers": ["x/1", "x/2"]},
        "spec": {"containers": list(containers), **spec},
    }


def spec_after(doc: dict[str, Any], spec: dict[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] = strategic_merge(doc, {"spec": spec}, POD)["spec"]
    return result


def names(items: list[dict[str, Any]]) -> list[str]:
    return [item["name"] for item in items]


A, B, C = ({"name": name, "image": f"{name}:1"} for name in "abc")


def test_new_items_come_first() -> None:
    assert names(spec_after(pod(A, B), {"containers": [C]})["containers"]) == ["c", "a", "b"]
    assert names(spec_after(pod(A, A), {"containers": [C]})["containers"]) == ["c", "a", "a"]
    merged = strategic_merge(pod(A), {"metadata": {"finalizers": ["x/3"]}}, POD)
    assert merged["metadata"]["finalizers"] == ["x/3", "x/1", "x/2"]


def test_lists_inside_items_merge_too() -> None:
    with_env = {**A, "env": [{"name": "X", "value": "1"}], "args": ["old"]}
    after = spec_after(
        pod(with_env), {"containers": [{"name": "a", "env": [{"name": "Y"}], "args": ["new"]}]}
    )
    assert names(after["containers"][0]["env"]) == ["Y", "X"]
    assert after["containers"][0]["args"] == ["new"]


def test_an_item_is_deleted_by_its_key() -> None:
    after = spec_after(pod(A, B), {"containers": [{"$patch": "delete", "name": "a"}]})
    assert after["containers"] == [B]


def test_a_list_is_replaced_on_demand() -> None:
    assert spec_after(pod(A, B), {"containers": [{"$patch": "replace"}, C]})["containers"] == [C]


def test_a_map_is_replaced_or_emptied_on_demand() -> None:
    doc = {"metadata": {"labels": {"a": "1", "b": "2"}}}
    for directive, expected in (("replace", {"c": "3"}), ("delete", {})):
        patch = {"metadata": {"labels": {"$patch": directive, "c": "3"}}}
        assert strategic_merge(doc, patch, POD)["metadata"]["labels"] == expected


def test_null_removes_a_member() -> None:
    assert spec_after(pod(A, nodeName="n"), {"nodeName": None, "hostname": None}) == {"containers": [A]}


def test_only_retained_keys_stay() -> None:
    doc = {"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}}
    patch = {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}
    assert strategic_merge(doc, patch, DEPLOYMENT) == {"spec": {"strategy": {"type": "Recreate"}}}


def test_a_volume_changes_its_kind_through_retained_keys() -> None:
    doc = pod(A, volumes=[{"name": "v", "emptyDir": {}}, {"name": "w", "emptyDir": {}}])
    patch = {"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/x"}}
    assert spec_after(doc, {"volumes": [patch]})["volumes"] == [
        {"name": "v", "hostPath": {"path": "/x"}},
        {"name": "w", "emptyDir": {}},
    ]


@pytest.mark.parametrize(
    ("order", "patch", "expected"),
    [
        (["a", "b", "c"], [C], ["a", "b", "c"]),
        (["c", "b", "a"], None, ["b", "a"]),
        (["b", "c"], [C], ["a", "b", "c"]),
        (["c", "a"], [C], ["c", "a", "b"]),
        (["c"], [C], ["c", "a", "b"]),
    ],
)
def test_the_order_of_items_can_be_set(
    order: list[str], patch: list[dict[str, Any]] | None, expected: list[str]
) -> None:
    spec: dict[str, Any] = {"$setElementOrder/containers": [{"name": name} for name in order]}
    if patch:
        spec["containers"] = patch
    assert names(spec_after(pod(A, B), spec)["containers"]) == expected


def test_scalars_are_deleted_from_a_merging_list() -> None:
    patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["x/1"]}}
    assert strategic_merge(pod(A), patch, POD)["metadata"]["finalizers"] == ["x/2"]
    patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["x/1", "x/2"]}}
    assert "finalizers" not in strategic_merge(pod(A), patch, POD)["metadata"]


def test_directives_are_not_stored_in_new_values() -> None:
    patch = {
        "securityContext": {"$retainKeys": ["runAsUser"], "runAsUser": 1, "runAsGroup": None},
        "volumes": [{"$patch": "delete", "name": "v"}, {"name": "w"}],
        "$setElementOrder/volumes": [{"name": "w"}],
    }
    assert spec_after(pod(A), patch) == {
        "containers": [A],
        "securityContext": {"runAsUser": 1},
        "volumes": [{"name": "w"}],
    }


@pytest.mark.parametrize(
    ("spec", "code"),
    [
        ({"containers": [{"image": "x"}]}, 500),
        ({"containers": [{"$patch": "twist", "name": "a"}]}, 500),
        ({"securityContext": {"$retainKeys": "type"}}, 400),
        ({"securityContext": {"$retainKeys": ["a"], "b": 1}}, 400),
        ({"$setElementOrder/containers": "a"}, 400),
        ({"$deleteFromPrimitiveList/x": "a"}, 400),
    ],
)
def test_a_malformed_patch_is_refused(spec: dict[str, Any], code: int) -> None:
    with pytest.raises(ApiFailure) as caught:
        strategic_merge(pod(A, securityContext={}), {"spec": spec}, POD)
    assert caught.value.code == code


def test_neither_argument_is_changed() -> None:
    doc = pod(A, B)
    patch = {"spec": {"containers": [{"$patch": "delete", "name": "a"}, {"name": "b", "env": []}]}}
    before, patch_before = deepcopy(doc), deepcopy(patch)
    strategic_merge(doc, patch, POD)["spec"]["containers"].append("scribbled")
    assert (doc, patch) == (before, patch_before)
