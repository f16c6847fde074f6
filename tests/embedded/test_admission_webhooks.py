"""Admission webhooks that are functions of this process: when they are called, and what follows."""

import asyncio
import base64
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import anyio.lowlevel
import msgspec
import pytest
from anyio import to_thread
from attrs import define, field
from hypothesis import given
from hypothesis import strategies as st

from reconcile.embedded import ApiRequest, ApiServer
from reconcile.testing import simulate
from tests.embedded.api_client import CONFIG_MAPS, MERGE, WIDGETS, Answer, Api, config_map, decoded, widget

CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1"
HOST = "hooks.default.svc"
A = f"{CONFIG_MAPS}/a"

DEPLOYMENT: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "d"},
    "spec": {
        "replicas": 1,
        "selector": {"matchLabels": {"a": "b"}},
        "template": {
            "metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        },
    },
}

Review = dict[str, Any]


def configuration(sort: str, name: str = "a", **changes: Any) -> dict[str, Any]:
    """A configuration with one webhook, which is for config maps."""
    webhook = {
        "name": f"{name}.example.com",
        "clientConfig": {"service": {"namespace": "default", "name": "hooks", "path": f"/{name}"}},
        "rules": [
            {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}
        ],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": f"{sort}WebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": [webhook | changes],
    }


def allowed(review: Review, **response: Any) -> Review:
    return {**review, "response": {"uid": review["request"]["uid"], "allowed": True, **response}}


def patched(review: Review, *operations: Any) -> Review:
    text = base64.b64encode(msgspec.json.encode(operations)).decode()
    return allowed(review, patchType="JSONPatch", patch=text)


def adds(path: str, value: Any) -> Callable[[Review], Review]:
    return lambda review: patched(review, {"op": "add", "path": path, "value": value})


@define
class Hooks:
    """A server and the webhooks that it calls; each answers at its path."""

    api: Api = field(factory=Api)
    calls: list[tuple[str, Review]] = field(factory=list)
    answers: dict[str, Callable[[Review], Review]] = field(factory=dict)
    waits: dict[str, Callable[[], Awaitable[None]]] = field(factory=dict)

    def __attrs_post_init__(self) -> None:
        self.api.server.webhooks[HOST] = self.answer

    async def answer(self, path: str, body: bytes) -> tuple[int, bytes]:
        review = msgspec.json.decode(body)
        self.calls.append((path, review))
        if path in self.waits:
            await self.waits[path]()
        return 200, msgspec.json.encode(self.answers.get(path, allowed)(review))

    def configure(self, sort: str, name: str = "a", **changes: Any) -> None:
        plural = f"{sort.lower()}webhookconfigurations"
        self.api.ok("POST", f"{CONFIGURATIONS}/{plural}", configuration(sort, name, **changes))

    async def send(
        self, method: str, path: str, body: Any = None, content_type: str = "application/json", **query: str
    ) -> Answer:
        encoded = b"" if body is None else msgspec.json.encode(body)
        request = ApiRequest(method, path, query, {"content-type": content_type}, encoded)
        return decoded(await self.api.server.respond(request))

    @property
    def paths(self) -> list[str]:
        return [path for path, _ in self.calls]


@pytest.fixture
def hooks() -> Hooks:
    return Hooks()


# --- when they are called -----------------------------------------------------------------------


async def test_without_configurations_nothing_is_asked_and_writes_need_not_wait(hooks: Hooks) -> None:
    phases = hooks.api.server._engine.phases
    assert not phases.mutates
    assert not phases.validates
    assert hooks.api.ok("POST", CONFIG_MAPS, config_map("a"))


async def test_a_write_that_no_rule_is_for_need_not_wait(hooks: Hooks) -> None:
    hooks.configure("Validating")
    hooks.configure("Mutating")
    hooks.api.ok("POST", WIDGETS, widget("w"))
    assert not hooks.calls


