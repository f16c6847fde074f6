"""A ClusterServiceVersion: how OLM installs one version of an operator. Pure functions.

Facts: operator-framework/api, crds/operators.coreos.com_clusterserviceversions.yaml and pkg/validation; what
OLM makes of it: operator-framework/operator-controller, internal/operator-controller/rukpak/render.
"""

import base64
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from attrs import evolve, frozen

from reconcile.shipping.artifact_hub import release_annotations
from reconcile.shipping.descriptors import owned_definitions
from reconcile.shipping.documents import Document
from reconcile.shipping.installation import WEBHOOK_PORT, Installation, arguments_of
from reconcile.shipping.project import Project
from reconcile.webhooks.configurations import HTTPS, NOT_THE_OPERATOR

CERTIFICATES: Final = "/tmp/k8s-webhook-server/serving-certs"
"""Where OLM mounts the certificate of webhooks, as tls.crt and tls.key."""
MODES: Final = ("OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces")
_NAMESPACE: Final = "POD_NAMESPACE"
OWN_NAMESPACE: Final = f"$({_NAMESPACE})"
"""The namespace of a pod, in the arguments of its containers."""
"""A variable of the pod: who installs the bundle chooses the namespace."""
_SHORT: Final = 135
"""Characters; catalogues cut longer descriptions on their cards."""
_TYPES: Final = {
    "MutatingWebhookConfiguration": "MutatingAdmissionWebhook",
    "ValidatingWebhookConfiguration": "ValidatingAdmissionWebhook",
}
_KEPT: Final = (
    "admissionReviewVersions",
    "failurePolicy",
    "matchPolicy",
    "objectSelector",
    "reinvocationPolicy",
    "rules",
    "sideEffects",
    "timeoutSeconds",
)


class BundleError(ValueError):
    """OLM cannot install the operator as it is declared; the message says why and what to do."""


@frozen
class Icon:
    content: bytes
    media_type: str
    """One of `ICONS`."""


ICONS: Final = {"svg": "image/svg+xml", "png": "image/png", "jpg": "image/jpeg", "gif": "image/gif"}
"""By the ending of their files."""
DEFAULT_ICON: Final = Icon(
    b'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 64 64"><path fill="#3f51b5" d="M32 2l26 15v30L32'
    b' 62 6 47V17z"/><path fill="none" stroke="#fff" stroke-width="5" d="M46 26a15 15 0 0 0-28 1m0 11a15 15 0'
    b' 0 0 28 0M47 14v13H34M17 50V37h13"/></svg>',
    ICONS["svg"],
)
"""Two arrows that chase each other."""


@frozen
class Release:
    """One version of an operator as a catalogue offers it."""

    project: Project
    samples: Sequence[Document]
    icon: Icon
    description: str
    """Markdown."""
    replaces: str = ""
    """The version that OLM upgrades to this one; empty: this is the first."""


def service_version(
    operator: Installation,
    release: Release,
    definitions: Sequence[Document],
    objects: Sequence[Document],
) -> Document:
    """The ClusterServiceVersion; `objects` are those of the operator's kustomize base."""
    project = release.project
    return {
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "ClusterServiceVersion",
        "metadata": {
            "name": name_of(operator, project.version),
            "annotations": dict(_annotations(operator, release)),
        },
        "spec": {
            "displayName": project.title,
            "description": release.description,
            "version": project.version,
            **({"replaces": name_of(operator, release.replaces)} if release.replaces else {}),
            "maturity": project.maturity,
            "minKubeVersion": _oldest_server(definitions, objects),
            "provider": {"name": project.publisher},
            **_filled(
                maintainers=[{"name": one.name, "email": one.email} for one in project.maintainers],
                links=[{"name": name, "url": url} for name, url in project.links.items()],
                keywords=list(project.keywords),
            ),
            "icon": [
                {
                    "base64data": base64.b64encode(release.icon.content).decode(),
                    "mediatype": release.icon.media_type,
                }
            ],
            "relatedImages": [{"name": "manager", "image": operator.image}],
            "installModes": [{"type": mode, "supported": mode == MODES[-1]} for mode in MODES],
            "customresourcedefinitions": {
                "owned": list(owned_definitions(definitions, operator.controllers))
            },
            "install": {"strategy": "deployment", "spec": _strategy(operator, objects)},
            **_called(operator, definitions, objects),
        },
    }


def name_of(operator: Installation, version: str) -> str:
    """`sites.v1.2.0`: it names an object and is the value of a label."""
    name = f"{operator.name}.v{version}"
    if "+" in version or len(name) > 63 or name != name.lower():
        raise BundleError(
            f"a ClusterServiceVersion cannot be named {name}: give a version of at most"
            f" {61 - len(operator.name)} small letters, digits, dots and dashes"
        )
    return name


# --- what is shown ----------------------------------------------------------------------------------------


def _filled(**lists: Sequence[object]) -> Document:
    return {name: values for name, values in lists.items() if values}


def _annotations(operator: Installation, release: Release) -> Mapping[str, str]:
    project = release.project
    summary = project.summary or release.description
    repository = next((project.links[name] for name in ("Repository", "Source") if name in project.links), "")
    return {
        "alm-examples": json.dumps(list(release.samples), indent=2),
        "capabilities": project.capabilities,
        **({"categories": ",".join(project.categories)} if project.categories else {}),
        "containerImage": operator.image,
        "description": summary if len(summary) <= _SHORT else f"{summary[: _SHORT - 3]}...",
        "operatorframework.io/suggested-namespace": operator.namespace,
        **({"repository": repository} if repository else {}),
        **release_annotations(project),
    }


