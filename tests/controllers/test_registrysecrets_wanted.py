"""Which Secrets and namespaces a pipeline wants."""

import base64
import json
from typing import Any

import pytest

from controllers.registrysecrets import KuberoPipeline
from controllers.registrysecrets.desired_copies import adopts, copies_of, phase_namespaces, removal_of
from reconcile import Key, ObjectMeta
from reconcile.blocks import Content, Unusable
from reconcile.kinds import Secret
from reconcile.models import decode

LOGINS = {"kubero-pull-secret", "registry-credentials"}


def pipeline(**spec: Any) -> KuberoPipeline:
    body = {
        "apiVersion": "application.kubero.dev/v1alpha1",
        "kind": "KuberoPipeline",
        "metadata": {"name": "shop", "namespace": "teams", "uid": "u"},
        "spec": {"phases": [{"name": "test", "enabled": True}], **spec},
    }
    return decode(KuberoPipeline, body)


def sources(of: KuberoPipeline) -> dict[str, Key | None]:
    return {copy.to.name: copy.source for copy in copies_of(of)}


def test_each_enabled_phase_has_a_namespace_regardless_of_the_other_options() -> None:
    phases = [
        {"name": "review", "enabled": False},
        {"name": "test", "enabled": True},
        {"name": "stage"},
        {"name": "production", "enabled": True},
        {"name": "test", "enabled": True},
    ]
    for spec in ({}, {"deploymentstrategy": "docker"}, {"registry": {"createSecret": "none"}}):
        assert phase_namespaces(pipeline(phases=phases, **spec)) == ["shop-test", "shop-production"]
    assert phase_namespaces(pipeline(name="store")) == ["store-test"]


@pytest.mark.parametrize(
    "spec",
    [
        {"replicaCount": 1, "image": {"repository": "nginx"}},
        {"registry": {"host": "registry.example.com"}},
        {"registry": None, "git": None},
        {"registry": {"createSecret": ""}},
        {"registry": {"createSecret": "copy"}, "phases": None},
        {"registry": {"createSecret": "copy"}, "deploymentstrategy": "docker"},
    ],
)
def test_a_pipeline_without_copies_desires_none(spec: dict[str, Any]) -> None:
    assert copies_of(pipeline(**spec)) == []


def test_the_source_is_in_the_main_namespace_or_by_reference_in_that_of_the_pipeline() -> None:
    assert sources(pipeline(registry={"createSecret": "copy"})) == dict.fromkeys(
        LOGINS, Key("kubero", "registry-login")
    )
    elsewhere = pipeline(registry={"createSecret": "copy"}, mainnamespace="paas")
    assert set(sources(elsewhere).values()) == {Key("paas", "registry-login")}
    for mode in ("copy", "create"):
        own = pipeline(registry={"createSecret": mode, "secretRef": {"name": "mine"}}, mainnamespace="paas")
        assert sources(own) == dict.fromkeys(LOGINS, Key("teams", "mine"))
    said = {"createSecret": "create", "host": "h", "username": "u", "password": "p"}
    assert sources(pipeline(registry=said)) == dict.fromkeys(LOGINS)


@pytest.mark.parametrize("mode", ["copy", "create"])
def test_of_several_logins_the_one_for_the_registry_is_used(mode: str) -> None:
    registries = {"one.example.com": {"auth": "YTpi"}, "two.example.com": {"auth": "Yzpk"}}
    config = base64.b64encode(json.dumps({"auths": registries}).encode()).decode()
    login = Secret(metadata=ObjectMeta("mine", "teams"), data={".dockerconfigjson": config})
    registry = {"createSecret": mode, "host": "two.example.com", "secretRef": {"name": "mine"}}
    (copy,) = [one for one in copies_of(pipeline(registry=registry)) if one.to.name == "registry-credentials"]
    assert copy.made_of(login).data == {"username": "Yw==", "password": "ZA=="}


CONFIG = base64.b64encode(b'{"auths":{"one.example.com":{"auth":"YTpi"}}}').decode()
MADE = '{"auths":{"new.example.com":{"username":"a","password":"b","auth":"YTpi"}}}'
LOGIN = {"username": "YQ==", "password": "Yg=="}