async def test_once_the_last_configuration_is_deleted_nothing_is_asked(hooks: Hooks) -> None:
    hooks.configure("Validating")
    hooks.api.ok("DELETE", f"{CONFIGURATIONS}/validatingwebhookconfigurations/a")
    assert not hooks.api.server._engine.phases.validates
    hooks.api.ok("POST", CONFIG_MAPS, config_map("a"))


async def test_a_write_that_has_to_wait_is_an_error_where_it_cannot(hooks: Hooks) -> None:
    hooks.waits["/a"] = anyio.lowlevel.checkpoint
    hooks.configure("Validating")
    refused = hooks.api.send("POST", CONFIG_MAPS, config_map("a"))
    assert refused.status == 500
    assert "respond()" in refused.body["message"]
    assert (await hooks.send("GET", A)).status == 404


@pytest.mark.parametrize("sort", ["Mutating", "Validating"])
async def test_a_call_over_https_has_to_wait(sort: str) -> None:
    hooks = Hooks()
    del hooks.api.server.webhooks[HOST]
    hooks.configure(sort)
    for refused in (
        hooks.api.send("POST", CONFIG_MAPS, config_map("a")),
        await to_thread.run_sync(hooks.api.send, "POST", CONFIG_MAPS, config_map("a")),
    ):
        assert refused.status == 500
        assert "respond()" in refused.body["message"]


async def test_calls_at_once_have_to_wait_and_leave_no_task(hooks: Hooks) -> None:
    hooks.configure("Validating", "a")
    hooks.configure("Validating", "b")
    tasks = asyncio.all_tasks()
    for refused in (
        hooks.api.send("POST", CONFIG_MAPS, config_map("a")),
        await to_thread.run_sync(hooks.api.send, "POST", CONFIG_MAPS, config_map("a")),
    ):
        assert refused.status == 500
        assert "respond()" in refused.body["message"]
    assert asyncio.all_tasks() == tasks
    assert (await hooks.send("POST", CONFIG_MAPS, config_map("a"))).status == 201
    assert sorted(hooks.paths) == ["/a", "/b"]


async def test_configurations_of_a_copied_server_are_called_too(hooks: Hooks) -> None:
    hooks.configure("Validating")
    copy = hooks.api.server.copy(hooks.api.clock)
    body = msgspec.json.encode(config_map("a"))
    await copy.respond(ApiRequest("POST", CONFIG_MAPS, {}, {"content-type": "application/json"}, body))
    assert hooks.paths == ["/a"]


async def test_a_service_that_leads_nowhere_is_a_call_failure() -> None:
    hooks = Hooks(Api())
    del hooks.api.server.webhooks[HOST]
    hooks.configure("Validating")
    failed = await hooks.send("POST", CONFIG_MAPS, config_map("a"))
    assert failed.status == 500
    assert failed.body["message"] == (
        'Internal error occurred: failed calling webhook "a.example.com": failed to call webhook: Post '
        '"https://hooks.default.svc:443/a?timeout=10s": service "hooks" not found'
    )


async def test_a_server_is_made_with_the_places_of_webhooks() -> None:
    async def refuse(path: str, body: bytes) -> tuple[int, bytes]:
        return 503, b""

    server = ApiServer(webhooks={"hooks.example.com:9443": refuse})
    assert server.webhooks == {"hooks.example.com:9443": refuse}


# --- what changes -------------------------------------------------------------------------------


async def test_what_a_webhook_adds_is_validated_and_stored(hooks: Hooks) -> None:
    hooks.configure("Mutating")
    hooks.answers["/a"] = adds("/data", {"k": "v"})
    created = await hooks.send("POST", CONFIG_MAPS, config_map("a"))
    assert (created.status, created.body["data"]) == (201, {"k": "v"})
    hooks.answers["/a"] = adds("/data", {"not a key": "v"})
    refused = await hooks.send("PATCH", A, {"data": {"x": "y"}}, MERGE)
    assert (refused.status, refused.body["reason"]) == (422, "Invalid")


