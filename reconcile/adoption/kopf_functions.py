"""Errors, functions, classes and settings of kopf, what it leaves on objects, and what becomes of each."""

from typing import Final

from reconcile.adoption.kopf_counterparts import Counterpart

ERRORS: Final = (
    Counterpart(
        "kopf.TemporaryError",
        "`TemporaryError(message, delay=)` of `reconcile.errors`",
        "Any other exception is retried too, with back-off",
    ),
    Counterpart(
        "kopf.PermanentError",
        "`raise TerminalError(...)`",
        "Not tried again until something changes",
    ),
    Counterpart(
        "kopf.HandlerTimeoutError",
        "",
        "a run that takes longer than `timeout=` fails and is tried again",
    ),
    Counterpart(
        "kopf.HandlerRetriesError",
        "",
        "runs go on with longer and longer waits; raise `TerminalError` to end them",
    ),
    Counterpart("kopf.AdmissionError", "`yield Refusal(message, field)`", page="how-to/admission.md"),
    Counterpart("kopf.LoginError", "", "a manager that cannot log in says so and ends"),
    Counterpart("kopf.ErrorsMode", "", "which exception is raised decides whether a run is tried again"),
)

FUNCTIONS: Final = (
    Counterpart("kopf.adopt", "`Controller(owns=[Kind])`", "`ctx.apply` adds the owner reference"),
    Counterpart(
        "kopf.append_owner_reference",
        "`Controller(owns=[Kind])`",
        "`ctx.apply` adds the owner reference; for a further owner `owners.with_owner`",
    ),
    Counterpart("kopf.remove_owner_reference", "`client.modify`", "Removes it from the object's metadata"),
    Counterpart("kopf.label", "labels of the `ObjectMeta` of an intent"),
    Counterpart(
        "kopf.harmonize_naming",
        "a name that follows from the owner's",
        "A generated name makes a second child after a crash",
    ),
    Counterpart("kopf.adjust_namespace", "the namespace of the `ObjectMeta` of an intent"),
    Counterpart("kopf.build_object_reference", "`ctx.event(...)` knows its object"),
    Counterpart(
        "kopf.build_owner_reference",
        "`owners.with_owner`",
        "`ctx.apply` makes it for kinds of `owns=`",
    ),
    Counterpart("kopf.event", "`ctx.event(reason, message)`"),
    Counterpart("kopf.info", "`ctx.event(reason, message)`"),
    Counterpart("kopf.warn", "`ctx.event(reason, message, warning=True)`"),
    Counterpart("kopf.exception", "`ctx.event(reason, message, warning=True)`"),
    Counterpart(
        "kopf.subhandler",
        "`Steps`, where each may be done once only; else functions that the reconciler calls in order",
        page="how-to/carry-out-steps.md",
    ),
    Counterpart(
        "kopf.register",
        "`Steps`, where each may be done once only; else functions that the reconciler calls in order",
        page="how-to/carry-out-steps.md",
    ),
    Counterpart(
        "kopf.execute",
        "`Steps`, where each may be done once only; else functions that the reconciler calls in order",
        page="how-to/carry-out-steps.md",
    ),
    Counterpart(
        "kopf.run",
        "`manager.run()`, or `reconcile run MODULE`",
        page="how-to/embed-in-an-application.md",
    ),
    Counterpart("kopf.operator", "`manager.run()`", page="how-to/embed-in-an-application.md"),
    Counterpart("kopf.run_tasks", "`manager.run()`", page="how-to/embed-in-an-application.md"),
    Counterpart("kopf.spawn_tasks", "`manager.run()`", page="how-to/embed-in-an-application.md"),
    Counterpart("kopf.configure", "`configure_logging(...)`", page="how-to/logging.md"),
    Counterpart("kopf.all_", "`and`"),
    Counterpart("kopf.any_", "`or`"),
    Counterpart("kopf.none_", "`not (... or ...)`"),
    Counterpart("kopf.not_", "`not`"),
    Counterpart("kopf.lifecycles", "", "there is one reconciler, so no order of handlers"),
    Counterpart("kopf.set_default_lifecycle", "", "there is one reconciler, so no order of handlers"),
    Counterpart("kopf.get_default_lifecycle", "", "there is one reconciler, so no order of handlers"),
    Counterpart("kopf.OperatorRegistry", "the list of controllers of a `Manager`"),
    Counterpart("kopf.get_default_registry", "the list of controllers of a `Manager`"),
    Counterpart("kopf.set_default_registry", "the list of controllers of a `Manager`"),
    Counterpart("kopf.Memo", "", "state lives in objects and outside"),
    Counterpart("kopf.Index", "`Controller(indexes=)`"),
    Counterpart("kopf.Store", "`Controller(indexes=)`"),
    Counterpart("kopf.EVERYTHING", "", "a controller has one kind: declare one for each"),
    Counterpart("kopf.PRESENT", "`name` in a selector"),
    Counterpart("kopf.ABSENT", "`!name` in a selector"),
    Counterpart(
        "kopf.WebhookServer",
        "`Manager(webhooks=)`",
        "With `webhook_service=` it makes its certificates",
        "explanation/webhook-certificates.md",
    ),
    Counterpart("kopf.WebhookAutoServer", "`reconcile dev`", "It calls admission in its own process"),
    Counterpart("kopf.WebhookAutoTunnel", "`reconcile dev`", "It calls admission in its own process"),
    Counterpart(
        "kopf.WebhookNgrokTunnel",
        "",
        "there is no tunnel; `reconcile dev` calls admission in its own process",
    ),
    Counterpart("kopf.WebhookK3dServer", "`reconcile dev`", "It calls admission in its own process"),
    Counterpart("kopf.WebhookMinikubeServer", "`reconcile dev`", "It calls admission in its own process"),
    Counterpart(
        "kopf.WebhookDockerDesktopServer",
        "`reconcile dev`",
        "It calls admission in its own process",
    ),
    Counterpart(
        "kopf.testing.KopfRunner",
        "`reconcile.testing.Scenario`, `run_once`",
        "In virtual time, on an API server in the test's process",
        "how-to/test-an-operator.md",
    ),
)

