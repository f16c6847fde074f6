"""The controller of registry secrets on a server, one run at a time."""

import base64
import json
from typing import Any

import pytest
import structlog

from controllers.registrysecrets import KuberoPipeline
from controllers.registrysecrets.models import Git, Keys, PipelinePhase, PipelineRegistry, SecretRef
from reconcile import Key, ObjectMeta
from reconcile.blocks.copier.copies import SOURCE_VERSION
from reconcile.kinds import Event, Namespace, Secret
from reconcile.models import encode
from reconcile.testing import FakeClient, Fault, FaultPlan, Refuse, RunReport, When, run_once
from tests.controllers.pipelines import (
    COPIES,
    DOCKER,
    HOST,
    PASSWORD,
    controller,
    copies,
    docker_config,
    mode,
    pipeline,
    respec,
    source,
)
from tests.controllers.world import NAMESPACE


async def once(client: FakeClient) -> RunReport:
    return await run_once(controller, f"{NAMESPACE}/shop", client)


# One run at a time.


@pytest.mark.rule("kubero-5d-12")
async def test_each_enabled_phase_gets_its_namespace_and_both_secrets() -> None:
    client = FakeClient(source(), pipeline())
    made = await once(client)
    assert made.error is None
    found = await copies(client)
    assert set(found) == {(f"shop-{phase}", name) for phase in ("test", "production") for name in COPIES}
    pull = found["shop-test", "kubero-pull-secret"]
    assert (pull.type, dict(pull.data)) == ("kubernetes.io/dockerconfigjson", {DOCKER: docker_config()})
    login = found["shop-test", "registry-credentials"]
    assert {k: base64.b64decode(v).decode() for k, v in login.data.items()} == {
        "username": "ci",
        "password": PASSWORD,
    }
    assert {name: one["status"] for name, one in made.conditions.items()} == {
        "Ready": "True",
        "SourceFound": "True",
        "Conflict": "False",
    }


@pytest.mark.rule("kubero-5d-01")
async def test_a_hundred_runs_on_an_unchanged_pipeline_write_nothing() -> None:
    client = FakeClient(source(), pipeline())
    await once(client)
    sent = len(client.transport.writes)
    for _ in range(100):
        assert (await once(client)).writes == []
    assert len(client.transport.writes) == sent


async def test_the_finalizer_is_added_and_cleanup_deletes_the_copies_in_other_namespaces() -> None:
    client = FakeClient(source(), pipeline())
    await once(client)
    stored = await client.get(KuberoPipeline, "shop", NAMESPACE)
    assert stored.metadata.finalizers == (controller.finalizer,)
    await client.delete(stored)
    assert await copies(client) != {}
    await once(client)
    assert await copies(client) == {}
    assert await client.find(KuberoPipeline, "shop", NAMESPACE) is None
    assert await client.find(Secret, "registry-login", NAMESPACE) is not None


async def test_a_pipeline_with_an_invalid_spec_reports_it_and_can_be_deleted() -> None:
    client = FakeClient(source(), pipeline(phases=(PipelinePhase("", enabled=True),)))
    made = await once(client)
    assert (made.error, made.conditions["Ready"]["reason"]) == (None, "InvalidSpec")
    again = await once(client)
    assert (again.writes, again.events) == ([], [])
    await client.delete(await client.get(KuberoPipeline, "shop", NAMESPACE))
    await once(client)
    assert await client.find(KuberoPipeline, "shop", NAMESPACE) is None


@pytest.mark.rule("kubero-5d-07")
async def test_a_foreign_secret_is_a_conflict_reported_once_and_left_alone() -> None:
    theirs = Secret(metadata=ObjectMeta("kubero-pull-secret", "shop-test"), data={"mine": "YQ=="})
    client = FakeClient(source(), pipeline("test"), theirs)
    made = await once(client)
    assert made.conditions["Conflict"]["status"] == "True"
    assert made.conditions["Ready"]["reason"] == "ForeignSecret"
    assert len([event for event in made.events if event.startswith("Warning")]) == 1
    again = await once(client)
    assert (again.writes, again.events) == ([], [])
    assert dict((await copies(client))["shop-test", "kubero-pull-secret"].data) == {"mine": "YQ=="}