def _oldest_server(definitions: Sequence[Document], objects: Iterable[Document]) -> str:
    """The oldest Kubernetes that serves, as stable, what the objects need."""
    if any(one["kind"] == "ValidatingAdmissionPolicy" for one in objects):
        return "1.30.0"
    return "1.29.0" if "x-kubernetes-validations" in json.dumps(definitions) else "1.22.0"


# --- what is installed ------------------------------------------------------------------------------------


def _strategy(operator: Installation, objects: Sequence[Document]) -> Document:
    everywhere = list(_granted(operator, objects, "ClusterRole"))
    here = list(_granted(operator, objects, "Role"))
    (deployment,) = (one for one in objects if one["kind"] == "Deployment")
    return {
        **({"clusterPermissions": everywhere} if everywhere else {}),
        **({"permissions": here} if here else {}),
        "deployments": [
            {
                "name": operator.name,
                "label": deployment["metadata"]["labels"],
                "spec": _of_any_namespace(operator, deployment["spec"]),
            }
        ],
    }


def _granted(operator: Installation, objects: Sequence[Document], kind: str) -> Iterator[Document]:
    """The rules of the roles that are bound to the operator."""
    bound = {one["roleRef"]["name"] for one in objects if one["kind"] == f"{kind}Binding"}
    for role in objects:
        if role["kind"] != kind or role["metadata"]["name"] not in bound:
            continue
        namespace = role["metadata"].get("namespace", operator.namespace)
        if namespace != operator.namespace:
            raise BundleError(
                f"the operator needs a Role in the namespace {namespace}, and OLM makes Roles only where it"
                " installs: name the ring of --sharding without a namespace"
            )
        yield {"serviceAccountName": operator.name, "rules": role["rules"]}


def _of_any_namespace(operator: Installation, deployment: Document) -> Document:
    """The spec of the Deployment for whichever namespace it is installed into, with OLM's certificates."""
    pod = deployment["template"]["spec"]
    (container,) = pod["containers"]
    source = {"fieldRef": {"fieldPath": "metadata.namespace"}}
    environment = [*container.get("env", ()), {"name": _NAMESPACE, "valueFrom": source}]
    container = {**container, "args": list(_arguments(operator)), "env": environment}
    pod = {**pod, "containers": [container]}
    if operator.routes:  # OLM mounts the certificate itself
        pod = {key: value for key, value in pod.items() if key != "volumes"}
        pod["containers"] = [{key: value for key, value in container.items() if key != "volumeMounts"}]
    return {**deployment, "template": {**deployment["template"], "spec": pod}}


def _arguments(operator: Installation) -> Iterator[str]:
    here = OWN_NAMESPACE
    ring = None if operator.ring is None else (here, operator.ring[1])
    yield from arguments_of(evolve(operator, namespace=here, ring=ring))
    if operator.routes:
        yield f"--webhook-certificates={CERTIFICATES}"
    yield "--definitions=check"  # OLM brings new versions of definitions


# --- what is called ---------------------------------------------------------------------------------------


def _called(
    operator: Installation, definitions: Sequence[Document], objects: Sequence[Document]
) -> Mapping[str, Sequence[Document]]:
    webhooks = [
        _admission(operator, _TYPES[configuration["kind"]], webhook)
        for configuration in objects
        if configuration["kind"] in _TYPES
        for webhook in configuration["webhooks"]
    ]
    webhooks += [
        _conversion(operator, one)
        for one in definitions
        if (one["spec"].get("conversion") or {}).get("strategy") == "Webhook"
    ]
    return {"webhookdefinitions": webhooks} if webhooks else {}


def _admission(operator: Installation, kind: str, webhook: Document) -> Document:
    name = webhook["name"]
    if webhook.get("namespaceSelector"):
        raise BundleError(
            f"the webhook {name} leaves out namespaces, and OLM has webhooks called in all of them: take"
            " namespaces= from its Admission; for kinds of Kubernetes use rules=, or ship it without OLM"
        )
    conditions = [
        one["name"] for one in webhook.get("matchConditions", ()) if one["name"] != NOT_THE_OPERATOR
    ]
    if conditions:
        raise BundleError(
            f"the webhook {name} has the condition {conditions[0]}, and OLM gives webhooks no conditions:"
            " take conditions= from its Admission, and let its function decide"
        )
    return {
        "type": kind,
        "generateName": name,
        **_reached(operator, webhook["clientConfig"]["service"]["path"]),
        **{key: webhook[key] for key in _KEPT if key in webhook},
    }


def _conversion(operator: Installation, definition: Document) -> Document:
    webhook = definition["spec"]["conversion"]["webhook"]
    return {
        "type": "ConversionWebhook",
        "generateName": f"convert.{definition['metadata']['name']}",
        **_reached(operator, webhook["clientConfig"]["service"]["path"]),
        "conversionCRDs": [definition["metadata"]["name"]],
        "admissionReviewVersions": webhook["conversionReviewVersions"],
        "sideEffects": "None",
    }


def _reached(operator: Installation, path: str) -> Document:
    """Through the Service that OLM makes, whose port is `containerPort`."""
    return {
        "deploymentName": operator.name,
        "containerPort": HTTPS,
        "targetPort": WEBHOOK_PORT,
        "webhookPath": path,
    }
