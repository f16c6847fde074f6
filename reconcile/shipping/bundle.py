"""A `registry+v1` bundle, in which OLM and its catalogues take one version of an operator. Pure functions.

Facts: operator-framework/operator-registry, docs/design/operator-bundle.md and pkg/lib/bundle.
"""

import gzip
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from attrs import evolve

from reconcile.shipping.documents import Document, as_yaml, file_of
from reconcile.shipping.installation import Installation, documents_of
from reconcile.shipping.service_version import CERTIFICATES, BundleError, Release, service_version

CHANNEL: Final = "stable"
MANIFESTS: Final = "manifests"
METADATA: Final = "metadata"
BESIDE: Final = "not-installed-by-olm.yaml"
"""The objects of the operator that OLM does not install; they are not in the image of the bundle."""
LARGEST: Final = 1 << 20
"""Bytes, compressed; OLM unpacks a bundle into one ConfigMap."""
_LABELS: Final = "operators.operatorframework.io.bundle"

# OLM makes these itself: from permissions, webhookdefinitions, and where it installs.
_MADE_BY_OLM: Final = frozenset(
    {
        "ClusterRoleBinding",
        "Deployment",
        "MutatingWebhookConfiguration",
        "Namespace",
        "Role",
        "RoleBinding",
        "Service",
        "ServiceAccount",
        "ValidatingWebhookConfiguration",
    }
)
# Of what an operator may consist of, what registry+v1 lets a bundle contain.
_ALLOWED: Final = frozenset(
    {
        "ClusterRole",
        "ConfigMap",
        "NetworkPolicy",
        "PodDisruptionBudget",
        "PodMonitor",
        "PriorityClass",
        "PrometheusRule",
        "ServiceMonitor",
    }
)


def bundle_of(operator: Installation, definitions: Sequence[Document], release: Release) -> Mapping[str, str]:
    """The files of a bundle by their paths. Raises BundleError for what OLM cannot install."""
    if operator.namespaces:
        raise BundleError("OLM installs operators for all namespaces: leave out --namespaces and namespaces=")
    operator = evolve(operator, webhook_certificates=CERTIFICATES, applies_definitions=False)
    documents = documents_of(operator, definitions)
    objects = [document for file in documents.values() for document in file]
    kinds = [_of_olm(one) for one in objects if one["kind"] == "CustomResourceDefinition"]
    version = service_version(operator, release, kinds, objects)
    manifests = {f"{operator.name}.clusterserviceversion.yaml": version}
    manifests |= {file_of(definition): definition for definition in kinds}
    manifests |= {f"{one['kind'].lower()}_{one['metadata']['name']}.yaml": one for one in _others(objects)}
    texts = {f"{MANIFESTS}/{name}": as_yaml(one) for name, one in manifests.items()}
    _check_size(texts)
    left = [one for one in objects if not _is_known(one)]
    labels = _labels(operator)
    return {
        **texts,
        f"{METADATA}/annotations.yaml": as_yaml({"annotations": labels}),
        "bundle.Dockerfile": _dockerfile(labels),
        **({BESIDE: as_yaml(*left)} if left else {}),
    }


def gaps_of(operator: Installation, release: Release) -> Iterator[str]:
    """What catalogues ask for and OLM does not bring, and the project does not say: each with what to do."""
    project = release.project
    if "@sha256:" not in operator.image:
        yield f"the image {operator.image} is not pinned: give --image NAME@sha256:DIGEST"
    if operator.tls:
        yield (
            "OLM does not mount the certificate of serve_certificates=: name its Secret in config.volumes and"
            " config.volumeMounts of the Subscription, or leave serve_certificates= out"
        )
    if not project.maintainers:
        yield "there are no maintainers: give maintainers with name and email in [project] of pyproject.toml"
    if not project.license:
        yield 'there is no license: give license = "SPDX expression" in [project] of pyproject.toml'
    if not project.categories:
        yield "there are no categories: give categories in [tool.reconcile] of pyproject.toml"


def _others(objects: Sequence[Document]) -> Iterator[Document]:
    """The further objects of a bundle, for the namespace that it is installed into."""
    bound = {one["roleRef"]["name"] for one in objects if one["kind"] == "ClusterRoleBinding"}
    for one in objects:
        metadata = one["metadata"]
        granted = one["kind"] == "ClusterRole" and metadata["name"] in bound
        if one["kind"] in _ALLOWED and not granted:
            yield {**one, "metadata": {key: metadata[key] for key in metadata if key != "namespace"}}


def _is_known(document: Document) -> bool:
    kind = document["kind"]
    return kind == "CustomResourceDefinition" or kind in _MADE_BY_OLM or kind in _ALLOWED


def _of_olm(definition: Document) -> Document:
    """The definition without the annotation for cert-manager: OLM brings the certificate."""
    metadata = definition["metadata"]
    kept = {key: value for key, value in metadata.get("annotations", {}).items() if "cert-manager" not in key}
    bare = {key: value for key, value in metadata.items() if key != "annotations"}
    return {**definition, "metadata": {**bare, **({"annotations": kept} if kept else {})}}


def _labels(operator: Installation) -> Mapping[str, str]:
    return {
        f"{_LABELS}.mediatype.v1": "registry+v1",
        f"{_LABELS}.manifests.v1": f"{MANIFESTS}/",
        f"{_LABELS}.metadata.v1": f"{METADATA}/",
        f"{_LABELS}.package.v1": operator.name,
        f"{_LABELS}.channels.v1": CHANNEL,
        f"{_LABELS}.channel.default.v1": CHANNEL,
    }


def _dockerfile(labels: Mapping[str, str]) -> str:
    lines = ["# docker build -f bundle.Dockerfile . in this folder", "FROM scratch"]
    lines += [f"LABEL {label}={value}" for label, value in labels.items()]
    lines += [f"COPY {folder} /{folder}/" for folder in (MANIFESTS, METADATA)]
    return "\n".join(lines) + "\n"


def _check_size(texts: Mapping[str, str]) -> None:
    size = len(gzip.compress("".join(texts.values()).encode(), mtime=0))
    if size > LARGEST:
        raise BundleError(
            f"the bundle has {size} bytes compressed, and OLM takes {LARGEST}: shorten its samples and icon"
        )