async def test_a_webhook_cannot_rename_an_object_that_exists(hooks: Hooks) -> None:
    await hooks.send("POST", CONFIG_MAPS, config_map("a"))
    hooks.configure("Mutating")
    hooks.answers["/a"] = adds("/metadata/name", "b")
    refused = await hooks.send("PATCH", A, {"data": {"x": "y"}}, MERGE)
    assert refused.status == 422
    assert ("FieldValueInvalid", "metadata.name") in refused.causes


async def test_a_mutating_webhook_sees_the_status_that_was_sent_and_cannot_write_it(hooks: Hooks) -> None:
    rule = {
        "apiGroups": ["example.com"],
        "apiVersions": ["v1"],
        "operations": ["*"],
        "resources": ["widgets"],
    }
    hooks.configure("Mutating", rules=[rule])
    created = await hooks.send("POST", WIDGETS, {**widget("w"), "status": {"phase": "sent"}})
    ((_, review),) = hooks.calls
    assert review["request"]["object"]["status"] == {"phase": "sent"}
    assert not {"uid", "creationTimestamp", "generation"} & set(review["request"]["object"]["metadata"])
    assert "status" not in created.body


SPOILT = [
    [{"manager": "m"}],
    [{"operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": {"f:data": 1}}],
]


@pytest.mark.parametrize("spoilt", SPOILT)
async def test_managed_fields_that_a_webhook_spoils_are_put_back_with_a_warning(
    hooks: Hooks, spoilt: Any
) -> None:
    hooks.configure("Mutating")
    hooks.answers["/a"] = adds("/metadata/managedFields", spoilt)
    created = await hooks.send("POST", CONFIG_MAPS, config_map("a", {"k": "v"}), fieldManager="me")
    assert created.status == 201
    assert [entry["manager"] for entry in created.body["metadata"]["managedFields"]] == ["me"]
    assert "managedFields was in an invalid state" in created.headers["warning"]


async def test_a_webhook_for_another_version_changes_the_object_in_that_version(hooks: Hooks) -> None:
    rule = {
        "apiGroups": ["autoscaling"],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["horizontalpodautoscalers"],
    }
    hooks.configure("Mutating", rules=[rule])
    hooks.answers["/a"] = adds("/spec/targetCPUUtilizationPercentage", 42)
    body = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "a"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"},
            "maxReplicas": 3,
        },
    }
    path = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
    created = await hooks.send("POST", path, body)
    assert created.status == 201, created.body
    (metric,) = created.body["spec"]["metrics"]
    assert metric["resource"]["target"]["averageUtilization"] == 42
    ((_, review),) = hooks.calls
    assert review["request"]["kind"]["version"] == review["request"]["object"]["apiVersion"][-2:] == "v1"
    assert review["request"]["requestKind"]["version"] == "v2"


async def test_a_rule_for_another_version_is_none_for_this_one_if_it_must_match_exactly(hooks: Hooks) -> None:
    rule = {"apiGroups": [""], "apiVersions": ["v7"], "operations": ["*"], "resources": ["configmaps"]}
    hooks.configure("Validating", rules=[rule], matchPolicy="Exact")
    await hooks.send("POST", CONFIG_MAPS, config_map("a"))
    assert not hooks.calls


async def test_a_webhook_may_change_a_scale(hooks: Hooks) -> None:
    rule = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/scale"]}
    await hooks.send("POST", "/apis/apps/v1/namespaces/default/deployments", DEPLOYMENT)
    hooks.configure("Mutating", rules=[rule])
    hooks.answers["/a"] = adds("/spec/replicas", 7)
    path = "/apis/apps/v1/namespaces/default/deployments/d/scale"
    scaled = await hooks.send("PATCH", path, {"spec": {"replicas": 3}}, MERGE)
    assert (scaled.status, scaled.body["spec"]) == (200, {"replicas": 7})
    ((_, review),) = hooks.calls
    assert review["request"]["object"]["spec"] == {"replicas": 3}


