"""What is particular to the kinds that make pods: Deployments, StatefulSets, Jobs and their like."""

from collections.abc import Sequence
from typing import Any

from reconcile.embedded.kinds.kind_rules import Object, default, fixed
from reconcile.embedded.kinds.pod_kind import container_causes, default_pod_spec
from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.protocol.field_causes import (
    value_forbidden,
    value_invalid,
    value_not_supported,
    value_required,
)

_TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"
_STATEFUL_SET_CHANGES = frozenset(
    {
        "minReadySeconds", "ordinals", "persistentVolumeClaimRetentionPolicy", "replicas",
        "revisionHistoryLimit", "template", "updateStrategy",
    }
)  # fmt: skip
_ENDING_POLICIES = ("OnFailure", "Never")
_CRON_FIELDS = 5


def prepare_deployment(deployment: Object, old: Object | None) -> None:
    """Complete a Deployment."""
    spec = deployment.setdefault("spec", {})
    default(spec, replicas=1, revisionHistoryLimit=10, progressDeadlineSeconds=600)
    strategy = spec.get("strategy") or {}
    spec["strategy"] = strategy
    strategy.setdefault("type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", "25%")
        rolling.setdefault("maxSurge", "25%")
    prepare_template(spec)
    if old is None:
        deployment["status"] = {}


def prepare_replica_set(replica_set: Object, old: Object | None) -> None:
    """Complete a ReplicaSet."""
    spec = replica_set.setdefault("spec", {})
    default(spec, replicas=1)
    prepare_template(spec)
    if old is None:
        replica_set["status"] = {"replicas": 0}


