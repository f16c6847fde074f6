"""Stored objects are rewritten past whatever may refuse writes of the objects themselves."""

from typing import Any, Final

import msgspec
import pytest

from informers.transport import HttpRequest
from reconcile import Object
from reconcile.embedded import AdmissionFunctionFor, AdmittedWrite, ApiServer, Denied, InProcessTransport
from reconcile.models import definition_of
from reconcile.testing.virtual_clock import VirtualClock
from reconcile.webhooks.definition_rollout import DefinitionRollout
from reconcile.webhooks.stored_objects import NAMED, Rewritten
from reconcile.webhooks.wanted_definitions import wanted_definition
from tests.webhooks.lamps import GROUP, Lamp, LampBeta
from tests.webhooks.migrating_shops import Reports, WithoutMigrations

KEY: Final = (GROUP, "lamps")


def refuse(request: AdmittedWrite) -> None:
    raise Denied("no lamp may be changed")


class Lamps:
    def __init__(self) -> None:
        self.clock = VirtualClock(0)
        self.server = ApiServer(clock=self.clock)
        self.transport = WithoutMigrations(InProcessTransport(self.server, settle=True))
        self.reports = Reports()

    async def send(self, method: str, path: str, body: Any) -> None:
        kind = "application/apply-patch+yaml" if method == "PATCH" else "application/json"
        encoded = msgspec.json.encode(body)
        query = {"fieldManager": "keeper"} if method == "PATCH" else {}
        answer = await self.transport.request(
            HttpRequest(method, path, query, {"content-type": kind}, encoded)
        )
        assert answer.status < 300, answer.body

    async def make(self, version: str, *names: str) -> None:
        for name in names:
            body = {"apiVersion": f"{GROUP}/{version}", "kind": "Lamp", "spec": {"watts": 5}}
            path = f"/apis/{GROUP}/{version}/namespaces/default/lamps/{name}"
            await self.send("PATCH", path, {**body, "metadata": {"name": name}})

    def rollout(self, *versions: type[Object]) -> DefinitionRollout:
        wanted = wanted_definition(versions)
        return DefinitionRollout(wanted, self.transport, self.clock, reporting=self.reports, settle=0)

    def stored(self) -> list[dict[str, Any]]:
        return [one.decode() for one in self.server.log.within(KEY, "default")]


@pytest.fixture
async def lamps() -> Lamps:
    made = Lamps()
    await made.send(
        "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition_of(LampBeta)
    )
    await made.make("v1beta1", "a", "b")
    return made


@pytest.mark.rule("definitions-migrated")
async def test_what_refuses_writes_of_the_objects_does_not_stop_a_migration(lamps: Lamps) -> None:
    lamps.server.admission.append(AdmissionFunctionFor(f"lamps.{GROUP}", refuse, ("UPDATE",)))
    assert await lamps.rollout(Lamp, LampBeta).finish()
    assert {one["apiVersion"] for one in lamps.stored()} == {f"{GROUP}/v1"}
    assert {one["spec"]["watts"] for one in lamps.stored()} == {5}


@pytest.mark.rule("definitions-migrated")
async def test_owners_of_fields_in_other_versions_stay_when_one_is_dropped(lamps: Lamps) -> None:
    assert await lamps.rollout(Lamp, LampBeta).finish()
    await lamps.make("v1", "c")
    assert await lamps.rollout(Lamp).finish()
    owners = {
        one["metadata"]["name"]: [entry["apiVersion"] for entry in one["metadata"].get("managedFields", ())]
        for one in lamps.stored()
    }
    assert owners["c"] == [f"{GROUP}/v1"]
    assert not any("v1beta1" in version for versions in owners.values() for version in versions)
    await lamps.make("v1", "a", "b", "c")


async def test_versions_with_the_same_fields_need_no_webhook(lamps: Lamps) -> None:
    assert await lamps.rollout(Lamp).finish()
    assert {one["apiVersion"] for one in lamps.stored()} == {f"{GROUP}/v1"}


def test_only_the_first_failures_are_named() -> None:
    rewritten = Rewritten()
    for number in range(2 * NAMED):
        rewritten.fail(f"default/{number}", ValueError("x" * 10_000))
    assert (rewritten.failed, len(rewritten.failures)) == (2 * NAMED, NAMED)
    assert max(map(len, rewritten.failures)) < 600
