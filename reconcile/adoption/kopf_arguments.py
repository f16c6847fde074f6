"""The arguments of kopf's decorators and handlers, and what takes their place."""

from typing import Final

from reconcile.adoption.kopf_counterparts import Counterpart

ARGUMENTS: Final = (
    Counterpart(
        "labels=",
        "`Controller(selector=)`",
        "`kopf.PRESENT` is `name`, `kopf.ABSENT` is `!name`. The same for all of a kind; else an "
        "`if` in the reconciler",
    ),
    Counterpart("annotations=", "an `if` in the reconciler", "`wakes=` chooses which changes wake it"),
    Counterpart("when=", "an `if` in the reconciler", "`wakes=` chooses which changes wake it"),
    Counterpart(
        "field=",
        "an `if` in the reconciler",
        "The model has the field; changes outside the status wake it anyway",
    ),
    Counterpart("value=", "an `if` in the reconciler"),
    Counterpart(
        "old=",
        "",
        "a run knows no former value; `step.before` of a `Step` is what was last carried out",
        "how-to/carry-out-steps.md",
    ),
    Counterpart("new=", "an `if` in the reconciler"),
    Counterpart("optional=", "`Controller(on_deleted=)`", "It misses deletions while no manager runs"),
    Counterpart(
        "deleted=",
        "`Controller(cleanup=)`",
        "An object that is being deleted runs `cleanup`, also after a restart",
    ),
    Counterpart(
        "id=",
        "",
        "nothing is kept by the name of a function; names of the status are those of its model",
    ),
    Counterpart("param=", "`functools.partial`"),
    Counterpart("registry=", "the list of controllers of a `Manager`"),
    Counterpart("errors=", "which exception is raised", "`TerminalError` is not retried; any other is"),
    Counterpart("timeout=", "`Controller(timeout=)`", "Seconds of one run; kopf's is over all attempts"),
    Counterpart(
        "retries=",
        "`ctx.attempt`",
        "Runs go on with longer and longer waits; raise `TerminalError` to end them",
    ),
    Counterpart(
        "backoff=",
        "`Controller(backoff=Backoff(base=, limit=))`",
        "It doubles, where kopf waits the same time",
    ),
    Counterpart("interval=", "`Controller(every=)`"),
    Counterpart(
        "idle=",
        "`Result(requeue_after=)`",
        "Return what is left of the time since the last change that the status records",
    ),
    Counterpart(
        "sharp=",
        "",
        "`every=` counts from the end of a run; compute `requeue_after` from the clock for fixed times",
    ),
    Counterpart("initial_delay=", "`Result(requeue_after=)`", "Return it while `ctx.object` is younger"),
    Counterpart(
        "cancellation_backoff=",
        "",
        "a background task is cancelled and has ended before `cleanup` runs",
    ),
    Counterpart(
        "cancellation_timeout=",
        "",
        "a background task is cancelled and has ended before `cleanup` runs",
    ),
    Counterpart(
        "cancellation_polling=",
        "",
        "a background task is cancelled and has ended before `cleanup` runs",
    ),
    Counterpart("operations=", "`Admission(operations=)`"),
    Counterpart("operation=", "`Admission(operations=)`"),
    Counterpart("subresource=", "", "functions of admission are called for the object itself"),
    Counterpart("persistent=", "", "webhooks are installed with the operator, and stay while it is down"),
    Counterpart("side_effects=", "", "functions of admission are pure, and their webhooks declare so"),
    Counterpart("ignore_failures=", "`Admission(required=False)`"),
)
"""Of decorators; those that choose a resource are in `RESOURCE`."""

RESOURCE: Final = ("group", "version", "kind", "plural", "singular", "shortcut", "category")
"""Arguments of decorators that choose a resource: here, a controller has one kind, a class."""

KEYWORDS: Final = (
    Counterpart(
        "body", "`ctx.object`", "Typed and frozen. Fields that the model leaves out are kept, and not visible"
    ),
    Counterpart("spec", "`ctx.object.spec`"),
    Counterpart("status", "`ctx.object.status`", "Write with `ctx.status(...)` and `ctx.condition(...)`"),
    Counterpart("meta", "`ctx.object.metadata`"),
    Counterpart("metadata", "`ctx.object.metadata`"),
    Counterpart("labels", "`ctx.object.metadata.labels`"),
    Counterpart("annotations", "`ctx.object.metadata.annotations`"),
    Counterpart("name", "`ctx.object.name`"),
    Counterpart("namespace", "`ctx.object.namespace`"),
    Counterpart("uid", "`ctx.object.uid`"),
    Counterpart("resource", "the class of the kind"),
    Counterpart("logger", "`ctx.log`", "Lines are no Events; those are `ctx.event(...)`"),
    Counterpart(
        "patch",
        "`ctx.status(...)`",
        "Written once, at the end of a run, and only if it changed. A spec belongs to the user; "
        "other metadata by `ctx.client.modify`",
    ),
    Counterpart(
        "memo",
        "",
        "state lives in objects and outside; what is slow to compute may be kept in a dict by uid, "
        "and must be dispensable",
    ),
    Counterpart("param", "`functools.partial`"),
    Counterpart("retry", "`ctx.attempt`"),
    Counterpart("started", "", "keep the time of the first attempt in the status if a deadline needs it"),
    Counterpart("runtime", "", "keep the time of the first attempt in the status if a deadline needs it"),
    Counterpart("initial", "", "an object that is found at the start runs like any other"),
    Counterpart("event", "", "a run sees the state, not the events; `ctx.causes` says what woke it"),
    Counterpart("type", "", "a run sees the state, not the events; `ctx.causes` says what woke it"),
    Counterpart("reason", "", "a run sees the state, not the events; `ctx.causes` says what woke it"),
    Counterpart(
        "old",
        "",
        "there is only now; `step.before` of a `Step` is what was last carried out",
        "how-to/carry-out-steps.md",
    ),
    Counterpart("new", "`ctx.object`"),
    Counterpart("diff", "", "compare `ctx.object` with what the status says was last carried out"),
    Counterpart("stopped", "", "a background task is cancelled: clean up in `finally`"),
    Counterpart("settings", "options of the manager", page="reference/configuration.md"),
    Counterpart("activity", "", "there are no activities, but lines before and after `manager.run()`"),
    Counterpart("dryrun", "`request.dry_run`", "Functions of admission are pure, so a trial is no different"),
    Counterpart("warnings", "`yield Warn(text)`"),
    Counterpart("userinfo", "`request.user`"),
    Counterpart("operation", "`request.operation`"),
    Counterpart("subresource", "`request.subresource`"),
    Counterpart("webhook", "", "a function of admission belongs to one kind"),
    Counterpart(
        "indices",
        "`ctx.client.list(Kind, index=(name, value))`",
        "kopf passes each index under its own name too",
    ),
    Counterpart("headers", "", "not passed on: they are the API server's"),
    Counterpart("sslpeer", "", "not passed on: it is the API server's"),
)
