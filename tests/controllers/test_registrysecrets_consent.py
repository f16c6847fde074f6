"""Registry secrets between tenants: a pipeline gets what the owners of Secrets and namespaces agreed to."""

from typing import Any

import pytest
import yaml

from controllers.registrysecrets import KuberoPipeline, make_controller
from controllers.registrysecrets.controller import consent_from
from controllers.registrysecrets.desired_copies import copies_of, phase_namespaces
from controllers.registrysecrets.models import PipelinePhase, PipelineRegistry, SecretRef
from reconcile import Context, Controller, Key, ObjectMeta
from reconcile.blocks import Consent, Copier, Unusable
from reconcile.blocks.copier.consent import ALLOW_COPIES_FOR
from reconcile.controller.entry_points import CONTROLLERS, entries, sample_of
from reconcile.kinds import Namespace, Secret
from reconcile.testing import FakeClient, RunReport, run_once
from tests.controllers.pipelines import HOST, copies, mode, pipeline, respec, source
from tests.controllers.world import NAMESPACE

STRICT = make_controller(Consent())


async def once(
    client: FakeClient, name: str = "shop", namespace: str = NAMESPACE, **agreed: Any
) -> RunReport:
    chosen = make_controller(Consent(**agreed)) if agreed else STRICT
    return await run_once(chosen, f"{namespace}/{name}", client)


def space(name: str, agrees_to: str = "") -> Namespace:
    return Namespace(metadata=ObjectMeta(name, labels={ALLOW_COPIES_FOR: agrees_to} if agrees_to else {}))


def agreed_source(to: str = NAMESPACE, namespace: str = NAMESPACE) -> Secret:
    plain = source(namespace=namespace)
    metadata = ObjectMeta(plain.name, namespace, labels={ALLOW_COPIES_FOR: to})
    return Secret(metadata=metadata, type=plain.type, data=plain.data)


async def spaces(client: FakeClient) -> set[str]:
    return {one.name for one in await client.list(Namespace)}


# --- sources ------------------------------------------------------------------------------------------


@pytest.mark.rule("tenant-01")
async def test_a_secret_of_another_team_is_not_copied_for_a_pipeline_that_names_it() -> None:
    client = FakeClient(source(namespace="finance"), pipeline("test", mainnamespace="finance"))
    done = await once(client, namespaces=["*"])
    assert await copies(client) == {}
    assert done.conditions["SourceFound"]["reason"] == "NotAllowed"
    assert f"{ALLOW_COPIES_FOR}={NAMESPACE}" in done.conditions["Ready"]["message"]


@pytest.mark.rule("tenant-03")
async def test_the_answer_does_not_reveal_whether_a_secret_exists() -> None:
    there = FakeClient(source(namespace="finance"), pipeline("test", mainnamespace="finance"))
    missing = FakeClient(pipeline("test", mainnamespace="finance"))
    answers = [(await once(one, namespaces=["*"])).conditions for one in (there, missing)]
    assert answers[0]["SourceFound"]["message"] == answers[1]["SourceFound"]["message"]


async def test_the_label_on_the_secret_consents_only_to_the_namespaces_that_it_names() -> None:
    client = FakeClient(agreed_source(to=f"team-b.{NAMESPACE}"), pipeline("test"))
    await once(client, namespaces=["*"])
    assert len(await copies(client)) == 2
    client = FakeClient(agreed_source(to="team-b"), pipeline("test"))
    await once(client, namespaces=["*"])
    assert await copies(client) == {}


@pytest.mark.parametrize("word", ["copy", "create"])
async def test_a_named_secret_in_the_same_namespace_needs_the_label_too(word: str) -> None:
    client = FakeClient(source(), pipeline("test"))
    naming = PipelineRegistry(create_secret=word, host=HOST, secret_ref=SecretRef("registry-login"))
    await client.modify(KuberoPipeline, "shop", NAMESPACE, respec(registry=naming))
    await once(client, namespaces=["*"])
    assert await copies(client) == {}


async def test_existing_copies_stay_unchanged_when_the_owner_of_the_secret_withdraws_consent() -> None:
    client = FakeClient(agreed_source(), pipeline("test"))
    await once(client, namespaces=["*"])
    before = await copies(client)
    labels = {"labels": {ALLOW_COPIES_FOR: None}}
    await client.raw.merge(source(), {"metadata": labels, "data": dict(source("x").data)}, guard={})
    done = await once(client, namespaces=["*"])
    assert await copies(client) == before
    assert done.conditions["SourceFound"]["status"] == "False"


# --- targets ------------------------------------------------------------------------------------------


