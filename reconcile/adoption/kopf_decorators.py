"""The decorators of kopf, and what takes their place."""

from typing import Final

from reconcile.adoption.kopf_counterparts import Counterpart

DECORATORS: Final = (
    Counterpart(
        "@kopf.on.create",
        "a part of the reconciler",
        "It runs for each change and at every start, so `apply` what must exist instead of creating it once",
    ),
    Counterpart(
        "@kopf.on.update",
        "a part of the reconciler",
        "Write what the object asks for now: an apply that would change nothing is not sent",
    ),
    Counterpart("@kopf.on.resume", "a part of the reconciler", "All objects run when a manager starts"),
    Counterpart(
        "@kopf.on.field",
        "a part of the reconciler",
        "Compare the desired with the actual value; where that cannot be read, `Step(once_for=)` "
        "has both values",
        "how-to/carry-out-steps.md",
    ),
    Counterpart(
        "@kopf.on.delete",
        "`Controller(cleanup=)`",
        "It adds the finalizer, and runs again until it returns. With `optional=True`: "
        "`on_deleted=`, which holds nothing",
    ),
    Counterpart(
        "@kopf.on.event",
        "a part of the reconciler; for another kind `owns=` or `watches=`",
        "A run sees the state, not the events: several changes may be one run. For deletions there "
        "is `on_deleted=`",
    ),
    Counterpart(
        "@kopf.timer",
        "`Controller(every=)`, or `Result(requeue_after=)`",
        "The reconciler runs again, with everything else that it does",
    ),
    Counterpart(
        "@kopf.daemon",
        "`Controller(background=)`",
        "A task for each object that may ask for runs; the reconciler decides and writes. For a "
        "poll `every=` will do",
    ),
    Counterpart(
        "@kopf.index",
        "`Controller(indexes={name: Index(Kind, function)})`",
        "The function gets a typed object and returns the values that it is found by: "
        "`ctx.client.list(Kind, index=(name, value))`",
    ),
    Counterpart(
        "@kopf.on.validate",
        "`Controller(admission=Admission(Kind, refuses=function))`",
        "A function that yields a `Refusal` for each fault. Much of it fits into the model, where "
        "no webhook is needed",
        "how-to/admission.md",
    ),
    Counterpart(
        "@kopf.on.mutate",
        "`Controller(admission=Admission(Kind, defaults=function))`",
        "A function that returns the completed object; the patch is made from it. Fixed defaults "
        "belong into the model",
        "how-to/admission.md",
    ),
    Counterpart(
        "@kopf.on.startup",
        "lines before `manager.run()`",
        "Settings become options of the manager",
        "reference/configuration.md",
    ),
    Counterpart("@kopf.on.cleanup", "lines after `manager.run()`", "It returns when everything has stopped"),
    Counterpart(
        "@kopf.on.login",
        "",
        "the manager finds the cluster as kubectl does, in a pod by its service account; "
        "`--kubeconfig` and `--context` choose",
    ),
    Counterpart(
        "@kopf.on.probe",
        "`Manager(liveness={name: function})`, `Manager(readiness=)`",
        "Functions that raise; they show on `/healthz` and `/readyz`",
    ),
    Counterpart(
        "@kopf.subhandler",
        "`Steps`, where each may be done once only; else functions that the reconciler calls in order",
        page="how-to/carry-out-steps.md",
    ),
)
