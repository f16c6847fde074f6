"""What users of Kubero have runs unchanged: on its own definition and on ours, and checked strictly."""

from typing import Any

import anyio
import pytest
import yaml

from controllers.registrysecrets import KuberoPipeline, definition
from reconcile import Client, Key, kind_of
from reconcile.kinds import Secret
from reconcile.simulation import Delays
from tests.controllers.pipelines import controller, source
from tests.controllers.world import NAMESPACE, SAMPLES, world
from tests.helpers.scenarios import simulated

KUBERO = SAMPLES / "kubero"
FULL = """
apiVersion: application.kubero.dev/v1alpha1
kind: KuberoPipeline
metadata: {name: shop}
spec:
  name: shop
  domain: ""
  buildpack: {name: NodeJS, language: JavaScript}
  deploymentstrategy: git
  buildstrategy: plain
  dockerimage: ""
  mainnamespace: stage
  registry: {host: registry.example.com, createSecret: copy, storage: 1Gi}
  git:
    keys: {id: 5, title: bot@kubero, priv: YQ==, pub: Yg==, read_only: true}
    repository: {ssh_url: "git@git.example.com:shop/shop.git", private: true, admin: true}
    webhook: {active: true, events: [push], insecure: "0"}
  phases:
    - {name: review, enabled: false, context: ""}
    - {name: production, enabled: true, context: in-cluster, defaultTTL: 0}
  reviewapps: true
"""


def definitions() -> list[Any]:
    theirs = yaml.safe_load((KUBERO / "crd-kuberopipelines.yaml").read_text())
    return [pytest.param(theirs, id="theirs"), pytest.param(definition(), id="ours")]


async def placed(user: Client, manifest: dict[str, Any]) -> dict[str, Any]:
    """The manifest made as kubectl makes it: what nobody knows would be refused."""
    manifest["metadata"]["namespace"] = NAMESPACE
    await user.with_options(field_validation="Strict").create(manifest)
    return manifest


async def stored(user: Client, name: str) -> dict[str, Any]:
    found = await user.raw.snapshot(kind_of(KuberoPipeline).resource, Key(NAMESPACE, name))
    body: dict[str, Any] = found.to_dict()
    return body


@pytest.mark.parametrize("crd", definitions())
@simulated
async def test_the_kubero_sample_is_ready_and_stays_unchanged(crd: dict[str, Any]) -> None:
    async with world(0, crd, delays=Delays()) as here, here.running(controller) as recorded:
        manifest = await placed(here.user, yaml.safe_load((KUBERO / "kuberopipeline.yaml").read_text()))
        await anyio.sleep(10)
        body = await stored(here.user, manifest["metadata"]["name"])
        assert body["spec"] == manifest["spec"]
        assert [(c["type"], c["status"], c["reason"]) for c in body["status"]["conditions"]] == [
            ("Ready", "True", "NothingToCopy"),
            ("Conflict", "False", "NoConflict"),
        ]
        sent = len(recorded.writes)
        await anyio.sleep(600)
        assert len(recorded.writes) == sent


@pytest.mark.parametrize("crd", definitions())
@simulated
async def test_a_pipeline_with_all_kubero_fields_gets_its_secrets_and_loses_no_field(
    crd: dict[str, Any],
) -> None:
    async with world(0, crd, delays=Delays()) as here, here.running(controller):
        await here.user.create(source())
        manifest = await placed(here.user, yaml.safe_load(FULL))
        await anyio.sleep(10)
        body = await stored(here.user, "shop")
        assert body["spec"] == manifest["spec"]
        assert body["status"]["observedGeneration"] == body["metadata"]["generation"]
        names = {"kubero-pull-secret", "registry-credentials", "deployment-keys"}
        assert {secret.name for secret in await here.user.list(Secret, "shop-production")} == names
        assert {copy["secret"] for copy in body["status"]["copies"]} == names
        assert all(value not in str(body["status"]) for value in ("YQ==", "Yg==", "correct-horse"))
