"""A definition that gets narrower: stored objects are read, and those that do not fit are named."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from attrs import define, field, frozen

from informers.transport import HttpRequest, PassingTransport, Response, Transport
from reconcile import Object, resource
from reconcile.embedded import ApiServer, InProcessTransport
from reconcile.models.schema_changes import schema_changes
from reconcile.testing.virtual_clock import VirtualClock
from reconcile.webhooks.definition_proof import DefinitionProof
from reconcile.webhooks.definition_rollout import DefinitionRefused, DefinitionRollout
from reconcile.webhooks.object_fit import ObjectFit
from reconcile.webhooks.wanted_definitions import WantedDefinition, wanted_definition
from tests.helpers.definitions import INTEGER, STRING, list_of, object_of
from tests.webhooks.coloured_lamps import ColouredLamp
from tests.webhooks.lamps import GROUP, Lamp, LampStatus

LAMPS = f"/apis/{GROUP}/v1/namespaces/default/lamps"
LIST = f"/apis/{GROUP}/v1/lamps"
DEFINITION = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/lamps.{GROUP}"
SECRET = "hunter2"

WIDE, NARROW = wanted_definition([ColouredLamp]), wanted_definition([Lamp])


@frozen
class DimmedSpec:
    watts: int = 1
    percent: int = 100


@resource(f"{GROUP}/v1", kind="Lamp")
class DimmedLamp(Object):
    spec: DimmedSpec = DimmedSpec()
    status: LampStatus = LampStatus()


@define(eq=False)
class Lists(PassingTransport):
    """Notes the lists of lamps; the second page of the first `expiring` ones has expired."""

    _inner: Transport
    expiring: int = 0
    asked: list[Mapping[str, str]] = field(factory=list)

    async def request(self, request: HttpRequest) -> Response:
        if request.path != LIST:
            return await self._inner.request(request)
        self.asked.append(request.query)
        if "continue" in request.query and self.expiring:
            self.expiring -= 1
            status = {"kind": "Status", "status": "Failure", "reason": "Expired", "code": 410}
            return Response(410, {}, msgspec.json.encode(status))
        return await self._inner.request(request)


class Cluster:
    def __init__(self) -> None:
        self.transport = Lists(InProcessTransport(ApiServer(clock=VirtualClock(0)), settle=True))

    def rollout(self, wanted: WantedDefinition) -> DefinitionRollout:
        return DefinitionRollout(wanted, self.transport, VirtualClock(0), settle=0)

    async def ask(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        sent = None if body is None else msgspec.json.encode(body)
        kind = {"content-type": "application/json"}
        answer = await self.transport.request(HttpRequest(method, path, {}, kind, sent))
        assert answer.status < 300, answer.body
        read: dict[str, Any] = msgspec.json.decode(answer.body)
        return read

    async def make(self, name: str, **spec: Any) -> None:
        body = {"apiVersion": f"{GROUP}/v1", "kind": "Lamp", "metadata": {"name": name}, "spec": spec}
        await self.ask("POST", LAMPS, body)

    async def spec(self) -> Any:
        return (await self.ask("GET", DEFINITION))["spec"]

    async def fields(self) -> set[str]:
        """Those of a spec, by the definition."""
        schema = (await self.spec())["versions"][0]["schema"]["openAPIV3Schema"]
        return set(schema["properties"]["spec"]["properties"])


async def cluster_with(count: int) -> Cluster:
    cluster = Cluster()
    assert await cluster.rollout(WIDE).finish()
    for number in range(count):
        await cluster.make(f"lamp-{number:04}", watts=number)
    return cluster


@pytest.mark.rule("definitions-proven")
async def test_a_field_that_no_object_has_may_go() -> None:
    cluster = await cluster_with(3)
    assert await cluster.rollout(NARROW).finish()
    assert await cluster.fields() == {"watts"}
    assert len(cluster.transport.asked) == 1


@pytest.mark.rule("definitions-proven", "definitions-refused")
async def test_a_field_that_an_object_has_may_not_go_and_the_object_is_named_without_its_value() -> None:
    cluster = await cluster_with(3)
    await cluster.make("red", colour=SECRET)
    before = await cluster.spec()
    with pytest.raises(DefinitionRefused) as refused:
        await cluster.rollout(NARROW).finish()
    text = str(refused.value)
    assert "1 of 4 stored objects" in text
    assert "default/red: spec.colour (a string of 7 characters): is gone, so servers drop it" in text
    assert "run the release that fits them" in text
    assert SECRET not in text
    assert await cluster.spec() == before


@pytest.mark.rule("definitions-kept")
async def test_a_release_starts_on_a_definition_that_has_more_and_leaves_it_to_its_leader() -> None:
    cluster = await cluster_with(0)
    await cluster.make("red", colour="red")
    before = await cluster.spec()
    await cluster.rollout(NARROW).serve()
    assert await cluster.spec() == before
    assert cluster.transport.asked == []


@pytest.mark.rule("definitions-kept", "definitions-refused")
async def test_a_release_that_lacks_one_field_and_needs_another_does_not_start() -> None:
    cluster = await cluster_with(0)
    await cluster.make("red", colour="red")
    before = await cluster.spec()
    with pytest.raises(DefinitionRefused, match=r"default/red: spec\.colour"):
        await cluster.rollout(wanted_definition([DimmedLamp])).serve()
    assert await cluster.spec() == before


@pytest.mark.rule("definitions-kept")
async def test_what_a_newer_release_adds_under_a_working_leader_stays() -> None:
    cluster = Cluster()
    leader = cluster.rollout(NARROW)
    assert await leader.finish()
    await cluster.rollout(WIDE).serve()
    assert await leader.finish()
    assert await cluster.fields() == {"watts", "colour"}


async def test_more_fields_go_through_without_a_look_at_objects() -> None:
    cluster = Cluster()
    assert await cluster.rollout(NARROW).finish()
    await cluster.make("one", watts=1)
    cluster.transport.asked.clear()
    await cluster.rollout(WIDE).serve()
    assert cluster.transport.asked == []


@pytest.mark.rule("definitions-proven")
async def test_objects_are_read_in_pages_and_again_from_the_start_when_a_page_expired() -> None:
    cluster = await cluster_with(600)
    await cluster.make("zzz", colour=SECRET)
    cluster.transport.expiring = 1
    with pytest.raises(DefinitionRefused, match=r"1 of 601 stored objects .*default/zzz"):
        await cluster.rollout(NARROW).finish()
    assert ["continue" in query for query in cluster.transport.asked] == [False, True, False, True]
    assert {query["limit"] for query in cluster.transport.asked} == {"500"}


async def test_an_error_names_a_few_objects_and_counts_the_others() -> None:
    cluster = await cluster_with(0)
    for number in range(5):
        await cluster.make(f"red-{number}", colour=SECRET)
    with pytest.raises(DefinitionRefused, match=r"5 of 5 stored .*red-2.*; and 2 more") as refused:
        await cluster.rollout(NARROW).finish()
    assert "red-3" not in str(refused.value)


# --- one object -----------------------------------------------------------------------------------------

OLD = object_of(
    spec=object_of(
        size=INTEGER,
        word=STRING,
        none={**STRING, "nullable": True},
        ports=list_of(object_of(name=STRING, port=INTEGER)),
        labels={"type": "object", "additionalProperties": STRING},
    )
)
OBJECT = {
    "metadata": {"name": "a", "namespace": "shop"},
    "spec": {
        "size": 7,
        "word": SECRET,
        "none": None,
        "ports": [{"name": "x", "port": 1}, {"name": SECRET, "port": 2}],
        "labels": {"app.example.com/name": SECRET},
    },
}


def changed_at(*steps: str, **words: Any) -> dict[str, Any]:
    new: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(OLD))
    place = new
    for step in steps:
        place = place[step] if step in ("items", "additionalProperties") else place["properties"][step]
    place.update(words)
    return new


@pytest.mark.parametrize(
    ("new", "words"),
    [
        (changed_at("spec", "size", maximum=5), "spec.size (a number): maximum is 5 and there was none"),
        (changed_at("spec", "word", maxLength=3), "spec.word (a string of 7 characters): maxLength is 3"),
        (
            changed_at("spec", "word", pattern="^a"),
            'spec.word (a string of 7 characters): pattern "^a" is new',
        ),
        (changed_at("spec", "word", enum=["a"]), "spec.word (a string of 7 characters): enum "),
        (
            changed_at("spec", "word", type="integer"),
            "spec.word (a string of 7 characters): must be integer and",
        ),
        (changed_at("spec", "none", nullable=False), "spec.none (null): may not be null any more"),
        (changed_at("spec", required=["owner"]), "spec.owner (absent): is required now"),
        (
            changed_at("spec", "ports", "items", "port", maximum=1),
            "spec.ports[1].port (a number): maximum is 1",
        ),
        (changed_at("spec", "ports", maxItems=1), "spec.ports (a list of 2): maxItems is 1"),
        (
            changed_at("spec", "labels", "additionalProperties", maxLength=3),
            "(a string of 7 characters): maxLength is 3",
        ),
        (
            changed_at("spec", **{"x-kubernetes-validations": [{"rule": "self.size < 5"}]}),
            'spec (an object of 5 fields): the rule "self.size < 5" is new',
        ),
        (changed_at("spec", properties={}), "spec.size (a number): is gone, so servers drop it"),
    ],
)
def test_a_misfit_names_the_field_and_the_kind_of_its_value_and_what_changed(
    new: dict[str, Any], words: str
) -> None:
    misfit = ObjectFit(OLD, new, list(schema_changes(OLD, new))).misfit(OBJECT)
    assert str(misfit).startswith("shop/a: ")
    assert words in str(misfit)
    assert SECRET not in str(misfit)


def test_an_object_that_the_old_definition_refuses_too_is_no_reason_against_the_new_one() -> None:
    old, new = changed_at("spec", "size", maximum=5), changed_at("spec", "size", maximum=4)
    assert ObjectFit(old, new, list(schema_changes(old, new))).misfit(OBJECT) is None


def test_objects_are_left_as_they_are() -> None:
    before = msgspec.json.encode(OBJECT)
    ObjectFit(OLD, changed_at("spec", properties={}), ()).misfit(OBJECT)
    assert msgspec.json.encode(OBJECT) == before


def test_rules_that_cannot_be_evaluated_here_prove_nothing() -> None:
    proof = DefinitionProof("lamps", (), read=1, unproven=("any pattern: the extra is not installed",))
    assert not proof.is_safe
    assert "install reconcile-runtime[embedded]" in proof.problem