def prepare_stateful_set(stateful_set: Object, old: Object | None) -> None:
    """Complete a StatefulSet."""
    spec = stateful_set.setdefault("spec", {})
    default(spec, replicas=1, revisionHistoryLimit=10, podManagementPolicy="OrderedReady")
    strategy = spec["updateStrategy"] = spec.get("updateStrategy") or {}
    default(strategy, type="RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        strategy["rollingUpdate"] = strategy.get("rollingUpdate") or {}
        default(strategy["rollingUpdate"], partition=0)
    kept = spec["persistentVolumeClaimRetentionPolicy"] = (
        spec.get("persistentVolumeClaimRetentionPolicy") or {}
    )
    default(kept, whenDeleted="Retain", whenScaled="Retain")
    for claim in spec.get("volumeClaimTemplates") or ():
        default(claim, kind="PersistentVolumeClaim", apiVersion="v1", status={"phase": "Pending"})
        default(claim.setdefault("spec", {}), volumeMode="Filesystem")
    prepare_template(spec)
    if old is None:
        stateful_set["status"] = {"replicas": 0, "availableReplicas": 0}


def validate_stateful_set(stateful_set: Object, old: Object | None) -> list[FieldCause]:
    """The faults of a StatefulSet."""
    causes = [cause for cause in validate_selector(stateful_set, None) if old is None or not cause.field]
    if old is None:
        return causes
    spec, before = stateful_set["spec"], old["spec"]
    changed = {name for name in {*spec, *before} if spec.get(name) != before.get(name)}
    if changed <= _STATEFUL_SET_CHANGES:
        return causes
    why = (
        "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', "
        "'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and "
        "'minReadySeconds' are forbidden"
    )
    return [*causes, value_forbidden("spec", why)]


def prepare_daemon_set(daemon_set: Object, old: Object | None) -> None:
    """Complete a DaemonSet; an annotation counts the changes of its template."""
    spec = daemon_set.setdefault("spec", {})
    default(spec, revisionHistoryLimit=10)
    strategy = spec["updateStrategy"] = spec.get("updateStrategy") or {}
    default(strategy, type="RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        strategy["rollingUpdate"] = strategy.get("rollingUpdate") or {}
        default(strategy["rollingUpdate"], maxUnavailable=1, maxSurge=0)
    prepare_template(spec)
    before = ((old or {}).get("metadata") or {}).get("annotations") or {}
    count = int(before.get(_TEMPLATE_GENERATION) or 0)
    if old is None or spec["template"] != old["spec"].get("template"):
        count += 1
    metadata = daemon_set["metadata"]
    metadata["annotations"] = {**(metadata.get("annotations") or {}), _TEMPLATE_GENERATION: str(count)}
    if old is None:
        daemon_set["status"] = {
            "currentNumberScheduled": 0,
            "numberMisscheduled": 0,
            "desiredNumberScheduled": 0,
            "numberReady": 0,
        }


def validate_daemon_set(daemon_set: Object, old: Object | None) -> list[FieldCause]:
    """The faults of a DaemonSet."""
    return validate_selector(daemon_set, old)


def validate_selector(workload: Object, old: Object | None) -> list[FieldCause]:
    """The selector must be there, choose the template's pods, and stay what it is.

    The pods of the template have containers, and are restarted for ever.
    """
    spec = workload["spec"]
    selector = spec.get("selector") or {}
    causes: list[FieldCause] = []
    if not selector:
        causes.append(value_required("spec.selector"))
    labels = ((spec["template"].get("metadata") or {}).get("labels")) or {}
    wanted = selector.get("matchLabels") or {}
    if any(labels.get(key) != value for key, value in wanted.items()):
        why = "`selector` does not match template `labels`"
        causes.append(value_invalid("spec.template.metadata.labels", labels, why))
    causes += _template_causes(spec["template"], "spec.template", ("Always",))
    if old is not None and _filled(old["spec"].get("selector")) != _filled(spec.get("selector")):
        causes.append(value_invalid("spec.selector", selector, "field is immutable"))
    replicas = spec.get("replicas")
    if isinstance(replicas, int) and replicas < 0:
        causes.append(value_invalid("spec.replicas", replicas, "must be greater than or equal to 0"))
    return causes


def _filled(selector: Object | None) -> Object:
    """A selector without its empty members, which say the same as those that are absent."""
    return {name: value for name, value in (selector or {}).items() if value}


# --- jobs -------------------------------------------------------------------------------------


def prepare_job(job: Object, old: Object | None) -> None:
    """Complete a Job, and give a new one the selector and labels that its pods are found by."""
    spec = job.setdefault("spec", {})
    _default_job_spec(spec)
    if old is not None:
        return
    job["status"] = {}
    if not spec.get("manualSelector"):
        uid, name = job["metadata"]["uid"], job["metadata"]["name"]
        labels = {"batch.kubernetes.io/controller-uid": uid, "batch.kubernetes.io/job-name": name}
        template = spec["template"]["metadata"] = spec["template"].get("metadata") or {}
        template["labels"] = {
            **(template.get("labels") or {}),
            **labels,
            "controller-uid": uid,
            "job-name": name,
        }
        spec["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}


def _default_job_spec(spec: Object) -> None:
    if spec.get("completions") is None and spec.get("parallelism") is None:
        default(spec, completions=1)
    default(spec, parallelism=1, backoffLimit=6, suspend=False, completionMode="NonIndexed")
    default(spec, podReplacementPolicy="Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed")
    prepare_template(spec)


def validate_job(job: Object, old: Object | None) -> list[FieldCause]:
    """The faults of a Job."""
    spec = job["spec"]
    causes = _template_causes(spec["template"], "spec.template", _ENDING_POLICIES)
    for field in ("parallelism", "completions", "backoffLimit", "activeDeadlineSeconds"):
        value = spec.get(field)
        if isinstance(value, int) and value < 0:
            causes.append(value_invalid(f"spec.{field}", value, "must be greater than or equal to 0"))
    if old is None:
        return causes
    before = old["spec"]
    names = ["selector", "completionMode"]
    if not before.get("suspend"):
        names.append("template")
    if spec.get("completionMode") != "Indexed":
        names.append("completions")
    causes += [
        value_invalid(f"spec.{name}", "", "field is immutable")
        for name in names
        if spec.get(name) != before.get(name)
    ]
    return causes


def _template_causes(template: Object, path: str, policies: Sequence[str]) -> list[FieldCause]:
    spec = template.get("spec") or {}
    causes = container_causes(spec, f"{path}.spec")
    if spec.get("restartPolicy") not in policies:
        causes.append(value_not_supported(f"{path}.spec.restartPolicy", spec.get("restartPolicy"), policies))
    return causes


def prepare_cron_job(cron_job: Object, old: Object | None) -> None:
    """Complete a CronJob."""
    spec = cron_job.setdefault("spec", {})
    default(
        spec,
        concurrencyPolicy="Allow",
        suspend=False,
        successfulJobsHistoryLimit=3,
        failedJobsHistoryLimit=1,
    )
    job = spec.setdefault("jobTemplate", {}).setdefault("spec", {})
    prepare_template(job)
    if old is None:
        cron_job["status"] = {}


def validate_cron_job(cron_job: Object, old: Object | None) -> list[FieldCause]:
    """The faults of a CronJob: its name leaves room for those of its jobs, its schedule has five fields."""
    spec, name = cron_job["spec"], cron_job["metadata"].get("name", "")
    schedule = spec.get("schedule") or ""
    template, place = spec["jobTemplate"]["spec"]["template"], "spec.jobTemplate.spec.template"
    causes = _template_causes(template, place, _ENDING_POLICIES)
    if len(name) > 52:
        causes.append(value_invalid("metadata.name", name, "must be no more than 52 characters"))
    if not schedule:
        causes.append(value_required("spec.schedule"))
    elif not schedule.startswith("@") and len(schedule.split()) != _CRON_FIELDS:
        count = len(schedule.split())
        why = f"expected exactly 5 fields, found {count}: {schedule.split()}"
        causes.append(value_invalid("spec.schedule", schedule, why))
    if spec["concurrencyPolicy"] not in ("Allow", "Forbid", "Replace"):
        supported = ("Allow", "Forbid", "Replace")
        causes.append(value_not_supported("spec.concurrencyPolicy", spec["concurrencyPolicy"], supported))
    return causes


def prepare_template(spec: Object) -> None:
    """Complete the pod template in a spec."""
    template: Any = spec.setdefault("template", {})
    if template is None:
        template = spec["template"] = {}
    default_pod_spec(template.setdefault("spec", {}))


def validate_revision(revision: Object, old: Object | None) -> list[FieldCause]:
    """The data of a ControllerRevision never changes."""
    return fixed(revision, old, "data")
