"""Ownership by selector: matching orphans are adopted, own objects that no longer match are released."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, TypeAlias, TypeVar

from attrs import define, field

from reconcile import Context, Deleted, Key, LabelSelector, Object, Request, Result, kind_of, owners
from reconcile.models import encode

O = TypeVar("O", bound=Object)  # noqa: E741
Keep: TypeAlias = Callable[[Context[Any]], Awaitable[Result | None]]


async def claimed_objects(ctx: Context[Any], model: type[O], selector: LabelSelector) -> Sequence[O]:
    """The objects that the run's object controls and its selector matches, with those adopted now.

    Objects that no longer match are released. Raises the errors of requests, StaleVersion among them.
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
    resource = kind_of(ctx.object).resource
    live = await ctx.client.raw.snapshot(resource, Key(ctx.object.namespace, ctx.object.name), live=True)
    return live is not None and live.uid == ctx.object.uid and not live.terminating


@define
class Claimants:
    """The selectors of objects that have run, for `Watch(to=)`: they find who would adopt an orphan.

    Empty after a restart until the first runs, each of which looks for orphans anyway.
    """

    _selectors: dict[Request, LabelSelector] = field(factory=dict, init=False)

    def remembering(self, keep: Keep) -> Keep:
        """`keep`, which also remembers the selector of each run's object."""

        async def remembered(ctx: Context[Any]) -> Result | None:
            self._selectors.pop(ctx.request, None)
            with suppress(ValueError):  # the run says what is wrong with it
                ctx.object.spec.selector.requirements()
                self._selectors[ctx.request] = ctx.object.spec.selector
            return await keep(ctx)

        return remembered

    async def forget(self, departed: Deleted[Any]) -> None:
        self._selectors.pop(departed.request, None)

    def requests_for(self, orphan: Object) -> Iterable[Request]:
        if owners.controller_of(orphan) is not None or orphan.terminating:
            return []
        labels, namespace = orphan.metadata.labels, orphan.namespace
        return [
            request
            for request, selector in self._selectors.items()
            if request.namespace == namespace and selector.matches(labels)
        ]
