"""Objects in other versions: what is lost is kept, and put back where nothing has changed since."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconcile import Object, resource
from reconcile.models.conversions import are_convertible
from reconcile.webhooks import ConversionError, converts
from reconcile.webhooks.kept_fields import lost, restored
from reconcile.webhooks.object_conversion import VersionedKind
from tests.helpers.json_values import documents
from tests.helpers.processor_time import bounded
from tests.webhooks.shops import ALPHA, BETA, GROUP, KEPT, SHOPS, V1, Shop, ShopAlpha, ShopBeta, shop

numbers = st.integers(0, 3)
words = st.sampled_from(["a", "b"])
ports = st.lists(
    st.fixed_dictionaries({"number": numbers, "protocol": st.sampled_from(["TCP", "UDP"])}), max_size=3
)
unknown = st.dictionaries(st.sampled_from(["x", "y"]), words | st.lists(words, max_size=2), max_size=2)
SPECS = {
    V1: st.builds(
        lambda known, more: {**more, **known},
        st.fixed_dictionaries(
            {"replicas": numbers, "ports": ports, "tier": words}, optional={"color": words}
        ),
        unknown,
    ),
    BETA: st.builds(
        lambda known, more: {**more, **known},
        st.fixed_dictionaries(
            {"size": numbers, "ports": st.lists(numbers, max_size=3)}, optional={"motto": words}
        ),
        unknown,
    ),
    ALPHA: st.fixed_dictionaries({"count": numbers}),
}
shops = st.sampled_from([V1, BETA, ALPHA]).flatmap(
    lambda version: st.builds(lambda spec: shop(version, spec), SPECS[version])
)
versions = st.lists(st.sampled_from([V1, BETA, ALPHA]), max_size=5)


# --- laws -----------------------------------------------------------------------------------------------


@given(obj=shops, way=versions)
def test_any_way_through_other_versions_leads_back_to_the_same_object(
    obj: dict[str, Any], way: list[str]
) -> None:
    here = obj
    for version in way:
        here = SHOPS.convert(here, version)
    assert SHOPS.convert(here, obj["apiVersion"]) == obj


@given(obj=shops, through=st.sampled_from([V1, BETA, ALPHA]), target=st.sampled_from([V1, BETA, ALPHA]))
def test_the_direct_way_gives_the_same_fields_as_one_through_neighbours(
    obj: dict[str, Any], through: str, target: str
) -> None:
    by_neighbours = SHOPS.convert(SHOPS.convert(obj, through), target)
    if (obj["apiVersion"], through, target) in {(V1, BETA, ALPHA), (ALPHA, BETA, V1)}:
        assert SHOPS.convert(obj, target)["spec"] == by_neighbours["spec"]
    assert by_neighbours["metadata"]["uid"] == "1"


@given(obj=shops, version=st.sampled_from([V1, BETA, ALPHA]))
def test_a_change_in_another_version_wins_over_what_was_kept(obj: dict[str, Any], version: str) -> None:
    there = SHOPS.convert(obj, version)
    there["spec"] = {**there["spec"], "size": 7, "count": 7, "replicas": 7}
    sizes = {V1: "replicas", BETA: "size", ALPHA: "count"}
    there["spec"] = {
        name: value
        for name, value in there["spec"].items()
        if name not in {*sizes.values()} - {sizes[version]}
    }
    assert SHOPS.convert(there, obj["apiVersion"])["spec"][sizes[obj["apiVersion"]]] == 7


@given(back=documents, truth=documents)
def test_what_was_lost_is_restored_where_nothing_changed(back: dict[str, Any], truth: dict[str, Any]) -> None:
    kept = lost(back, truth)
    if kept is None:
        assert msgspec.json.encode(back, order="sorted") == msgspec.json.encode(truth, order="sorted")
    else:
        stored = msgspec.json.decode(msgspec.json.encode(kept))
        assert restored(back, stored) == truth


@settings(max_examples=200)
@given(value=documents, kept=documents)
def test_an_annotation_of_any_content_is_survived(value: dict[str, Any], kept: dict[str, Any]) -> None:
    restored(value, kept)
    annotated = shop(BETA, {"size": 1}, annotations={KEPT: msgspec.json.encode({"v1": kept}).decode()})
    assert SHOPS.convert(annotated, V1)["spec"]["replicas"] == 1


# --- examples -------------------------------------------------------------------------------------------


def test_fields_without_a_place_in_the_other_version_come_back() -> None:
    obj = shop(
        V1, {"replicas": 2, "color": "red", "tier": "gold", "ports": [{"number": 80, "protocol": "UDP"}]}
    )
    beta = SHOPS.convert(obj, BETA)
    assert beta["spec"] == {"size": 2, "ports": [80]}
    assert SHOPS.convert(beta, V1) == obj


def test_items_find_what_they_lost_after_the_list_has_changed() -> None:
    ports = [{"number": 80, "protocol": "UDP"}, {"number": 81, "protocol": "TCP"}]
    beta = SHOPS.convert(shop(V1, {"replicas": 1, "ports": ports, "tier": "silver"}), BETA)
    beta["spec"]["ports"] = [8080, 81, 80]
    assert SHOPS.convert(beta, V1)["spec"]["ports"] == [
        {"number": 8080, "protocol": "TCP"},
        {"number": 81, "protocol": "TCP"},
        {"number": 80, "protocol": "UDP"},
    ]


def test_an_object_that_loses_nothing_gets_no_annotation() -> None:
    assert "annotations" not in SHOPS.convert(shop(ALPHA, {"count": 3}), V1)["metadata"]


def test_metadata_is_never_touched() -> None:
    metadata = {"labels": {"a": "b"}, "annotations": {"c": "d"}, "finalizers": ["e/f"], "managedFields": [{}]}
    there = SHOPS.convert(shop(ALPHA, {"count": 3}, **metadata), V1)
    assert there["metadata"] == {"name": "a", "namespace": "default", "uid": "1", **metadata}


@pytest.mark.parametrize("text", ["", "{", "[]", '{"v1": 3}', "[" * 100_000])
def test_a_malformed_annotation_is_dropped(text: str) -> None:
    there = SHOPS.convert(shop(BETA, {"size": 2}, annotations={KEPT: text}), V1)
    assert there["spec"]["replicas"] == 2
    assert "annotations" not in there["metadata"]


def test_an_annotation_is_read_in_linear_time_even_if_it_fits_nothing() -> None:
    items, entry = list(range(30_000)), [0, -1, {}]
    with bounded(10):
        assert restored(items, {"items": [entry] * 30_000}) == items


def test_kept_fields_that_would_make_the_object_invalid_are_left_out() -> None:
    kept = msgspec.json.encode({"v1": {"fields": {"tier": {"was": "silver", "is": 5}}}}).decode()
    there = SHOPS.convert(shop(BETA, {"size": 2}, annotations={KEPT: kept}), V1)
    assert there["spec"]["tier"] == "silver"


@pytest.mark.parametrize(
    ("obj", "target", "problem"),
    [
        (shop(BETA, {"size": "many"}), V1, "the object is not a valid"),
        (shop(BETA, {"size": 1}), f"{GROUP}/v2", "has no version 'shop.example.com/v2'"),
        (shop("v1", {}), V1, "has no version 'v1'"),
        (shop(V1, {"color": "r" * 200_000}), BETA, "more than the 131,072 that an annotation may keep"),
    ],
)
def test_an_object_that_cannot_be_converted_is_reported(obj: Any, target: str, problem: str) -> None:
    with pytest.raises(ConversionError, match=problem):
        SHOPS.convert(obj, target)


# --- declarations ---------------------------------------------------------------------------------------


def bare_versions(kind: str) -> list[type[Object]]:
    """Classes for v1 and v1beta1 of a kind, without functions between them."""
    return [
        resource(f"{kind.lower()}.example.com/{version}", kind=kind)(type(name, (Object,), {}))
        for version, name in (("v1", kind), ("v1beta1", f"{kind}Beta"))
    ]


def test_functions_must_lead_from_each_version_to_every_other() -> None:
    Lone, LoneBeta = bare_versions("Lone")
    assert not are_convertible([Lone, LoneBeta])

    @converts(LoneBeta, Lone)
    def up(old: LoneBeta) -> Lone:
        return Lone()

    with pytest.raises(TypeError, match=r"declare one with @converts\(Lone, LoneBeta\)"):
        are_convertible([Lone, LoneBeta])
    with pytest.raises(TypeError, match="was given to two functions"):
        converts(LoneBeta, Lone)(lambda old: Lone())
    with pytest.raises(TypeError, match="not two versions of one kind"):
        converts(Lone, Shop)
    assert are_convertible([Shop, ShopBeta, ShopAlpha])


def test_a_function_that_fails_is_named_by_its_versions() -> None:
    Broken, BrokenBeta = bare_versions("Broken")
    converts(BrokenBeta, Broken)(lambda old: 1 / 0)  # type: ignore[arg-type,return-value]
    converts(Broken, BrokenBeta)(lambda new: None)  # type: ignore[arg-type,return-value]
    kind = VersionedKind([Broken, BrokenBeta])
    head = {"kind": "Broken", "metadata": {"name": "a"}}
    with pytest.raises(ConversionError, match="from v1beta1 to v1 raised ZeroDivisionError"):
        kind.convert({"apiVersion": "broken.example.com/v1beta1", **head}, "broken.example.com/v1")
    with pytest.raises(ConversionError, match="returned an object of NoneType"):
        kind.convert({"apiVersion": "broken.example.com/v1", **head}, "broken.example.com/v1beta1")
