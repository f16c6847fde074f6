"""What the copying of registry secrets looks at: the pipeline, Secrets, Namespaces.

A Secret's values never appear in a view's repr, so that no log or failing assertion shows them.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from attrs import field, frozen

Object = Mapping[str, Any]

SOURCE_NAME = "registry-login"
MAIN_NAMESPACE = "kubero"
MANAGED_BY_LABEL = "app.kubernetes.io/managed-by"
MANAGER = "reconcile-runtime"
PIPELINE_NAMESPACE_LABEL = "reconcile-runtime/pipeline-namespace"
PIPELINE_NAME_LABEL = "reconcile-runtime/pipeline-name"
PIPELINE_UID_LABEL = "reconcile-runtime/pipeline-uid"
_LONGEST_LABEL = 63


@frozen
class PipelineView:
    """A KuberoPipeline. `mode` is `spec.registry.createSecret`, None when it asks for no secrets."""

    name: str
    namespace: str
    uid: str
    prefix: str
    mode: str | None = None
    main_namespace: str = MAIN_NAMESPACE
    host: str = ""
    phases: tuple[str, ...] = ()


@frozen
class SecretView:
    """A Secret. `data` is base64 text by key, as the API has it."""

    name: str
    namespace: str
    uid: str
    resource_version: str = ""
    type: str = "Opaque"
    data: Mapping[str, str] = field(factory=dict, repr=False)
    labels: Mapping[str, str] = field(factory=dict)
    immutable: bool = False
    terminating: bool = False


@frozen
class NamespaceView:
    """A Namespace, as far as one can write into it."""

    name: str
    terminating: bool = False


def pipeline_view(pipeline: Object) -> PipelineView:
    """The view of a KuberoPipeline as an API server returns it.

    Its namespaces begin with `spec.name`, by default the object's name. A pipeline without
    `spec.registry`, or one that deploys images it does not build, asks for no secrets. Raises
    ValueError for an enabled phase without a name, which the schema lets through.
    """
    metadata, spec = pipeline["metadata"], pipeline.get("spec") or {}
    registry = spec.get("registry") or {}
    builds = (spec.get("deploymentstrategy") or "git") == "git"
    return PipelineView(
        name=metadata["name"],
        namespace=metadata.get("namespace", ""),
        uid=metadata["uid"],
        prefix=spec.get("name") or metadata["name"],
        mode=(registry.get("createSecret") or None) if builds else None,
        main_namespace=spec.get("mainnamespace") or MAIN_NAMESPACE,
        host=registry.get("host") or "",
        phases=_enabled_phases(spec.get("phases") or ()),
    )


def _enabled_phases(phases: Sequence[Object]) -> tuple[str, ...]:
    enabled = [(index, phase.get("name")) for index, phase in enumerate(phases) if phase.get("enabled")]
    nameless = [index for index, name in enabled if not name]
    if nameless:
        raise ValueError(f"spec.phases[{nameless[0]}] is enabled but has no name; give it one or disable it")
    return tuple(dict.fromkeys(str(name) for _, name in enabled))


def secret_view(secret: Object) -> SecretView:
    """The view of a Secret as an API server returns it."""
    metadata = secret["metadata"]
    return SecretView(
        name=metadata["name"],
        namespace=metadata.get("namespace", ""),
        uid=metadata["uid"],
        resource_version=metadata.get("resourceVersion", ""),
        type=secret.get("type") or "Opaque",
        data=secret.get("data") or {},
        labels=metadata.get("labels") or {},
        immutable=bool(secret.get("immutable")),
        terminating=metadata.get("deletionTimestamp") is not None,
    )


def namespace_view(namespace: Object) -> NamespaceView:
    """The view of a Namespace as an API server returns it; either sign of its end counts."""
    metadata, status = namespace["metadata"], namespace.get("status") or {}
    ending = metadata.get("deletionTimestamp") is not None or status.get("phase") == "Terminating"
    return NamespaceView(name=metadata["name"], terminating=ending)


def ownership_labels(pipeline: PipelineView) -> dict[str, str]:
    """How an object in another namespace says whose it is; owner references cannot cross namespaces."""
    return {
        MANAGED_BY_LABEL: MANAGER,
        PIPELINE_NAMESPACE_LABEL: pipeline.namespace,
        PIPELINE_NAME_LABEL: label_value(pipeline.name),
        PIPELINE_UID_LABEL: pipeline.uid,
    }


def is_owned(pipeline: PipelineView, labels: Mapping[str, str]) -> bool:
    """Whether the labels name this pipeline.

    The uid does not decide: a pipeline restored from a backup has another, and takes its copies back.
    """
    return all(labels.get(name) == value for name, value in selector_labels(pipeline).items())


def selector_labels(pipeline: PipelineView) -> dict[str, str]:
    """The labels to list a pipeline's own objects by, whatever uid it had when it wrote them."""
    labels = ownership_labels(pipeline)
    del labels[PIPELINE_UID_LABEL]
    return labels


def label_value(name: str) -> str:
    """The name where a label may hold it, else its beginning and a hash: 63 characters at most."""
    if len(name) <= _LONGEST_LABEL:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:10]
    return f"{name[: _LONGEST_LABEL - 11]}-{digest}"