@pytest.mark.rule("tenant-02")
@pytest.mark.parametrize("phase", ["system", "public"])
async def test_no_secret_is_written_to_kube_system_even_if_every_namespace_is_allowed(phase: str) -> None:
    client = FakeClient(source(), pipeline(phase, name="kube"))
    done = await once(client, "kube", sources=["*"], namespaces=["*"])
    assert await copies(client) == {}
    assert done.conditions["Ready"]["reason"] == "NamespaceNotAllowed"
    await once(client, "kube", sources=["*"], namespaces=[f"kube-{phase}"])
    assert len(await copies(client)) == 2


@pytest.mark.rule("tenant-02")
async def test_no_namespace_is_created_or_written_to_without_consent() -> None:
    client = FakeClient(agreed_source(), pipeline("test", "production"), space("shop-test"))
    before = await spaces(client)
    done = await once(client)
    assert await copies(client) == {}
    assert await spaces(client) == before
    assert "shop-test, shop-production" in done.conditions["Ready"]["message"]
    assert (await once(client)).writes == []


async def test_a_namespace_consents_by_its_label_to_the_pipelines_of_one_namespace() -> None:
    spaces = space("shop-test", NAMESPACE), space("shop-production", "b")
    client = FakeClient(agreed_source(), pipeline("test", "production"), *spaces)
    done = await once(client)
    assert {namespace for namespace, _ in await copies(client)} == {"shop-test"}
    assert done.conditions["Ready"]["reason"] == "NamespaceNotAllowed"


@pytest.mark.rule("tenant-03")
async def test_the_answer_does_not_reveal_whether_a_namespace_or_its_content_exists() -> None:
    theirs = Secret(metadata=ObjectMeta("kubero-pull-secret", "shop-test"), data={"mine": "YQ=="})
    there = FakeClient(agreed_source(), pipeline("test"), space("shop-test"), theirs)
    missing = FakeClient(agreed_source(), pipeline("test"))
    answers = [(await once(one)).conditions for one in (there, missing)]
    words = [{name: (one["reason"], one["message"]) for name, one in answer.items()} for answer in answers]
    assert words[0] == words[1]


async def test_the_operators_configuration_consents_for_one_namespace_of_pipelines() -> None:
    sources, namespaces = [f"{NAMESPACE}:{NAMESPACE}/registry-login"], [f"{NAMESPACE}:shop-*"]
    client = FakeClient(source(), pipeline("test"))
    done = await once(client, sources=sources, namespaces=namespaces)
    assert done.conditions["Ready"]["status"] == "True"
    other = KuberoPipeline(metadata=ObjectMeta("shop", "team-b"), spec=pipeline("test").spec)
    client = FakeClient(source(), other)
    await once(client, namespace="team-b", sources=sources, namespaces=namespaces)
    assert await copies(client) == {}


async def test_copies_in_a_namespace_that_withdraws_consent_stay_until_they_are_undesired() -> None:
    client = FakeClient(agreed_source(), pipeline("test"), space("shop-test", NAMESPACE))
    await once(client)
    await client.raw.merge(space("shop-test"), {"metadata": {"labels": {ALLOW_COPIES_FOR: None}}}, guard={})
    assert (await once(client)).conditions["Ready"]["reason"] == "NamespaceNotAllowed"
    assert len(await copies(client)) == 2
    await client.modify(KuberoPipeline, "shop", NAMESPACE, mode("none"))
    await once(client)
    assert await copies(client) == {}


# --- what others left ----------------------------------------------------------------------------------


async def planted(by: str, namespace: str) -> FakeClient:
    """A copy that a pipeline of another namespace planted when its author alone was believed."""
    theirs = KuberoPipeline(metadata=ObjectMeta(by, namespace), spec=pipeline("test", name="shop").spec)
    client = FakeClient(agreed_source(), theirs, pipeline("test", name="shop"), space("shop-test", NAMESPACE))
    await client.modify(KuberoPipeline, by, namespace, respec(name="shop"))
    await run_once(make_controller(Consent.of_authors()), f"{namespace}/{by}", client)
    assert len(await copies(client)) == 2
    return client


@pytest.mark.rule("tenant-04")
async def test_a_copy_written_by_a_pipeline_without_consent_is_taken_over() -> None:
    client = await planted("attacker", "evil")
    assert (await once(client)).conditions["Ready"]["status"] == "True"
    assert (await once(client)).writes == []
    assert all(
        one.metadata.labels["reconcile-runtime/owner-namespace"] == NAMESPACE
        for one in (await copies(client)).values()
    )
    assert await once(client, "attacker", "evil")
    assert (await once(client)).writes == []


