"""Whose an object is: orphans that a selector fits are adopted, own ones that it no longer fits released."""

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from attrs import define, field

from reconcile import Context, Key, LabelSelector, Object, Request, kind_of, owners
from reconcile.models import encode

O = TypeVar("O", bound=Object)  # noqa: E741


async def claimed(ctx: Context[Any], model: type[O], selector: LabelSelector) -> Sequence[O]:
    """The objects of a kind that the run's object controls and its selector fits, adoptions included.

    Who releases an object leaves it as it is; who adopts is read live before, so that nothing is given to an
    object that is going. Raises the errors of requests, StaleVersion among them.
    """
    fitting = await ctx.client.list(model, ctx.object.namespace, labels=selector.text())
    orphans = [one for one in fitting if owners.controller_of(one) is None and not one.terminating]
    kept = []
    for one in await ctx.owned(model):
        if one.terminating or selector.matches(one.metadata.labels):
            kept.append(one)
        else:
            await _rewrite_owners(ctx, one, owners.without_owner(one, ctx.object))
    if orphans and await _stands(ctx):
        for one in orphans:
            kept.append(await _rewrite_owners(ctx, one, owners.with_owner(one, ctx.object, controller=True)))
    return kept


async def _rewrite_owners(ctx: Context[Any], one: O, wanted: O) -> O:
    references = encode(wanted)["metadata"].get("ownerReferences") or None
    return await ctx.client.raw.merge(one, {"metadata": {"ownerReferences": references}}, guard=_guard(one))


def _guard(one: Object) -> dict[str, str]:
    return {"uid": one.uid, "resourceVersion": one.metadata.resource_version}


async def _stands(ctx: Context[Any]) -> bool:
    """Whether the object of this run is still there, and not going: the cache may not know yet."""
    resource = kind_of(ctx.object).resource
    live = await ctx.client.raw.snapshot(resource, Key(ctx.object.namespace, ctx.object.name), live=True)
    return live is not None and live.uid == ctx.object.uid and not live.terminating


@define
class Claimants:
    """Who would adopt an orphan: the selectors of the objects that have run, for `Watch(to=)`.

    It forgets with the process and knows again after the first runs, each of which looks for orphans.
    """

    _selectors: dict[Request, LabelSelector] = field(factory=dict, init=False)

    def note(self, request: Request, selector: LabelSelector) -> None:
        """The object of that key adopts what `selector` fits."""
        self._selectors[request] = selector

    def forget(self, request: Request) -> None:
        """It does not any more."""
        self._selectors.pop(request, None)

    def whom(self, orphan: Object) -> Iterable[Request]:
        """Whom an object concerns that nobody controls."""
        if owners.controller_of(orphan) is not None or orphan.terminating:
            return []
        labels, namespace = orphan.metadata.labels, orphan.namespace
        return [
            request
            for request, selector in self._selectors.items()
            if request.namespace == namespace and selector.matches(labels)
        ]