@pytest.mark.parametrize("path", ["/kind", "/metadata", "/spec", "/spec/token"])
async def test_a_webhook_cannot_make_a_review_unreadable(hooks: Hooks, path: str) -> None:
    rule = {"apiGroups": ["authentication.k8s.io"], "apiVersions": ["v1"], "operations": ["*"]}
    hooks.configure("Mutating", rules=[rule | {"resources": ["tokenreviews"]}])
    hooks.answers["/a"] = adds(path, 5)
    review = {"spec": {"token": "a.b.c"}}
    assert (await hooks.send("POST", "/apis/authentication.k8s.io/v1/tokenreviews", review)).status == 400


@pytest.mark.parametrize(
    ("path", "value", "status"),
    [("/metadata", "x", 500), ("/metadata/name", "b", 422), ("/spec/finalizers", [5], 500)],
)
async def test_a_webhook_cannot_spoil_a_namespace_that_is_finalized(
    hooks: Hooks, path: str, value: Any, status: int
) -> None:
    namespace = "/api/v1/namespaces/a"
    before = hooks.api.ok("POST", "/api/v1/namespaces", {"metadata": {"name": "a"}})
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"]}
    hooks.configure("Mutating", rules=[rule | {"resources": ["namespaces/finalize"]}])
    hooks.answers["/a"] = adds(path, value)
    body = {"metadata": {"name": "a"}, "spec": {"finalizers": ["example.com/hold"]}}
    assert (await hooks.send("PUT", f"{namespace}/finalize", body)).status == status
    assert hooks.api.ok("GET", namespace) == before
    hooks.answers["/a"] = adds("/spec/finalizers/-", "example.com/more")
    answer = await hooks.send("PUT", f"{namespace}/finalize", body)
    assert answer.body["spec"] == {"finalizers": ["example.com/hold", "example.com/more"]}


async def test_a_patch_of_ten_thousand_operations_is_too_much(hooks: Hooks) -> None:
    hooks.configure("Mutating", failurePolicy="Ignore")
    operation = {"op": "add", "path": "/data", "value": {}}
    hooks.answers["/a"] = lambda review: patched(review, *[operation] * 10_001)
    assert (await hooks.send("POST", CONFIG_MAPS, config_map("a"))).status == 500


MEMBERS = ("allowed", "code", "details", "patch", "patchType", "status", "uid", "warnings")
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 600) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(MEMBERS), inner),
)


@given(ANYTHING)
async def test_no_answer_does_more_than_fail_a_call(response: Any) -> None:
    hooks = Hooks()
    hooks.configure("Mutating")
    hooks.answers["/a"] = lambda review: {**review, "response": response}
    assert (await hooks.send("POST", CONFIG_MAPS, config_map("a"))).status in (201, *range(400, 600))


# --- while it waits -----------------------------------------------------------------------------


@define
class Gate:
    opened: anyio.Event = field(factory=anyio.Event)
    arrived: anyio.Event = field(factory=anyio.Event)

    async def wait(self) -> None:
        self.arrived.set()
        await self.opened.wait()


@pytest.mark.parametrize("sort", ["Mutating", "Validating"])
async def test_a_write_that_was_overtaken_is_made_of_the_new_state(hooks: Hooks, sort: str) -> None:
    await hooks.send("POST", CONFIG_MAPS, config_map("a"))
    gate = Gate()
    hooks.waits["/a"] = gate.wait
    hooks.configure(sort, matchConditions=[{"name": "slow", "expression": "has(object.data.slow)"}])
    slow = asyncio.create_task(hooks.send("PATCH", A, {"data": {"slow": "1"}}, MERGE))
    await gate.arrived.wait()
    assert (await hooks.send("PATCH", A, {"data": {"quick": "1"}}, MERGE)).status == 200
    gate.opened.set()
    assert (await slow).body["data"] == {"quick": "1", "slow": "1"}
    assert [review["request"]["oldObject"].get("data") for _, review in hooks.calls] == [None, {"quick": "1"}]


