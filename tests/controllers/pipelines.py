"""What the tests of registry secrets are played with."""

import base64
import json
from collections.abc import Callable
from typing import Any

from attrs import evolve

from controllers.registrysecrets import KuberoPipeline, KuberoPipelineSpec, make_controller
from controllers.registrysecrets.models import PipelinePhase, PipelineRegistry
from reconcile import ObjectMeta
from reconcile.blocks import Consent
from reconcile.kinds import Secret
from tests.controllers.world import NAMESPACE
from tests.helpers.admission import without_admission

HOST = "registry.example.com"
PASSWORD = "correct-horse"
DOCKER = ".dockerconfigjson"
# The tests of the copying believe the authors, as Kubero does; those of consent have a file of their own.
controller = without_admission(make_controller(Consent.of_authors()))
COPIES = {"kubero-pull-secret", "registry-credentials"}


def docker_config(password: str = PASSWORD) -> str:
    login = {"auths": {HOST: {"username": "ci", "password": password}}}
    return base64.b64encode(json.dumps(login).encode()).decode()


def source(password: str = PASSWORD, namespace: str = NAMESPACE) -> Secret:
    return Secret(
        metadata=ObjectMeta("registry-login", namespace),
        type="kubernetes.io/dockerconfigjson",
        data={DOCKER: docker_config(password)},
    )


def pipeline(*phases: str, name: str = "shop", mode: str = "copy", **spec: Any) -> KuberoPipeline:
    given = KuberoPipelineSpec(
        mainnamespace=NAMESPACE,
        registry=PipelineRegistry(create_secret=mode, host=HOST),
        phases=tuple(PipelinePhase(phase, enabled=True) for phase in phases or ("test", "production")),
    )
    return KuberoPipeline(metadata=ObjectMeta(name, NAMESPACE), spec=evolve(given, **spec))


async def copies(client: Any) -> dict[tuple[str, str], Secret]:
    return {secret.key: secret for secret in await client.list(Secret) if secret.name in COPIES}


def respec(**changes: Any) -> Callable[[KuberoPipeline], KuberoPipeline]:
    def change(old: KuberoPipeline) -> KuberoPipeline:
        return KuberoPipeline(metadata=old.metadata, spec=evolve(old.spec, **changes), status=old.status)

    return change


def mode(word: str, **said: Any) -> Callable[[KuberoPipeline], KuberoPipeline]:
    """The pipeline with another mode."""
    return respec(registry=PipelineRegistry(create_secret=word, host=HOST, **said))


def said(of: KuberoPipeline) -> dict[str, str]:
    """The reasons of its conditions, by type."""
    return {condition.type: condition.reason or "" for condition in of.status.conditions}
