"""Rollback: an annotation names the revision whose template the fleet gets back."""

from functools import partial
from typing import Any

from attrs import evolve

from reconcile import Context
from reconcile.blocks import Revisions
from reconcile.models import encode

from .cluster_template import canonical
from .models import ClusterTemplate, RayClusterFleet

ROLLBACK = "deprecated.deployment.rollback.to"
"""Annotation of a fleet: the revision to return to, 0 for the previous one (as Deployments had it)."""


async def roll_back(ctx: Context[RayClusterFleet], revisions: Revisions) -> None:
    text = ctx.object.metadata.annotations[ROLLBACK]
    target = revisions.numbered(int(text)) if text.isdecimal() else None
    template: dict[str, Any] | None = None
    if target is None or target.object is None:
        ctx.event("DeploymentRollbackRevisionNotFound", f"there is no revision {text!r}", warning=True)
    elif target is revisions.new:
        same = f"revision {target.revision} has the template that the fleet has"
        ctx.event("DeploymentRollbackTemplateUnchanged", same, warning=True)
    else:
        found = f"{target.revision}, {target.name}"
        ctx.event("DeploymentRollback", f"went back to the template of revision {found}")
        template = canonical(encode(target.object)["spec"]["template"])
    change = partial(_changed, template=template)
    await ctx.client.modify(RayClusterFleet, ctx.object.name, ctx.object.namespace, change)


def _changed(fleet: RayClusterFleet, template: dict[str, Any] | None) -> RayClusterFleet:
    rest = {name: text for name, text in fleet.metadata.annotations.items() if name != ROLLBACK}
    changed = fleet.with_metadata(annotations=rest)
    if template is None:
        return changed
    wanted = ClusterTemplate(template["spec"], template.get("metadata") or {})
    return changed.replace(spec=evolve(changed.spec, template=wanted))
