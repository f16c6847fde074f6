"""What a change of a whole definition means: of its versions, names, scope, conversion and columns."""

from collections.abc import Sequence
from copy import deepcopy
from typing import Any, TypeAlias

import pytest

from reconcile.models.definition_changes import definition_changes, only_narrows, readings
from tests.helpers.definitions import INTEGER, STRING, definition, object_of

Schema: TypeAlias = dict[str, Any]
SCHEMA = object_of(spec=object_of(size=INTEGER, colour=STRING))
SMALL = object_of(spec=object_of(size=INTEGER))
WEBHOOK = {
    "strategy": "Webhook",
    "webhook": {
        "conversionReviewVersions": ["v1"],
        "clientConfig": {"service": {"namespace": "shop", "name": "hooks", "path": "/convert"}},
    },
}


def version(name: str, schema: Schema = SCHEMA, **more: Any) -> Schema:
    return {"name": name, "served": True, "storage": False, "schema": {"openAPIV3Schema": schema}, **more}


def shops(*versions: Schema, stored: Sequence[str] = (), **spec: Any) -> Schema:
    body = definition("Shop")
    entries = [{**one, "storage": index == 0} for index, one in enumerate(versions)]
    names = {**body["spec"]["names"], **spec.pop("names", {})}
    kept = list(stored or [entries[0]["name"]])
    return {
        **body,
        "spec": {**body["spec"], "versions": entries, "names": names, **spec},
        "status": {"storedVersions": kept},
    }


V1, V2 = version("v1"), version("v2")
STATUS = {"subresources": {"status": {}}}
COLUMN = {"additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}]}
SELECTABLE = {"selectableFields": [{"jsonPath": ".spec.colour"}]}
SMALL_V1, SMALL_V2 = version("v1", SMALL), version("v2", SMALL)


@pytest.mark.parametrize(
    ("old", "new", "effect", "proof", "words"),
    [
        (
            shops(V1),
            shops(V1, scope="Cluster"),
            "narrowing",
            "impossible",
            "scope: is Cluster and was Namesp",
        ),
        (shops(V1), shops(V1, names={"kind": "Store"}), "narrowing", "impossible", "names.kind: is Store"),
        (
            shops(V2, V1, stored=["v1", "v2"]),
            shops(V2),
            "narrowing",
            "impossible",
            "storedVersions still has",
        ),
        (shops(V2, V1), shops(V2), "narrowing", "none", "v1: is gone, which its clients get 404 for"),
        (
            shops(V2, V1),
            shops(V2, {**V1, "served": False}),
            "narrowing",
            "none",
            "v1: is not served any more",
        ),
        (shops(version("v1", **STATUS)), shops(V1), "narrowing", "none", "subresources.status: is gone"),
        (shops(version("v1", **SELECTABLE)), shops(V1), "narrowing", "none", "be selected by .spec.colour"),
        (shops(V1, names={"shortNames": ["sh"]}), shops(V1), "narrowing", "none", "shortNames: has no sh"),
        (shops(V1, V2, conversion=WEBHOOK), shops(V1, V2), "narrowing", "impossible", "shown unconverted"),
        (shops(V1, conversion=WEBHOOK), shops(V1), "narrowing", "none", "conversion: is gone"),
        (shops(V1), shops(SMALL_V1), "narrowing", "objects", "v1: spec.colour: is gone"),
        (shops(V1), shops(V1, SMALL_V2), "narrowing", "objects", "v2: spec.colour: is gone"),
        (shops(V1, SMALL_V2), shops(SMALL_V2, V1), "narrowing", "objects", "v2: spec.colour: is gone"),
        (shops(V1), shops(V1, V2), "additive", "none", "v2: is a new version"),
        (shops(V1), shops(V1, SMALL_V2, conversion=WEBHOOK), "additive", "none", "v2: is a new version"),
        (shops(V1, V2), shops(V2, V1), "additive", "none", "v2: stores objects now, in place of v1"),
        (shops(V1), shops(version("v1", **STATUS)), "additive", "none", "subresources.status: is new"),
        (shops(V1), shops(version("v1", **COLUMN)), "additive", "none", "kubectl prints other columns"),
        (shops(V1), shops(V1, names={"categories": ["all"]}), "additive", "none", "categories: has all"),
        (
            shops(V1),
            shops(version("v1", **SELECTABLE)),
            "additive",
            "none",
            "selectableFields: has .spec.col",
        ),
    ],
)
def test_a_change_of_a_definition_is_judged(
    old: Schema, new: Schema, effect: str, proof: str, words: str
) -> None:
    found = [change for change in definition_changes(old, new) if words in str(change)]
    assert [(change.effect, change.proof) for change in found] == [(effect, proof)]


def test_a_definition_that_its_server_completed_does_not_differ() -> None:
    body = shops(V1)
    completed = deepcopy(body)
    completed["spec"] |= {"conversion": {"strategy": "None"}, "preserveUnknownFields": False}
    del body["spec"]["names"]["listKind"], body["spec"]["names"]["singular"]
    assert definition_changes(completed, body) == []
    assert definition_changes(body, completed) == []


def test_objects_are_read_once_a_version_in_a_version_that_is_served() -> None:
    old = shops(V1, stored=["v1"])
    new = shops(SMALL_V1, version("v2", object_of(spec=object_of(size=STRING))))
    plans = readings(old, new, definition_changes(old, new))
    assert [(plan.version, plan.read_as) for plan in plans] == [("v1", "v1"), ("v2", "v1")]
    assert [change.path for change in plans[0].changes] == ["spec.colour"]
    assert {change.path for change in plans[1].changes} == {"spec.colour", "spec.size"}


def test_a_version_that_is_stored_next_is_judged_by_objects_as_they_are_stored_now() -> None:
    old, new = shops(V1, SMALL_V2), shops(SMALL_V2, V1)
    (plan,) = readings(old, new, definition_changes(old, new))
    assert (plan.version, plan.read_as) == ("v2", "v1")  # as v2, a server hides the field that would be lost


def test_a_version_that_functions_make_is_not_judged_by_objects() -> None:
    old = shops(V1, V2, conversion=WEBHOOK)
    new = shops(V1, SMALL_V2, conversion=WEBHOOK)
    changes = definition_changes(old, new)
    assert [change.path for change in changes] == ["spec.colour"]
    assert readings(old, new, changes) == []


def test_additive_changes_read_no_object() -> None:
    old, new = shops(SMALL_V1), shops(V1)
    assert readings(old, new, definition_changes(old, new)) == []


@pytest.mark.rule("definitions-kept")
@pytest.mark.parametrize(
    ("old", "new", "narrows"),
    [
        (shops(V1), shops(V1), False),
        (shops(V1), shops(SMALL_V1), True),
        (shops(SMALL_V1), shops(V1), False),
        (shops(version("v1", **STATUS)), shops(SMALL_V1), True),
        (shops(version("v1", **SELECTABLE)), shops(V1), True),
        (shops(V1), shops(version("v1", object_of(spec=object_of(size=INTEGER, other=STRING)))), False),
        (shops(V1), shops(version("v1", SMALL, **STATUS)), False),
        (shops(V1), shops(SMALL_V1, V2), False),
        (shops(V1), shops(SMALL_V1, conversion=WEBHOOK), False),
        (shops(V1), shops(SMALL_V1, scope="Cluster"), False),
    ],
)
def test_a_definition_only_narrows_if_code_for_it_works_with_the_old_one_too(
    old: Schema, new: Schema, narrows: bool
) -> None:
    assert only_narrows(old, new) is narrows