@pytest.mark.parametrize(
    ("registry", "data", "pull"),
    [
        ({"createSecret": "copy"}, {".dockerconfigjson": CONFIG, "more": "eA=="}, CONFIG),
        (
            {"createSecret": "create", "host": "new.example.com", "secretRef": {"name": "mine"}},
            {**LOGIN, "more": "eA=="},
            base64.b64encode(MADE.encode()).decode(),
        ),
    ],
)
def test_only_the_login_of_a_source_is_copied_as_docker_config_and_as_credentials(
    registry: dict[str, Any], data: dict[str, str], pull: str
) -> None:
    source = Secret(metadata=ObjectMeta("mine", "teams"), data=data)
    assert {copy.to.name: copy.made_of(source) for copy in copies_of(pipeline(registry=registry))} == {
        "kubero-pull-secret": Content({".dockerconfigjson": pull}, "kubernetes.io/dockerconfigjson"),
        "registry-credentials": Content(LOGIN),
    }


def test_only_the_deploy_keys_of_a_secret_are_copied() -> None:
    (copy,) = copies_of(pipeline(git={"keys": {"secretRef": {"name": "mine"}}}))
    keys = {"deploykey": "eA==", "deploykey.pub": "eA=="}
    assert copy.made_of(Secret(data={**keys, "more": "eA=="})) == Content(keys)


def test_deploy_keys_are_copied_if_there_is_a_public_key_or_a_reference() -> None:
    assert sources(pipeline(git={"keys": {"priv": "eA==", "pub": "eA=="}})) == {"deployment-keys": None}
    named = pipeline(git={"keys": {"secretRef": {"name": "mine"}}})
    assert sources(named) == {"deployment-keys": Key("teams", "mine")}
    for keys in ({}, {"priv": "eA==", "pub": ""}):
        assert sources(pipeline(git={"keys": keys})) == {}
    assert sources(pipeline(git={"keys": {"pub": "eA=="}}, deploymentstrategy="docker")) == {}


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"phases": [{"enabled": True}]}, r"spec.phases\[0\] is enabled but has no name"),
        ({"phases": [{"name": "T_1", "enabled": True}]}, "a namespace 'shop-T_1'"),
        ({"registry": {"createSecret": "mirror"}}, "createSecret is 'mirror'; expected copy"),
        ({"removal": "all"}, "spec.removal is 'all'"),
        ({"adopt": "all"}, "spec.adopt is 'all'"),
    ],
)
def test_an_invalid_spec_is_an_error_that_names_the_field(spec: dict[str, Any], said: str) -> None:
    with pytest.raises(Unusable, match=said):
        copies_of(pipeline(**spec))


def test_the_removal_policy_is_read_and_an_unknown_one_means_keep() -> None:
    words = {None: "copies", "copies": "copies", "keep": "keep", "namespaces": "namespaces", "all": "keep"}
    for word, removal in words.items():
        assert removal_of(pipeline(removal=word)) == removal


def test_helm_copies_are_taken_over_only_if_enabled_and_of_the_pipelines_own_release() -> None:
    def helms(label: str = "Helm", release: str = "shop", namespace: str = "teams") -> Secret:
        noted = {"meta.helm.sh/release-name": release, "meta.helm.sh/release-namespace": namespace}
        labels = {"app.kubernetes.io/managed-by": label}
        return Secret(
            metadata=ObjectMeta("kubero-pull-secret", "shop-test", labels=labels, annotations=noted)
        )

    assert adopts(pipeline(adopt="helm"), helms())
    assert not adopts(pipeline(), helms())
    for other in (helms(label="hands"), helms(release="blog"), helms(namespace="else"), Secret()):
        assert not adopts(pipeline(adopt="helm"), other)


def test_unknown_kubero_fields_are_kept_and_never_shown() -> None:
    stored = pipeline(webhook={"secret": "s3cr3t"}, git={"keys": {"id": 5, "pub": "s3cr3t"}})
    assert stored.spec.extra == {"webhook": {"secret": "s3cr3t"}}
    assert "s3cr3t" not in repr(stored)