SETTINGS: Final = (
    Counterpart("persistence.finalizer", "`Predecessor.kopf(finalizer=)`"),
    Counterpart(
        "persistence.progress_storage",
        "`Predecessor.kopf(prefix=)`",
        "Of a storage only its prefix matters, for as long as objects have its annotations",
    ),
    Counterpart(
        "persistence.diffbase_storage",
        "`Predecessor.kopf(prefix=)`",
        "Of a storage only its prefix matters, for as long as objects have its annotations",
    ),
    Counterpart(
        "persistence.consistency_timeout",
        "",
        "a run waits until the cache shows what the last one wrote",
    ),
    Counterpart(
        "peering.name",
        "`Predecessor.kopf(peering=)`",
        "For the switch; from then on a Lease says who leads: `leader_election=`",
    ),
    Counterpart("peering.priority", "", "a Lease says who leads: `leader_election=`"),
    Counterpart("peering.lifetime", "", "a Lease says who leads: `leader_election=`"),
    Counterpart("peering.mandatory", "", "a Lease says who leads: `leader_election=`"),
    Counterpart("peering.standalone", "", "a Lease says who leads: `leader_election=`"),
    Counterpart("peering.stealth", "", "a Lease says who leads: `leader_election=`"),
    Counterpart("peering.clusterwide", "", "a Lease says who leads: `leader_election=`"),
    Counterpart("peering.namespaced", "", "a Lease says who leads: `leader_election=`"),
    Counterpart("posting.enabled", "", "lines of the log are no Events; `ctx.event(...)` makes one"),
    Counterpart("posting.loggers", "", "lines of the log are no Events; `ctx.event(...)` makes one"),
    Counterpart("posting.level", "", "lines of the log are no Events; `ctx.event(...)` makes one"),
    Counterpart("admission.server", "`Manager(webhooks=)`", page="how-to/admission.md"),
    Counterpart(
        "admission.managed",
        "`Manager(webhook_service=)`",
        "Remove kopf's configuration, or the API server goes on asking for it",
        "explanation/webhook-certificates.md",
    ),
    Counterpart(
        "execution.max_workers",
        "`Manager(threads=)`",
        "`workers=` of a controller is how many objects are worked on at a time",
    ),
    Counterpart("execution.executor", "`Manager(threads=)`"),
    Counterpart("execution.default_backoff", "`Controller(backoff=)`"),
    Counterpart("queueing.worker_limit", "`Controller(workers=)`"),
    Counterpart("batching.worker_limit", "`Controller(workers=)`"),
    Counterpart(
        "watching.label_selectors",
        "`InformerOptions(labels=)`",
        page="how-to/make-the-cache-smaller.md",
    ),
    Counterpart(
        "watching.field_selectors",
        "`InformerOptions(fields=)`",
        page="how-to/make-the-cache-smaller.md",
    ),
    Counterpart("watching.*", "", "watches renew themselves, and one that is silent is replaced"),
    Counterpart(
        "networking.*",
        "",
        "requests are repeated where that is safe; `client_qps=` and `client_burst=` pace them",
    ),
    Counterpart("background.*", "", "a background task is cancelled and has ended before `cleanup` runs"),
    Counterpart("process.*", "`Manager(stop_seconds=)`"),
    Counterpart("scanning.*", "", "kinds are declared; a definition that comes later is waited for"),
    Counterpart(
        "queueing.*",
        "",
        "a queue holds each key once, and a worker ends when there is nothing to do",
    ),
    Counterpart("posting.*", "", "Events are written beside the runs, and equal ones are counted up"),
    Counterpart("execution.*", "`Controller(workers=, timeout=, backoff=)`"),
    Counterpart("admission.*", "`Manager(webhooks=)`", page="how-to/admission.md"),
    Counterpart("batching.*", "", "a queue holds each key once"),
    Counterpart("persistence.*", "", "nothing is kept on objects but a finalizer, where there is `cleanup=`"),
    Counterpart("peering.*", "", "a Lease says who leads: `leader_election=`"),
)
"""By their names without `settings.`; `*` stands for the settings of a section that have no row."""

TRACES: Final = (
    Counterpart(
        "status.<handler>",
        "a field of the typed status",
        "kopf stores what a handler returns; others may read it, so keep the old place for one release",
    ),
    Counterpart(
        "module state",
        "",
        "what a process remembers is lost with it: keep it in objects, or ask the system outside",
    ),
    Counterpart(
        "writes to its own spec",
        "",
        "the spec belongs to the user: defaults belong into the model or `Admission(defaults=)`, "
        "results into the status",
    ),
    Counterpart("waiting", "`return Result(requeue_after=seconds)`", "A wait inside a run keeps a worker"),
)
