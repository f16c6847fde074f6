"""The kustomize base in all cases that values decide: one tree for each of its objects. Pure functions."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from attrs import evolve, frozen

from reconcile.shipping.chart_extras import PLACED, PULL_POLICY, WATCHED, extended, more, uninstall_hook
from reconcile.shipping.chart_monitoring import RUNBOOKS_PLACE, monitoring_trees
from reconcile.shipping.chart_values import (
    BY_CERT_MANAGER,
    KEEPS_DATA,
    MONITORED,
    NAMESPACED,
    RUNBOOK_ADDRESS,
    SHARDED,
    Choices,
    chooses_certificates,
)
from reconcile.shipping.documents import Document
from reconcile.shipping.installation import Installation, Monitoring, documents_of
from reconcile.shipping.templates import (
    Each,
    Either,
    Optional,
    Placeholders,
    Raw,
    Tree,
    either,
)
from reconcile.webhooks.configurations import WebhookService

Definitions: TypeAlias = Callable[[WebhookService | None], Sequence[Document]]
"""The definitions of the operator's kinds, whose versions that Service converts."""


# Placeholders are of characters for private use, which declarations do not have.
_NAMESPACE: Final = "\ue000namespace\ue000"
_IMAGE: Final = "\ue000image\ue000"
_RING: Final = "\ue000ring\ue000"

_CERTIFICATES: Final = "/certificates/webhooks"
"""Where the pods have the certificate of cert-manager, if the manager does not say."""
UNINSTALL: Final = "uninstall-hook.yaml"
_KEEP: Final = {"helm.sh/resource-policy": "keep"}


@frozen
class Cases:
    """The objects of an operator in all cases that its values decide."""

    operator: Installation
    """With placeholders for what is text in its objects."""
    definitions: Definitions
    choices: Choices

    @classmethod
    def of(cls, operator: Installation, definitions: Definitions, choices: Choices) -> "Cases":
        """Those of an operator, whose namespace and image become placeholders."""
        ring = operator.ring
        if ring is not None and ring[0] == operator.namespace:
            ring = (_NAMESPACE, ring[1])
        return cls(evolve(operator, namespace=_NAMESPACE, image=_IMAGE, ring=ring), definitions, choices)

    def files(self) -> Mapping[str, Sequence[Tree]]:
        """The files of the kustomize base, by their names."""
        monitored, not_monitored = (evolve(self.operator, monitoring=one) for one in (Monitoring(), None))
        return _either(MONITORED, self._of_pods(monitored), self._of_pods(not_monitored))

    def _of_pods(self, operator: Installation) -> Mapping[str, Sequence[Tree]]:
        if not self.choices.sharding:
            return self._of_ring(operator)
        ring = (operator.namespace, _RING) if operator.ring is None else (operator.ring[0], _RING)
        shared, led = evolve(operator, ring=ring), evolve(operator, ring=None)
        return _either(SHARDED, self._of_ring(shared), self._of_ring(led))

    def _of_ring(self, operator: Installation) -> Mapping[str, Sequence[Tree]]:
        if not operator.namespaces and not self.choices.namespaces:
            return self._of_reach(operator)
        # A review asks for rights in the whole cluster.
        kept = evolve(operator, namespaces=(WATCHED,), review=False)
        if operator.namespaces:
            return self._of_reach(kept)
        return _either(NAMESPACED, self._of_reach(kept), self._of_reach(operator))

    def _of_reach(self, operator: Installation) -> Mapping[str, Sequence[Tree]]:
        own = self._files(operator)
        if not chooses_certificates(self.operator):
            return own
        given = self._files(evolve(operator, webhook_certificates=_CERTIFICATES))
        return _either(BY_CERT_MANAGER, given, own)

    def _files(self, operator: Installation) -> Mapping[str, Sequence[Tree]]:
        files = documents_of(operator, self.definitions(operator.webhook_service))
        trees = {path: [self._tree(operator, path, one) for one in files[path]] for path in files}
        return {**trees, **monitoring_trees(operator), UNINSTALL: uninstall_hook(operator)}

    def _tree(self, operator: Installation, path: str, document: Document) -> Tree:
        metadata = document["metadata"]
        if path == "namespace.yaml":  # objects of its kinds may be in it
            kept = Either(f"not (and .Values.uninstall.enabled (not {KEEPS_DATA}))", _KEEP)
            return {**document, "metadata": {**metadata, "annotations": kept}}
        if path.startswith("crd_"):
            annotations = {**metadata.get("annotations", {}), **_KEEP}
            return {**document, "metadata": {**metadata, "annotations": annotations}}
        if path == "deployment.yaml":
            return self._deployment(operator, document)
        if metadata.get("namespace") == WATCHED:
            return Each(NAMESPACED, document)
        return document

    def _deployment(self, operator: Installation, deployment: Document) -> Tree:
        spec = deployment["spec"]
        template = spec["template"]
        metadata = template["metadata"]
        annotations = extended(metadata.get("annotations", {}), ".Values.podAnnotations")
        metadata = {**metadata, "annotations": annotations}
        pod = template["spec"]
        pod = {
            **pod,
            **PLACED,
            "containers": [self._container(operator, one) for one in pod["containers"]],
            "volumes": more(pod.get("volumes", []), ".Values.extraVolumes"),
        }
        replicas = Raw("{{ .Values.replicas }}")
        return {
            **deployment,
            "spec": {**spec, "replicas": replicas, "template": {"metadata": metadata, "spec": pod}},
        }

    def _container(self, operator: Installation, container: Document) -> Tree:
        arguments = [self._argument(one) for one in container["args"]]
        if chooses_certificates(self.operator) and operator.webhook_certificates:
            arguments.append(f"--webhook-certificates={operator.webhook_certificates}")
        arguments.append(Either('eq .Values.logLevel "debug"', ["--verbose"]))
        return {
            **container,
            "imagePullPolicy": PULL_POLICY,
            "args": arguments,
            "env": more(container.get("env", []), ".Values.extraEnv"),
            "resources": Optional(".Values.resources"),
            "volumeMounts": more(container.get("volumeMounts", []), ".Values.extraVolumeMounts"),
        }

    def _argument(self, argument: str) -> Tree:
        if argument == f"--namespaces={WATCHED}":
            return Raw('--namespaces={{ join "," .Values.namespaces }}')
        return argument


def placeholders(name: str) -> Placeholders:
    """What the placeholders become in the chart of the operator `name`."""
    return Placeholders(
        {
            _NAMESPACE: f'include "{name}.namespace" $',
            _IMAGE: f'include "{name}.image" $',
            _RING: "$.Values.sharding.name",
            RUNBOOKS_PLACE: RUNBOOK_ADDRESS,
            WATCHED: ".",
        }
    )


def _either(
    condition: str, yes: Mapping[str, Sequence[Tree]], no: Mapping[str, Sequence[Tree]]
) -> Mapping[str, Sequence[Tree]]:
    return {
        path: either(condition, list(yes.get(path, ())), list(no.get(path, ()))) for path in {**no, **yes}
    }
