"""A built-in kind is one record: a kind of the test's own, with every part of it used."""

from typing import Any

import aiohttp
import pytest

from reconcile.embedded import ApiServer, BuiltInKind, CellColumn, FieldCause
from reconcile.embedded.http import serve
from tests.embedded.api_client import Api, StillClock
from tests.embedded.protobuf_bodies import envelope, number, text

KETTLES = "/apis/kitchen.example.org/v1/namespaces/default/kettles"
OPENAPI = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {"litres": {"type": "integer"}, "colour": {"type": "string"}},
        },
        "status": {"type": "object", "properties": {"hot": {"type": "boolean"}}},
    },
}


def paint(kettle: dict[str, Any]) -> None:
    kettle.setdefault("spec", {}).setdefault("colour", "red")


def judge_size(kettle: dict[str, Any], old: dict[str, Any] | None) -> list[FieldCause]:
    if kettle["spec"].get("litres", 1) > 0:
        return []
    return [FieldCause("FieldValueInvalid", "Invalid value: must hold something", "spec.litres")]


def judge_heat(kettle: dict[str, Any], old: dict[str, Any] | None) -> list[FieldCause]:
    if old is None or kettle["status"].get("hot") or not (old.get("status") or {}).get("hot"):
        return []
    return [FieldCause("FieldValueInvalid", "Invalid value: it cools by itself", "status.hot")]


def warn_of_weight(kettle: dict[str, Any], old: dict[str, Any] | None) -> list[str]:
    litres = kettle["spec"].get("litres", 1)
    return ["a full kettle is heavy"] if litres > 2 and (old is None or old["spec"] != kettle["spec"]) else []


KETTLE = BuiltInKind(
    "kitchen.example.org",
    "Kettle",
    openapi=OPENAPI,
    short_names=("kt",),
    has_status=True,
    defaults=paint,
    checks=judge_size,
    status_checks=judge_heat,
    status_keeps=("annotations",),
    warnings=warn_of_weight,
    columns=(
        CellColumn("Name", lambda obj, _now: obj["metadata"]["name"]),
        CellColumn("Litres", lambda obj, _now: obj["spec"].get("litres"), "integer"),
    ),
    messages={
        "Kettle": {1: "metadata:ObjectMeta", 2: "spec:KettleSpec"},
        "KettleSpec": {1: "litres:int", 2: "colour:string"},
    },
    viewed=("", "status"),
    edited=("",),
)
BODY = text(1, text(1, "b")) + text(2, number(1, 2))
PROTOBUF = envelope("kitchen.example.org/v1", "Kettle", BODY)


@pytest.fixture
def api() -> Api:
    api = Api()
    api.server = ApiServer(clock=StillClock(), kinds=[KETTLE])
    return api


def kettle(name: str = "a", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": spec}


def test_its_defaults_and_validation_come_from_its_record(api: Api) -> None:
    assert api.ok("POST", KETTLES, kettle(litres=1))["spec"] == {"litres": 1, "colour": "red"}
    refused = api.send("POST", KETTLES, kettle("b", litres=0))
    assert (refused.status, refused.causes) == (422, [("FieldValueInvalid", "spec.litres")])


def test_a_write_causes_its_warning(api: Api) -> None:
    made = api.send("POST", KETTLES, kettle(litres=3))
    assert "a full kettle is heavy" in made.headers["warning"]
    unchanged = api.send(
        "PUT", f"{KETTLES}/a", {**made.body, "metadata": {"name": "a", "labels": {"a": "b"}}}
    )
    assert (unchanged.status, "warning" in unchanged.headers) == (200, False)


def test_kubectl_gets_its_columns_and_its_short_name(api: Api) -> None:
    api.ok("POST", KETTLES, kettle(litres=1))
    table = api.ok("GET", KETTLES, accept="application/json;as=Table;g=meta.k8s.io;v=v1")
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Litres"]
    assert table["rows"][0]["cells"] == ["a", 1]
    (listed, _status) = api.ok("GET", "/apis/kitchen.example.org/v1")["resources"]
    assert (listed["name"], listed["shortNames"]) == ("kettles", ["kt"])


def test_it_has_a_separate_status(api: Api) -> None:
    api.ok("POST", KETTLES, kettle(litres=1))
    api.merge(f"{KETTLES}/a/status", {"status": {"hot": True}, "spec": {"litres": 2}})
    stored = api.ok("GET", f"{KETTLES}/a")
    assert (stored["status"], stored["spec"]["litres"]) == ({"hot": True}, 1)


def test_a_write_of_its_status_is_checked_and_takes_metadata_but_what_its_record_keeps(api: Api) -> None:
    api.ok("POST", KETTLES, kettle(litres=1))
    changed = {"labels": {"l": "1"}, "annotations": {"n": "1"}}
    made = api.merge(f"{KETTLES}/a/status", {"metadata": changed, "status": {"hot": True}})
    assert (made["metadata"]["labels"], "annotations" in made["metadata"]) == ({"l": "1"}, False)
    cold = {**made, "status": {"hot": False}}
    assert api.send("PUT", f"{KETTLES}/a/status", cold).causes == [("FieldValueInvalid", "status.hot")]


async def test_its_protobuf_body_is_read_over_http(api: Api) -> None:
    headers = {"content-type": "application/vnd.kubernetes.protobuf"}
    async with (
        serve(api.server, tls=False) as face,
        aiohttp.ClientSession(face.url) as session,
        session.post(KETTLES, data=PROTOBUF, headers=headers) as answer,
    ):
        assert answer.status == 201
    assert api.ok("GET", f"{KETTLES}/b")["spec"] == {"litres": 2, "colour": "red"}


@pytest.mark.parametrize(
    ("role", "allowed"),
    [("view", {"get", "get status"}), ("edit", {"get", "get status", "create", "delete"})],
)
def test_the_default_roles_grant_what_its_record_specifies(api: Api, role: str, allowed: set[str]) -> None:
    api.ok("POST", KETTLES, kettle(litres=1))
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
    subject = {"kind": "User", "name": "bob"}
    bindings = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings"
    api.ok("POST", bindings, {"metadata": {"name": "bob"}, "roleRef": reference, "subjects": [subject]})
    bob = {"impersonate-user": "bob"}
    answered = {
        "get": api.send("GET", f"{KETTLES}/a", **bob).status,
        "get status": api.send("GET", f"{KETTLES}/a/status", **bob).status,
        "create": api.send("POST", KETTLES, kettle("c"), **bob).status,
        "delete": api.send("DELETE", f"{KETTLES}/a", **bob).status,
    }
    assert {name for name, status in answered.items() if status < 300} == allowed
    assert {status for status in answered.values() if status >= 300} <= {403}


def test_a_copy_of_the_server_has_the_kind_too(api: Api) -> None:
    api.ok("POST", KETTLES, kettle(litres=1))
    api.server = api.server.copy(StillClock())
    assert api.ok("GET", f"{KETTLES}/a")["spec"] == {"litres": 1, "colour": "red"}
    assert api.ok("POST", KETTLES, kettle("b"))["spec"] == {"colour": "red"}
