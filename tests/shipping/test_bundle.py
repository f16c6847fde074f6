"""Bundles keep the rules of OLM's validators, and have OLM install what the kustomize base installs."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
import yaml
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from sites import sites

from reconcile import Context, Controller, Object, resource
from reconcile.commands.crds_command import served_definition
from reconcile.kinds import ConfigMap, Pod
from reconcile.models import LabelSelector, Rule
from reconcile.models.versions import families, is_custom
from reconcile.shipping.bundle import BESIDE, bundle_of, gaps_of
from reconcile.shipping.changes import Change
from reconcile.shipping.documents import Document
from reconcile.shipping.installation import Installation, documents_of
from reconcile.shipping.project import Maintainer, Project
from reconcile.shipping.samples import sample_of
from reconcile.shipping.service_version import CERTIFICATES, DEFAULT_ICON, BundleError, Release
from reconcile.webhooks import Admission
from reconcile.webhooks.routes import routes_of
from tests.shipping.olm_rules import faults_of

IMAGE = "registry.example.com/sites@sha256:" + 64 * "0"
PROJECT = Project(
    name="sites",
    version="1.2.0",
    summary="Keeps sites",
    maintainers=[Maintainer("Ann", "ann@example.com")],
    links={"Homepage": "https://example.com", "Repository": "https://example.com/sites.git"},
    license="Apache-2.0",
    categories=["Networking"],
    changes=[Change("fixed", "Names")],
)


@resource("doors.example.com/v1")
class Door(Object):
    """A door of a shop."""

    wide: bool = False
    """Whether a cart fits through."""


async def keep(ctx: Context[Any]) -> None: ...


def narrow(door: Door, old: Door | None, request: object) -> Sequence[Any]:
    return []


def complete(door: Door, request: object) -> Door:
    return door


DOORS = Controller(Door, keep, owns=[ConfigMap], admission=Admission(Door, refuses=narrow, defaults=complete))


def installation(*controllers: Controller[Any], **options: Any) -> Installation:
    return Installation(
        name="sites",
        lease="sites",
        namespace="sites-system",
        image=IMAGE,
        targets=["sites:manager"],
        controllers=controllers,
        routes=routes_of(controllers),
        **options,
    )


def definitions_of(operator: Installation) -> Sequence[Document]:
    kinds = [one.kind for one in operator.controllers if is_custom(one.kind)]
    return [served_definition(versions, operator.webhook_service) for versions in families(kinds)]


def bundle(operator: Installation, project: Project = PROJECT, replaces: str = "") -> Mapping[str, str]:
    definitions = definitions_of(operator)
    samples = [sample_of(one) for one in definitions]
    return bundle_of(operator, definitions, Release(project, samples, DEFAULT_ICON, "Sites.", replaces))


def version_of(files: Mapping[str, str]) -> Document:
    version: Document = yaml.safe_load(files["manifests/sites.clusterserviceversion.yaml"])
    return version


def pod_of(files: Mapping[str, str]) -> Document:
    (deployment,) = version_of(files)["spec"]["install"]["spec"]["deployments"]
    pod: Document = deployment["spec"]["template"]["spec"]
    return pod


OPERATORS = {
    "plain": installation(sites),
    "webhooks": installation(DOORS),
    "two kinds": installation(sites, DOORS),
    "sharded": installation(sites, ring=("sites-system", "sites"), replicas=3),
    "definitions applied": installation(sites, applies_definitions=True),
    "reviewed": installation(sites, review=True, tls=True),
    "certificates of cert-manager": installation(DOORS, webhook_certificates="/certificates"),
}


@pytest.mark.parametrize("operator", OPERATORS.values(), ids=OPERATORS.keys())
def test_a_bundle_keeps_the_rules_of_the_validators(operator: Installation) -> None:
    assert faults_of(bundle(operator, replaces="1.1.0")) == []


@pytest.mark.parametrize("operator", OPERATORS.values(), ids=OPERATORS.keys())
def test_olm_grants_exactly_the_rules_of_the_roles(operator: Installation) -> None:
    served = evolve(operator, webhook_certificates=CERTIFICATES, applies_definitions=False)
    base = [one for file in documents_of(served, definitions_of(operator)).values() for one in file]
    strategy = version_of(bundle(operator))["spec"]["install"]["spec"]
    for kind, grants in (("ClusterRole", "clusterPermissions"), ("Role", "permissions")):
        bound = {one["roleRef"]["name"] for one in base if one["kind"] == f"{kind}Binding"}
        expected = [one["rules"] for one in base if one["kind"] == kind and one["metadata"]["name"] in bound]
        assert [one["rules"] for one in strategy.get(grants, [])] == expected
        assert {one["serviceAccountName"] for one in strategy.get(grants, [])} <= {"sites"}


def test_the_pods_take_their_namespace_from_where_they_are_installed() -> None:
    for operator in OPERATORS.values():
        pod = pod_of(bundle(operator))
        assert "sites-system" not in yaml.safe_dump(pod)
        (container,) = pod["containers"]
        (variable,) = container["env"]
        assert variable["valueFrom"] == {"fieldRef": {"fieldPath": "metadata.namespace"}}
        assert [one for one in container["args"] if f"$({variable['name']})/sites" in one]


def test_webhooks_are_served_with_the_certificate_that_olm_mounts() -> None:
    pod = pod_of(bundle(OPERATORS["certificates of cert-manager"]))
    (container,) = pod["containers"]
    assert f"--webhook-certificates={CERTIFICATES}" in container["args"]
    assert not {"volumes", "volumeMounts"} & (set(pod) | set(container))
    assert not [one for one in container["args"] if one.startswith("--webhook-service")]


def test_olm_calls_the_webhooks_of_the_configurations() -> None:
    operator = OPERATORS["webhooks"]
    webhooks = version_of(bundle(operator))["spec"]["webhookdefinitions"]
    base = documents_of(operator, definitions_of(operator))["webhooks.yaml"]
    expected = {hook["name"]: hook for configuration in base for hook in configuration["webhooks"]}
    assert len(expected) == 2
    for webhook in webhooks:
        called = expected.pop(webhook["generateName"])
        assert webhook["webhookPath"] == called["clientConfig"]["service"]["path"]
        assert webhook["rules"] == called["rules"]
        assert webhook["failurePolicy"] == called["failurePolicy"]
    assert expected == {}
    types = {one["type"] for one in webhooks}
    assert types == {"MutatingAdmissionWebhook", "ValidatingAdmissionWebhook"}


def test_kinds_are_described_by_their_docstrings() -> None:
    (owned,) = version_of(bundle(OPERATORS["webhooks"]))["spec"]["customresourcedefinitions"]["owned"]
    assert (owned["displayName"], owned["description"]) == ("Door", "A door of a shop.")
    assert owned["resources"] == [{"kind": "ConfigMap", "name": "", "version": "v1"}]


def test_fields_of_spec_and_status_are_described() -> None:
    (owned,) = version_of(bundle(OPERATORS["plain"]))["spec"]["customresourcedefinitions"]["owned"]
    described = {one["path"]: one for one in owned["specDescriptors"]}
    assert described["pullSecret"]["displayName"] == "Pull Secret"
    assert described["replicas"]["x-descriptors"] == ["urn:alm:descriptor:com.tectonic.ui:number"]
    conditions = next(one for one in owned["statusDescriptors"] if one["path"] == "conditions")
    assert conditions["x-descriptors"] == ["urn:alm:descriptor:io.kubernetes.conditions"]


def test_policies_are_written_beside_the_bundle() -> None:
    rules = [Rule("object.metadata.name != 'x'", message="no x")]
    operator = installation(
        Controller(Door, keep, admission=Admission(Pod, rules=rules, operator="shop.example.com"))
    )
    files = bundle(operator)
    assert {one["kind"] for one in yaml.safe_load_all(files[BESIDE])} == {
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    }
    assert faults_of(files) == []
    assert version_of(files)["spec"]["minKubeVersion"] == "1.30.0"


REFUSED: Mapping[str, tuple[Callable[[], Installation], str]] = {
    "namespaces": (lambda: installation(sites, namespaces=["a"]), "leave out --namespaces"),
    "a ring elsewhere": (
        lambda: installation(sites, ring=("rings", "sites")),
        "needs a Role in the namespace rings",
    ),
    "a built-in kind": (
        lambda: installation(
            Controller(Door, keep, admission=Admission(Pod, refuses=narrow, operator="shop.example.com"))
        ),
        "leaves out namespaces",
    ),
    "selected namespaces": (
        lambda: installation(
            Controller(
                Door,
                keep,
                admission=Admission(Door, refuses=narrow, namespaces=LabelSelector(match_labels={"a": "b"})),
            )
        ),
        "leaves out namespaces",
    ),
    "conditions": (
        lambda: installation(
            Controller(
                Door, keep, admission=Admission(Door, refuses=narrow, conditions={"new": "oldObject == null"})
            )
        ),
        "has the condition new",
    ),
}


@pytest.mark.parametrize(("make", "reason"), REFUSED.values(), ids=REFUSED.keys())
def test_what_olm_cannot_express_is_refused(make: Callable[[], Installation], reason: str) -> None:
    with pytest.raises(BundleError, match=reason):
        bundle(make())


@pytest.mark.parametrize("version", ["1.0.0+build", "1.0.0-RC.1", "1.0.0-" + 60 * "a"])
def test_a_version_that_cannot_name_an_object_is_refused(version: str) -> None:
    with pytest.raises(BundleError, match=r"cannot be named sites\.v1\.0\.0"):
        bundle(OPERATORS["plain"], evolve(PROJECT, version=version))


def test_a_bundle_too_large_for_olm_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reconcile.shipping.bundle.LARGEST", 1000)
    with pytest.raises(BundleError, match="OLM takes 1000: shorten its samples and icon"):
        bundle(OPERATORS["plain"])


def test_gaps_name_what_catalogues_ask_for() -> None:
    operator = OPERATORS["plain"]
    whole = Release(PROJECT, [], DEFAULT_ICON, "Sites.")
    assert list(gaps_of(operator, whole)) == []
    (gap,) = gaps_of(OPERATORS["reviewed"], whole)
    assert "does not mount the certificate of serve_certificates=" in gap
    bare = evolve(whole, project=Project(name="sites", version="1.2.0"))
    gaps = list(gaps_of(evolve(operator, image="sites:1.2.0"), bare))
    assert [gap.partition(":")[0] for gap in gaps] == [
        "the image sites",
        "there are no maintainers",
        "there is no license",
        "there are no categories",
    ]


NUMBERS = st.integers(0, 9999)


@settings(max_examples=15, deadline=None)
@given(NUMBERS, NUMBERS, NUMBERS, st.sampled_from(["", "-alpha.1", "-rc.12"]), st.text(max_size=30))
def test_each_version_and_text_makes_a_valid_bundle(
    major: int, minor: int, patch: int, phase: str, text: str
) -> None:
    changes = [Change("fixed", text)]
    project = evolve(
        PROJECT, version=f"{major}.{minor}.{patch}{phase}", summary=text, keywords=[text], changes=changes
    )
    files = bundle(OPERATORS["plain"], project)
    assert faults_of(files) == []
    assert version_of(files)["metadata"]["annotations"]["description"] == (text or "Sites.")


# --- the rules themselves ---------------------------------------------------------------------------------

BREAKS: Mapping[str, tuple[Callable[[Any], object], str]] = {
    "no mode": (lambda csv: csv["spec"]["installModes"].clear(), "installModes"),
    "own namespace": (
        lambda csv: csv["spec"]["installModes"][0].update(supported=True),
        "conversion needs AllNamespaces alone",
    ),
    "version": (lambda csv: csv["spec"].update(version="1.2"), "version"),
    "minimum": (lambda csv: csv["spec"].update(minKubeVersion="1.30"), "minKubeVersion"),
    "provider": (lambda csv: csv["spec"].update(provider={}), "provider"),
    "icon": (lambda csv: csv["spec"].update(icon=[]), "icon"),
    "name": (lambda csv: csv["metadata"].update(name="sites-1.2.0"), "sites-1.2.0 is not NAME.vVERSION"),
    "owned": (
        lambda csv: csv["spec"]["customresourcedefinitions"]["owned"].pop(),
        "owned definitions are not those of the bundle",
    ),
    "examples": (
        lambda csv: csv["metadata"]["annotations"].update({"alm-examples": "[]"}),
        "alm-examples are not of the provided APIs",
    ),
    "deployment": (
        lambda csv: csv["spec"]["webhookdefinitions"][0].update(deploymentName="other"),
        "the webhook",
    ),
    "twice": (
        lambda csv: csv["spec"]["webhookdefinitions"].append(csv["spec"]["webhookdefinitions"][0]),
        "a webhook twice",
    ),
    "links": (lambda csv: csv["spec"].update(links=[{"name": "a", "url": "b"}]), "links"),
    "maintainers": (lambda csv: csv["spec"].update(maintainers=[{"name": "Ann"}]), "maintainers"),
}


@pytest.mark.parametrize(("broken", "fault"), BREAKS.values(), ids=BREAKS.keys())
def test_the_rules_find_a_broken_bundle(broken: Callable[[Any], object], fault: str) -> None:
    files = dict(bundle(OPERATORS["webhooks"]))
    version = version_of(files)
    version["spec"]["webhookdefinitions"][0]["conversionCRDs"] = ["doors.doors.example.com"]
    assert faults_of(files) == []
    broken(version)
    files["manifests/sites.clusterserviceversion.yaml"] = yaml.safe_dump(version)
    assert [one for one in faults_of(files) if one.startswith(fault)] != []
