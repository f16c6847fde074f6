"""The operator itself: whether it is there, and its pods are ready."""

from collections.abc import Iterable, Sequence
from typing import Final

from reconcile.doctor.declared import Declared
from reconcile.doctor.findings import Finding, Severity
from reconcile.doctor.objects import Deployment, Pod

CHECK: Final = "operator"


def check_operator(
    declared: Declared, deployment: Deployment | None, pods: Sequence[Pod]
) -> Iterable[Finding]:
    subject = f"Deployment {declared.namespace}/{declared.name}"
    if deployment is None:
        step = "name the operator with --name and --namespace, or apply what `reconcile manifests` prints"
        yield Finding(CHECK, "error", subject, "does not exist", step)
        return
    wanted, ready = deployment.spec.replicas, sum(pod.is_ready for pod in pods)
    if wanted == 0:
        step = f"kubectl -n {declared.namespace} scale deployment {declared.name} --replicas=2"
        yield Finding(CHECK, "error", subject, "is scaled to 0, so nothing is reconciled", step)
    elif ready < wanted:
        step = f"kubectl -n {declared.namespace} describe pods, and read the logs of those that are not ready"
        severity: Severity = "error" if ready == 0 else "warning"
        yield Finding(CHECK, severity, subject, f"has {ready} of {wanted} pods ready", step)
