"""The Secrets and namespaces that a pipeline asks for: pure functions of the pipeline."""

import re
from collections.abc import Sequence
from functools import partial
from typing import get_args

from reconcile import Key
from reconcile.blocks import Copy, CopyRemoval, Unusable
from reconcile.kinds import Secret

from . import secret_contents as contents
from .models import Keys, KuberoPipeline, PipelineRegistry

SOURCE_NAME = "registry-login"
MAIN_NAMESPACE = "kubero"
PULL_SECRET = "kubero-pull-secret"
CREDENTIALS = "registry-credentials"
DEPLOYMENT_KEYS = "deployment-keys"
REMOVALS: dict[str, CopyRemoval] = {one: one for one in get_args(CopyRemoval)}
MOST_PHASES = 100
ADOPTIONS = (None, "", "helm")

HELM_MANAGED = ("app.kubernetes.io/managed-by", "Helm")
HELM_RELEASE = "meta.helm.sh/release-name"
HELM_NAMESPACE = "meta.helm.sh/release-namespace"

_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def phase_namespaces(pipeline: KuberoPipeline) -> Sequence[str]:
    """`<pipeline>-<phase>` of each enabled phase; the prefix is `spec.name`, or the object's name.

    Raises Unusable for a name that no namespace can have, and for too many phases.
    """
    prefix = pipeline.spec.name or pipeline.name
    names = []
    phases = pipeline.spec.phases or ()
    if len(phases) > MOST_PHASES:
        raise Unusable(
            "TooManyPhases",
            f"spec.phases has {len(phases)} items, and the maximum is {MOST_PHASES}: divide the "
            "pipeline into several; nothing is changed",
        )
    for index, phase in enumerate(phases):
        if not phase.enabled:
            continue
        if not phase.name:
            raise _invalid(f"spec.phases[{index}] is enabled but has no name; give it one or disable it")
        name = f"{prefix}-{phase.name}"
        if not _NAMESPACE.fullmatch(name):
            raise _invalid(f"spec.phases[{index}] would need a namespace {name!r}, which is not a valid name")
        names.append(name)
    return list(dict.fromkeys(names))


def copies_of(pipeline: KuberoPipeline) -> Sequence[Copy]:
    """The Secrets of all enabled phases; none if nothing is built. Raises Unusable for an invalid spec."""
    spec = pipeline.spec
    if (spec.removal or "copies") not in REMOVALS:
        raise _invalid(f"spec.removal is {spec.removal!r}; expected copies, keep or namespaces")
    if spec.adopt not in ADOPTIONS:
        raise _invalid(f"spec.adopt is {spec.adopt!r}; expected helm")
    namespaces = phase_namespaces(pipeline)
    if (spec.deploymentstrategy or "git") != "git":
        return []
    registry, keys = spec.registry or PipelineRegistry(), (spec.git.keys if spec.git else None) or Keys()
    return [
        copy
        for namespace in namespaces
        for copy in (*_logins(pipeline, registry, namespace), *_deploy_keys(pipeline, keys, namespace))
    ]


def removal_of(pipeline: KuberoPipeline) -> CopyRemoval:
    """What is deleted when it is no longer asked for; nothing if `spec.removal` is invalid."""
    return REMOVALS.get(pipeline.spec.removal or "copies", "keep")


def adopts(pipeline: KuberoPipeline, secret: Secret) -> bool:
    """Whether a Secret may be taken over: its labels show Helm's release of this pipeline."""
    label, value = HELM_MANAGED
    noted = secret.metadata.annotations
    release = (noted.get(HELM_NAMESPACE), noted.get(HELM_RELEASE))
    ours = release == (pipeline.namespace, pipeline.name) and secret.metadata.labels.get(label) == value
    return pipeline.spec.adopt == "helm" and ours


def _logins(pipeline: KuberoPipeline, registry: PipelineRegistry, namespace: str) -> Sequence[Copy]:
    """The pull secret, and the credentials for the image scanner."""
    pull, login, host = Key(namespace, PULL_SECRET), Key(namespace, CREDENTIALS), registry.host or ""
    named = registry.secret_ref.name if registry.secret_ref else ""
    match registry.create_secret:
        case None | "" | "none":
            return []
        case "copy":
            shared = Key(pipeline.spec.mainnamespace or MAIN_NAMESPACE, SOURCE_NAME)
            source = Key(pipeline.namespace, named) if named else shared
            credentials = partial(contents.credentials_of, host=host)
            return [Copy(pull, source, contents.pull_secret_of), Copy(login, source, credentials)]
        case "create" if named:
            source = Key(pipeline.namespace, named)
            made = partial(contents.made_pull_secret_of, host=host)
            return [
                Copy(pull, source, made),
                Copy(login, source, partial(contents.credentials_of, host=host)),
            ]
        case "create":
            config, given = contents.given_login(registry)
            return [Copy(pull, content=config), Copy(login, content=given)]
    raise _invalid(f"spec.registry.createSecret is {registry.create_secret!r}; expected copy, create or none")


def _deploy_keys(pipeline: KuberoPipeline, keys: Keys, namespace: str) -> Sequence[Copy]:
    place = Key(namespace, DEPLOYMENT_KEYS)
    if keys.secret_ref and keys.secret_ref.name:
        return [Copy(place, Key(pipeline.namespace, keys.secret_ref.name), contents.deploy_keys_of)]
    return [Copy(place, content=contents.given_deploy_keys(keys))] if keys.pub else []


def _invalid(message: str) -> Unusable:
    return Unusable("InvalidSpec", message)
