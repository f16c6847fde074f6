"""What MutatingAdmissionPolicies change, beyond what is recorded of a real server."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.embedded.api_client import CONFIG_MAPS, DEFINITIONS, WIDGETS, Api, config_map, widget
from tests.embedded.policies import MUTATING, MUTATING_BINDINGS, enforce, mutating, rule
from tests.helpers import definitions
from tests.helpers.definitions import INTEGER, object_of

pytestmark = pytest.mark.rule("api-145")

OF_WIDGETS = [rule("widgets", group="example.com")]
LABEL = "Object{metadata: Object.metadata{labels: {'by': 'policy'}}}"
COUNT = "[JSONPatch{op: 'add', path: '/data/seen', value: string(size(object.data))}]"


def refusal(answer: Any, policy: str = "p") -> str:
    assert (answer.status, answer.body["reason"]) == (403, "Invalid"), answer.body
    text: str = answer.body["message"]
    return text.removeprefix(f"policy '{policy}' with binding '{policy}' denied request: ")


def test_a_policy_changes_what_is_stored_and_not_what_a_dry_run_leaves(api: Api) -> None:
    enforce(api, mutating(LABEL))
    dry = api.ok("POST", CONFIG_MAPS, config_map(), query={"dryRun": "All"})
    assert dry["metadata"]["labels"] == {"by": "policy"}
    assert api.gone(f"{CONFIG_MAPS}/a")
    api.ok("POST", CONFIG_MAPS, config_map(labels={"own": "1"}))
    assert api.ok("GET", f"{CONFIG_MAPS}/a")["metadata"]["labels"] == {"own": "1", "by": "policy"}


def test_a_deletion_is_left_alone_by_a_policy_for_every_operation(api: Api) -> None:
    api.ok("POST", CONFIG_MAPS, config_map())
    enforce(api, mutating(LABEL, "[JSONPatch{op: 'remove', path: '/data/none'}]"))
    api.ok("DELETE", f"{CONFIG_MAPS}/a")


def test_a_policy_runs_again_only_if_it_asks_for_it(api: Api) -> None:
    enforce(api, mutating(COUNT))
    assert api.ok("POST", CONFIG_MAPS, config_map(data={"x": ""}))["data"]["seen"] == "1"
    api.ok("DELETE", f"{MUTATING_BINDINGS}/p")
    enforce(api, mutating(COUNT, name="again", reinvocationPolicy="IfNeeded"))
    enforce(api, mutating("Object{data: {'later': '1'}}", name="then"))
    made = api.ok("POST", CONFIG_MAPS, config_map("b", {"x": ""}))["data"]
    assert made == {"x": "", "seen": "3", "later": "1"}


def test_all_that_fails_is_told_and_ignored_failures_are_not(api: Api) -> None:
    broken = "Object{data: {'x': object.nothing}}"
    enforce(api, mutating(broken, "[JSONPatch{op: 'remove', path: '/none/x'}]", LABEL))
    enforce(api, mutating(broken, name="q", failurePolicy="Ignore"))
    answer = api.send("POST", CONFIG_MAPS, config_map())
    assert "no such key: nothing" in refusal(answer)
    causes = [cause["message"] for cause in answer.body["details"]["causes"]]
    assert [text.partition("denied request: ")[2][:10] for text in causes] == ["expression", "JSON Patch"]
    api.ok("DELETE", f"{MUTATING_BINDINGS}/p")
    api.ok("POST", CONFIG_MAPS, config_map())


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("Object{spec: Object.spec{nothing: 1}}", ".spec.nothing: field not declared in schema"),
        ("Object{spec: Object.spec{size: 'x'}}", ".spec.size: expected integer, got string"),
        ("Object{spec: Object.metadata{name: 'x'}}", 'unexpected type name "Object.metadata"'),
        (
            "[JSONPatch{op: 'add', path: '/spec', value: Object.status{}}, JSONPatch{op: 'x', path: '/y'}]",
            "kind: x",
        ),
    ],
)
def test_what_does_not_fit_the_schema_is_refused_when_it_is_made(api: Api, expression: str, why: str) -> None:
    enforce(api, mutating(expression, resources=OF_WIDGETS))
    assert why in refusal(api.send("POST", WIDGETS, widget()))


def test_a_result_that_breaks_the_schema_is_invalid(api: Api) -> None:
    enforce(api, mutating("Object{spec: Object.spec{size: -1}}", resources=OF_WIDGETS))
    answer = api.send("POST", WIDGETS, widget(spec={"size": 1}))
    assert (answer.status, answer.causes) == (422, [("FieldValueInvalid", "spec.size")])


def test_an_invalid_object_may_be_repaired(api: Api) -> None:
    enforce(api, mutating("Object{spec: Object.spec{size: 1}}", resources=OF_WIDGETS))
    assert api.ok("POST", WIDGETS, widget(spec={"size": -1}))["spec"]["size"] == 1


def test_a_status_is_mutated_through_its_endpoint_alone(api: Api) -> None:
    api.ok("POST", WIDGETS, widget())
    patch = "[JSONPatch{op: 'add', path: '/status/by', value: 'policy'}]"
    enforce(api, mutating(patch, resources=[rule("widgets/status", group="example.com")]))
    assert "status" not in api.merge(f"{WIDGETS}/a", {"spec": {"size": 1}})
    assert api.merge(f"{WIDGETS}/a/status", {"status": {"x": 1}})["status"] == {"x": 1, "by": "policy"}


def test_a_generated_name_is_not_known_yet(api: Api) -> None:
    value = "has(request.name) || has(object.metadata.name) ? 'named' : 'unnamed'"
    enforce(api, mutating(f"Object{{data: {{'name': {value}}}}}"))
    made = api.ok("POST", CONFIG_MAPS, {"metadata": {"generateName": "x-"}})
    assert made["data"] == {"name": "unnamed"}
    assert api.ok("POST", CONFIG_MAPS, config_map())["data"] == {"name": "named"}


def test_a_policy_for_another_version_sees_and_changes_that_version(api: Api) -> None:
    shape = {"openAPIV3Schema": object_of(spec=object_of(size=INTEGER))}
    versions = [
        {"name": name, "served": True, "storage": name == "v1", "schema": shape} for name in ("v1", "v1beta1")
    ]
    made = definitions.definition("Gear", object_of(spec=object_of(size=INTEGER)))
    api.ok("POST", DEFINITIONS, {**made, "spec": {**made["spec"], "versions": versions}})
    size = "object.apiVersion == 'example.com/v1' ? 7 : 0"
    expression = f"Object{{spec: Object.spec{{size: {size}}}}}"
    enforce(api, mutating(expression, resources=[rule("gears", group="example.com")]))
    gear = {"apiVersion": "example.com/v1beta1", "kind": "Gear", "metadata": {"name": "a"}}
    answered = api.ok("POST", "/apis/example.com/v1beta1/namespaces/default/gears", gear)
    assert (answered["apiVersion"], answered["spec"]) == ("example.com/v1beta1", {"size": 7})


def test_parameters_that_cannot_be_found_are_forbidden(api: Api) -> None:
    kind = {"apiVersion": "example.com/v1", "kind": "Nothing"}
    enforce(api, mutating(LABEL, paramKind=kind), paramRef={"name": "x", "parameterNotFoundAction": "Allow"})
    answer = api.send("POST", CONFIG_MAPS, config_map())
    assert (answer.status, answer.body["reason"]) == (403, "Forbidden")
    assert answer.body["message"] == (
        "policy 'p' denied request: failed to configure policy: failed to find resource referenced by "
        "paramKind: 'example.com/v1, Kind=Nothing'"
    )


def test_a_policy_that_is_deleted_changes_nothing_more(api: Api) -> None:
    enforce(api, mutating(LABEL))
    api.ok("DELETE", f"{MUTATING}/p")
    assert "labels" not in api.ok("POST", CONFIG_MAPS, config_map())["metadata"]


TEXTS = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=8)


@settings(max_examples=25)  # each takes a server
@given(st.dictionaries(st.from_regex(r"[a-z][a-z0-9]{0,5}", fullmatch=True), TEXTS, max_size=3), TEXTS)
def test_a_merge_keeps_every_member_that_it_does_not_name(data: dict[str, str], value: str) -> None:
    api = Api()
    text = value.replace("\\", "\\\\").replace("'", "\\'")
    enforce(api, mutating(f"Object{{data: {{'added': '{text}'}}}}"))
    assert api.ok("POST", CONFIG_MAPS, config_map(data=data))["data"] == {**data, "added": value}