async def test_a_copy_of_a_consented_pipeline_is_taken_over_once_that_pipeline_is_gone() -> None:
    client = await planted("attacker", "evil")
    both = {"sources": ["*"], "namespaces": ["shop-*"]}
    assert (await once(client, **both)).conditions["Ready"]["reason"] == "ForeignSecret"
    stored = await client.get(KuberoPipeline, "attacker", "evil")
    await client.modify(KuberoPipeline, "attacker", "evil", respec(removal="keep"))
    await client.delete(await client.get(KuberoPipeline, "attacker", "evil"))
    await run_once(make_controller(Consent.of_authors()), f"evil/{stored.name}", client)
    assert await client.find(KuberoPipeline, "attacker", "evil") is None
    assert (await once(client, **both)).conditions["Ready"]["status"] == "True"


async def test_a_foreign_pipeline_without_consent_does_not_keep_a_namespace_from_deletion() -> None:
    mine = pipeline("test", removal="namespaces")
    strangers = KuberoPipeline(metadata=ObjectMeta("shop", "evil"), spec=pipeline("test", name="shop").spec)
    nonsense = KuberoPipeline(
        metadata=ObjectMeta("bad", "evil"), spec=pipeline(phases=(PipelinePhase("", True),)).spec
    )
    client = FakeClient(source(), mine, strangers, nonsense)
    agreed = {"sources": ["*"], "namespaces": [f"{NAMESPACE}:shop-*"]}
    await once(client, **agreed)
    await client.delete(await client.get(KuberoPipeline, "shop", NAMESPACE))
    await once(client, **agreed)
    found = await client.find(Namespace, "shop-test")
    assert found is None or found.terminating


# --- bounds and the switch ---------------------------------------------------------------------------


@pytest.mark.rule("tenant-05")
def test_more_phases_than_the_bound_are_refused_by_name() -> None:
    many = pipeline(*(f"p{number}" for number in range(101)))
    with pytest.raises(Unusable, match="the maximum is 100"):
        copies_of(many)


@pytest.mark.rule("tenant-05")
async def test_more_namespaces_than_the_bound_are_a_condition_and_nothing_is_touched() -> None:
    client = FakeClient(source(), pipeline("a", "b", "c"))
    few = Copier(KuberoPipeline, copies_of, namespaces=phase_namespaces, name="few", most_namespaces=2)

    async def keep(ctx: Context[KuberoPipeline]) -> None:
        await few.keep(ctx)

    chosen = Controller(KuberoPipeline, keep, watches=few.watches, writes=few.writes, operator="example.com")
    done = await run_once(chosen, f"{NAMESPACE}/shop", client)
    assert done.conditions["Ready"]["reason"] == "TooManyNamespaces"
    assert await copies(client) == {}


async def test_the_behaviour_of_kubero_is_enabled_by_one_switch() -> None:
    client = FakeClient(source(namespace="finance"), pipeline("system", name="kube", mainnamespace="finance"))
    consent = consent_from({"REGISTRY_SECRETS_TRUST_AUTHORS": "true"})
    await run_once(make_controller(consent), f"{NAMESPACE}/kube", client)
    assert {namespace for namespace, _ in await copies(client)} == {"kube-system"}


def test_the_environment_configures_consent() -> None:
    consent = consent_from(
        {
            "REGISTRY_SECRETS_SOURCES": "shop:kubero/registry-login, ",
            "REGISTRY_SECRETS_NAMESPACES": "shop:shop-*,ci-*",
        }
    )
    login = Key("kubero", "registry-login")
    assert consent.allows_source("shop", login, None)
    assert not consent.allows_source("other", login, None)
    assert consent.allows_target("other", "ci-1", None)
    assert not consent.allows_target("other", "shop-1", None)
    assert consent_from({}) == Consent()


@pytest.mark.parametrize(
    "environ",
    [
        {"REGISTRY_SECRETS_TRUST_AUTHORS": "perhaps"},
        {"REGISTRY_SECRETS_SOURCES": ":kubero/registry-login"},
        {"REGISTRY_SECRETS_NAMESPACES": "shop:"},
    ],
)
def test_an_invalid_variable_is_an_error_with_its_name(environ: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=next(iter(environ))):
        consent_from(environ)


async def test_the_sample_works_without_any_configuration() -> None:
    entry = next(entry for entry in entries(CONTROLLERS) if entry.name == "registry-secrets")
    client = FakeClient()
    client.serve(KuberoPipeline)
    for manifest in yaml.safe_load_all(sample_of(entry)):
        client.add(manifest)
    assert (await once(client, namespace="kubero")).conditions["Ready"]["status"] == "True"
    assert {namespace for namespace, _ in await copies(client)} == {"shop-test", "shop-production"}