@pytest.mark.rule("kubero-5d-06")
async def test_each_change_of_mode_writes_each_copy_once() -> None:
    client = FakeClient(source(), pipeline("test"))
    await once(client)
    first = await copies(client)

    await client.modify(KuberoPipeline, "shop", NAMESPACE, mode("create", username="me", password="mine"))
    assert [w for w in (await once(client)).writes if "secrets" in w] == [
        "patch secrets shop-test/kubero-pull-secret",
        "patch secrets shop-test/registry-credentials",
    ]
    created = await copies(client)
    assert {secret.uid for secret in created.values()} == {secret.uid for secret in first.values()}
    assert base64.b64decode(created["shop-test", "registry-credentials"].data["password"]) == b"mine"
    assert all(SOURCE_VERSION not in secret.metadata.annotations for secret in created.values())
    assert (await once(client)).writes == []

    await client.modify(KuberoPipeline, "shop", NAMESPACE, mode("none"))
    made = await once(client)
    assert made.conditions["Ready"]["reason"] == "NothingToCopy"
    assert "SourceFound" not in made.conditions
    assert await copies(client) == {}
    assert await client.find(Namespace, "shop-test") is not None
    assert (await once(client)).writes == []

    await client.modify(KuberoPipeline, "shop", NAMESPACE, mode("copy"))
    await once(client)
    assert {key: dict(one.data) for key, one in (await copies(client)).items()} == {
        key: dict(one.data) for key, one in first.items()
    }


@pytest.mark.rule("kubero-5d-04")
@pytest.mark.parametrize("given", [{}, {"username": "me"}, {"secret_ref": SecretRef("mine")}])
async def test_create_without_credentials_leaves_the_copies_as_they_are(given: dict[str, Any]) -> None:
    client = FakeClient(source(), pipeline("test"))
    await once(client)
    before = await copies(client)
    await client.modify(KuberoPipeline, "shop", NAMESPACE, mode("create", **given))
    made = await once(client)
    assert made.conditions["SourceFound"]["status"] == "False"
    assert [write for write in made.writes if "secrets" in write] == []
    assert await copies(client) == before


@pytest.mark.rule("kubero-5d-06")
async def test_an_unknown_mode_is_reported_and_nothing_is_changed() -> None:
    client = FakeClient(source(), pipeline("test"))
    await once(client)
    before = await copies(client)
    await client.modify(KuberoPipeline, "shop", NAMESPACE, mode("mirror"))
    made = await once(client)
    assert (made.error, made.conditions["Ready"]["reason"]) == (None, "InvalidSpec")
    assert await copies(client) == before


@pytest.mark.rule("kubero-5e-credentials")
@pytest.mark.parametrize("word", ["copy", "create"])
async def test_a_pipeline_can_reference_its_own_credentials(word: str) -> None:
    own = source("own-password").with_metadata(name="own-login")
    registry = PipelineRegistry(create_secret=word, host=HOST, secret_ref=SecretRef("own-login"))
    client = FakeClient(source(), own, pipeline("test", registry=registry), pipeline("test", name="blog"))
    await once(client)
    await run_once(controller, f"{NAMESPACE}/blog", client)
    found = await copies(client)
    passwords = {
        space: base64.b64decode(found[space, "registry-credentials"].data["password"]).decode()
        for space in ("shop-test", "blog-test")
    }
    assert passwords == {"shop-test": "own-password", "blog-test": PASSWORD}
    config = json.loads(base64.b64decode(found["shop-test", "kubero-pull-secret"].data[DOCKER]))
    assert config["auths"][HOST]["password"] == "own-password"
    assert (await once(client)).writes == []