async def test_a_write_that_names_its_version_conflicts_if_it_was_overtaken(hooks: Hooks) -> None:
    created = await hooks.send("POST", CONFIG_MAPS, config_map("a"))
    gate = Gate()
    hooks.waits["/a"] = gate.wait
    hooks.configure("Validating", matchConditions=[{"name": "slow", "expression": "has(object.data.slow)"}])
    body = {"metadata": {"resourceVersion": created.version}, "data": {"slow": "1"}}
    slow = asyncio.create_task(hooks.send("PATCH", A, body, MERGE))
    await gate.arrived.wait()
    await hooks.send("PATCH", A, {"data": {"quick": "1"}}, MERGE)
    gate.opened.set()
    assert (await slow).status == 409


@pytest.mark.parametrize("sort", ["Mutating", "Validating"])
async def test_a_cancelled_write_leaves_everything_as_it_was(hooks: Hooks, sort: str) -> None:
    gate = Gate()
    hooks.waits["/a"] = gate.wait
    hooks.configure(sort)
    version = hooks.api.server.version
    waiting = asyncio.create_task(hooks.send("POST", CONFIG_MAPS, config_map("a")))
    await gate.arrived.wait()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert hooks.api.server.version == version


def test_a_webhook_that_hangs_fails_after_its_time_and_others_are_answered() -> None:
    async def scenario() -> None:
        hooks = Hooks()
        hooks.waits["/a"] = anyio.sleep_forever
        hooks.configure("Validating", timeoutSeconds=7)
        waiting = asyncio.create_task(hooks.send("POST", CONFIG_MAPS, config_map("a")))
        assert (await hooks.send("POST", WIDGETS, widget("w"))).status == 201
        failed = await waiting
        assert anyio.current_time() == pytest.approx(7)
        assert failed.status == 500
        assert "context deadline exceeded" in failed.body["message"]

    simulate(scenario)


async def test_a_webhook_that_raises_is_a_call_failure(hooks: Hooks) -> None:
    async def broken(path: str, body: bytes) -> tuple[int, bytes]:
        raise KeyError("spec")

    hooks.api.server.webhooks[HOST] = broken
    hooks.configure("Validating")
    failed = await hooks.send("POST", CONFIG_MAPS, config_map("a"))
    assert failed.status == 500
    assert "KeyError: 'spec'" in failed.body["message"]


async def test_a_refused_deletion_warns_and_leaves_the_object(hooks: Hooks) -> None:
    await hooks.send("POST", CONFIG_MAPS, config_map("a"))
    hooks.configure("Validating")
    hooks.answers["/a"] = lambda review: allowed(review, allowed=False, warnings=["kept"])
    refused = await hooks.send("DELETE", A)
    assert (refused.status, refused.headers["warning"]) == (400, '299 - "kept"')
    assert (await hooks.send("GET", A)).status == 200


async def test_garbage_whose_deletion_is_refused_stays_until_it_is_allowed(hooks: Hooks) -> None:
    owner = await hooks.send("POST", CONFIG_MAPS, config_map("owner"))
    uid = owner.body["metadata"]["uid"]
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid}
    await hooks.send("POST", CONFIG_MAPS, config_map("a", ownerReferences=[reference]))
    await hooks.send("DELETE", f"{CONFIG_MAPS}/owner")
    hooks.configure("Validating")
    hooks.answers["/a"] = lambda review: allowed(review, allowed=False)
    hooks.api.server.settle()
    await hooks.api.server.settle_waiting()
    assert (await hooks.send("GET", A)).status == 200
    ((_, review),) = hooks.calls
    assert review["request"]["userInfo"]["username"].endswith(":generic-garbage-collector")
    del hooks.answers["/a"]
    while (await hooks.send("GET", A)).status == 200:
        await anyio.lowlevel.checkpoint()
        await hooks.api.server.settle_waiting()
    assert len(hooks.calls) == 2
