"""Rollback: an annotation names the revision whose template the fleet gets back."""

from functools import partial
from typing import Any

from attrs import evolve

from reconcile import Context, Result
from reconcile.blocks import Revisions, RevisionSet
from reconcile.models import encode

from .cluster_template import canonical
from .models import ClusterTemplate, RayClusterFleet

ROLLBACK = "deprecated.deployment.rollback.to"
"""Annotation of a fleet: the revision to return to, 0 for the previous one (as Deployments had it)."""


async def roll_back(ctx: Context[RayClusterFleet], revisions: Revisions) -> Result | None:
    text = ctx.object.metadata.annotations[ROLLBACK]
    target = revisions.numbered(int(text)) if text.isdecimal() else None
    if target is None or target.object is None:
        ctx.event("DeploymentRollbackRevisionNotFound", f"there is no revision {text!r}", warning=True)
        await _change(ctx, None)
        return None
    template = canonical(encode(target.object)["spec"]["template"])
    if target is revisions.new:
        same = f"revision {target.revision} has the template that the fleet has"
        ctx.event("DeploymentRollbackTemplateUnchanged", same, warning=True)
        await _change(ctx, None)
        return None
    ctx.event("DeploymentRollback", f"went back to the template of revision {_name(target)}")
    await _change(ctx, template)
    return None


def _name(target: RevisionSet) -> str:
    return f"{target.revision}, {target.name}"


async def _change(ctx: Context[RayClusterFleet], template: dict[str, Any] | None) -> None:
    fleet = ctx.object
    await ctx.client.modify(
        RayClusterFleet, fleet.name, fleet.namespace, partial(_changed, template=template)
    )


def _changed(fleet: RayClusterFleet, template: dict[str, Any] | None) -> RayClusterFleet:
    rest = {name: text for name, text in fleet.metadata.annotations.items() if name != ROLLBACK}
    changed = fleet.with_metadata(annotations=rest)
    if template is None:
        return changed
    wanted = ClusterTemplate(template["spec"], template.get("metadata") or {})
    return changed.replace(spec=evolve(changed.spec, template=wanted))