async def test_deploy_keys_come_from_the_pipeline_or_a_secret_and_are_removed_with_it() -> None:
    held = Secret(metadata=ObjectMeta("keys", NAMESPACE), data={"deploykey": "eA==", "deploykey.pub": "eQ=="})
    git = Git(keys=Keys(priv="YQ==", pub="Yg=="))
    client = FakeClient(held, pipeline("test", mode="none", git=git))
    await once(client)
    assert (await client.get(Secret, "deployment-keys", "shop-test")).data == {
        "deploykey": "YQ==",
        "deploykey.pub": "Yg==",
    }
    change = respec(git=Git(keys=Keys(secret_ref=SecretRef("keys"))))
    await client.modify(KuberoPipeline, "shop", NAMESPACE, change)
    await once(client)
    assert (await client.get(Secret, "deployment-keys", "shop-test")).data == held.data
    await client.modify(KuberoPipeline, "shop", NAMESPACE, respec(git=None))
    await once(client)
    assert await client.find(Secret, "deployment-keys", "shop-test") is None


# What Kubero's own operator has left.


def of_helm(name: str, release: str = "shop", **data: str) -> Secret:
    labels = {"app.kubernetes.io/managed-by": "Helm"}
    noted = {"meta.helm.sh/release-name": release, "meta.helm.sh/release-namespace": NAMESPACE}
    metadata = ObjectMeta(name, "shop-test", labels=labels, annotations=noted)
    kind = "kubernetes.io/dockerconfigjson" if name == "kubero-pull-secret" else "Opaque"
    return Secret(metadata=metadata, type=kind, data=data)


@pytest.mark.rule("kubero-adopt")
async def test_helm_copies_are_foreign_until_the_pipeline_enables_adoption() -> None:
    theirs = [
        of_helm("kubero-pull-secret", **{DOCKER: "e30="}),
        of_helm("registry-credentials", username="eA==", password="eA=="),
    ]
    client = FakeClient(source(), pipeline("test"), *theirs)
    made = await once(client)
    assert made.conditions["Conflict"]["status"] == "True"
    before = await copies(client)

    await client.modify(KuberoPipeline, "shop", NAMESPACE, respec(adopt="helm"))
    made = await once(client)
    assert made.conditions["Ready"]["status"] == "True"
    assert "Normal Adopted: took over Secrets" in " ".join(made.events)
    adopted = await copies(client)
    assert {one.uid for one in adopted.values()} == {one.uid for one in before.values()}
    assert adopted["shop-test", "kubero-pull-secret"].data == {DOCKER: docker_config()}
    # Theirs to say still: going back to Helm needs it.
    assert all("meta.helm.sh/release-name" in one.metadata.annotations for one in adopted.values())

    await client.modify(KuberoPipeline, "shop", NAMESPACE, respec(adopt=None))
    again = await once(client)
    assert (again.conditions["Ready"]["status"], await copies(client)) == ("True", adopted)


@pytest.mark.rule("kubero-adopt")
async def test_the_copy_of_another_release_is_never_adopted() -> None:
    client = FakeClient(
        source(),
        pipeline("test", adopt="helm"),
        of_helm("kubero-pull-secret", release="else", **{DOCKER: "e30="}),
    )
    assert (await once(client)).conditions["Conflict"]["status"] == "True"
    assert (await copies(client))["shop-test", "kubero-pull-secret"].data == {DOCKER: "e30="}


# What goes, by choice.


@pytest.mark.rule("kubero-removal")
@pytest.mark.parametrize(
    ("removal", "secrets", "namespace"),
    [(None, 0, True), ("copies", 0, True), ("keep", 6, True), ("namespaces", 0, False)],
)
@pytest.mark.parametrize("how", ["phase", "pipeline"])
async def test_the_removal_policy_decides_what_is_deleted_with_a_phase_or_a_pipeline(
    removal: str | None, secrets: int, namespace: bool, how: str
) -> None:
    theirs = Namespace(metadata=ObjectMeta("shop-theirs"))
    twin = KuberoPipeline(metadata=ObjectMeta("shop", "other"), spec=pipeline("shared").spec)
    client = FakeClient(source(), theirs, twin, pipeline("test", "theirs", "shared", removal=removal))
    await once(client)
    if how == "phase":
        await client.modify(KuberoPipeline, "shop", NAMESPACE, respec(phases=()))
    else:
        await client.delete(await client.get(KuberoPipeline, "shop", NAMESPACE))
    made = await once(client)
    assert len(await copies(client)) == secrets
    deleted = [write for write in made.writes if write.startswith("delete namespaces")]
    assert deleted == ([] if namespace else ["delete namespaces shop-test"])
    assert (await client.find(KuberoPipeline, "shop", NAMESPACE) is None) is (how == "pipeline")


async def test_another_pipeline_with_an_unusable_spec_keeps_a_namespace_from_deletion() -> None:
    unusable = pipeline(name="other", phases=(PipelinePhase("", True),))
    client = FakeClient(source(), unusable, pipeline("test", removal="namespaces"))
    await once(client)
    await client.modify(KuberoPipeline, "shop", NAMESPACE, respec(phases=()))
    await once(client)
    assert await client.find(Namespace, "shop-test") is not None
    await client.modify(KuberoPipeline, "other", NAMESPACE, respec(phases=()))
    assert "delete namespaces shop-test" in (await once(client)).writes


@pytest.mark.rule("kubero-5d-13")
async def test_a_copy_of_another_type_is_deleted_and_recreated() -> None:
    client = FakeClient(source(), pipeline("test"))
    await once(client)
    right = (await copies(client))["shop-test", "kubero-pull-secret"]
    await client.delete(right)
    await client.create(Secret(metadata=ObjectMeta(right.name, "shop-test", labels=right.metadata.labels)))
    made = await once(client)
    assert made.writes[:2] == [
        "delete secrets shop-test/kubero-pull-secret",
        "create secrets shop-test/kubero-pull-secret",
    ]
    mended = (await copies(client))["shop-test", "kubero-pull-secret"]
    assert (mended.type, dict(mended.data)) == (right.type, dict(right.data))


@pytest.mark.rule("kubero-secrecy")
@pytest.mark.parametrize("word", ["copy", "create"])
async def test_no_value_of_a_secret_is_shown_anywhere(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    quoting = Refuse(
        422, "Invalid", f"Secret is invalid: data: Invalid value: {PASSWORD!r} {docker_config()}"
    )
    plan = FaultPlan((Fault(When("create", "*/secrets", nth=2), quoting),))
    registry = PipelineRegistry(create_secret=word, host=HOST, username="ci", password=PASSWORD)
    client = FakeClient(source(), pipeline(registry=registry), plan=plan)
    with structlog.testing.capture_logs() as logs:
        failed = await once(client)
        passed = await once(client)
    assert failed.conditions["Ready"]["reason"] == "WriteFailed"
    assert failed.retry
    stored = await client.get(KuberoPipeline, "shop", NAMESPACE)
    events = [encode(event) for event in await client.list(Event, NAMESPACE)]
    said = json.dumps(
        [encode(stored)["status"], repr(stored), events, [str(x) for x in logs], str(failed), str(passed)],
        default=str,
    )
    secrets = (PASSWORD, docker_config(), base64.b64encode(PASSWORD.encode()).decode())
    assert not [value for value in secrets if value in said]
    assert PASSWORD not in capsys.readouterr().out


def test_a_pipeline_status_names_its_source_and_the_places_of_its_copies() -> None:
    one = KuberoPipeline(metadata=ObjectMeta("shop", NAMESPACE, uid="u"), spec=pipeline("test").spec)
    secrets, namespaces = (watch.by for watch in controller.watches)
    assert secrets is not None
    assert set(secrets(one)) == {  # type: ignore[arg-type]
        Key(NAMESPACE, "registry-login"),
        Key("shop-test", "kubero-pull-secret"),
        Key("shop-test", "registry-credentials"),
    }
    assert namespaces is not None
    assert namespaces(one) == ["shop-test"]
