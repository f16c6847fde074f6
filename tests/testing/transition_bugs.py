"""Reconcilers that carry out some changes of a spec wrongly, each with a twin that is right.

The classes are those of Acto (Gu et al., SOSP 2023), and what follows from promises of this runtime.
"""

import hashlib
from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from typing import Annotated, Any

from attrs import field as attribute
from attrs import frozen

from reconcile import Context, Controller, Intent, Object, ObjectMeta, Write, resource
from reconcile.kinds import ConfigMap
from reconcile.models import Schema


@frozen
class PlantedBug:
    """A controller that is wrong in one way, one that is right, and the rule and words that tell of it.

    `only` are the fields that it is about; `pairs`: it takes two of them at once.
    """

    name: str
    wrong: Callable[[], Controller[Any]]
    right: Callable[[], Controller[Any]]
    rule: str
    place: str
    only: str
    pairs: bool

    def __str__(self) -> str:
        return self.name


@cache
def made(kind: type[Object], reconcile: Callable[[Any], Awaitable[None]]) -> Callable[[], Controller[Any]]:
    return lambda: Controller(kind, reconcile, owns=[ConfigMap], writes=[Write(ConfigMap)], name="sites")


async def own_page(ctx: Context[Any]) -> ConfigMap | None:
    return next((one for one in await ctx.owned(ConfigMap) if one.name == ctx.object.name), None)


def page(ctx: Context[Any], data: Mapping[str, str], name: str = "", **labels: str) -> Intent[ConfigMap]:
    metadata = ObjectMeta(name or ctx.object.name, ctx.object.namespace, labels=labels)
    return Intent(ConfigMap, metadata=metadata, data=data)


@frozen
class TextSpec:
    text: Annotated[str, Schema(max_length=20)] = ""


@frozen
class TextStatus:
    phase: str = ""
    observed_generation: int | None = None


@resource("transitions.example.com/v1")
class Text(Object):
    spec: TextSpec = TextSpec()
    status: TextStatus = TextStatus()


async def keep_text(ctx: Context[Text]) -> None:
    await ctx.apply(page(ctx, {"text": ctx.object.spec.text}))


# --- a field is ignored on update ------------------------------------------------------------------


async def only_at_creation(ctx: Context[Text]) -> None:
    if await own_page(ctx) is None:
        await keep_text(ctx)


# --- a list that gets shorter ------------------------------------------------------------------------


@frozen
class PagesSpec:
    pages: Annotated[
        tuple[Annotated[str, Schema(pattern="^[a-z0-9]{1,10}$")], ...], Schema(list_type="set", max_items=4)
    ] = ()


@resource("transitions.example.com/v1")
class Pages(Object):
    spec: PagesSpec = PagesSpec()


async def never_fewer_pages(ctx: Context[Pages]) -> None:
    for name in ctx.object.spec.pages:
        await ctx.apply(page(ctx, {}, f"{ctx.object.name}-{name}"))


async def exact_pages(ctx: Context[Pages]) -> None:
    await never_fewer_pages(ctx)
    wanted = {f"{ctx.object.name}-{name}" for name in ctx.object.spec.pages}
    for child in await ctx.owned(ConfigMap):
        if child.name not in wanted:
            await ctx.delete(child)


# --- a field that is removed -------------------------------------------------------------------------


@frozen
class NoteSpec:
    note: Annotated[str, Schema(min_length=1, max_length=20)] | None = None


@resource("transitions.example.com/v1")
class Note(Object):
    spec: NoteSpec = NoteSpec()


async def keeps_a_removed_note(ctx: Context[Note]) -> None:
    before = await own_page(ctx)
    note = ctx.object.spec.note
    kept = dict(before.data) if before is not None else {}
    await ctx.apply(page(ctx, kept if note is None else {"note": note}))


async def removes_the_note(ctx: Context[Note]) -> None:
    note = ctx.object.spec.note
    await ctx.apply(page(ctx, {} if note is None else {"note": note}))


# --- an empty list ----------------------------------------------------------------------------------


async def first_page_always(ctx: Context[Pages]) -> None:
    await ctx.apply(page(ctx, {"first": ctx.object.spec.pages[0]}))


async def first_page_if_any(ctx: Context[Pages]) -> None:
    await ctx.apply(page(ctx, {"first": next(iter(ctx.object.spec.pages), "")}))


# --- no way back after a bad value --------------------------------------------------------------------


async def fails_for_ever(ctx: Context[Text]) -> None:
    if ctx.object.status.phase == "Failed":
        return
    if not ctx.object.spec.text.isalpha():
        ctx.status(phase="Failed")
        return
    await keep_text(ctx)
    ctx.status(phase="Ready")


async def recovers(ctx: Context[Text]) -> None:
    if not ctx.object.spec.text.isalpha():
        ctx.status(phase="Failed")
        for child in await ctx.owned(ConfigMap):
            await ctx.delete(child)
        return
    await keep_text(ctx)
    ctx.status(phase="Ready")


# --- a field of a child that cannot change -----------------------------------------------------------


async def changes_what_is_immutable(ctx: Context[Text]) -> None:
    metadata = ObjectMeta(ctx.object.name, ctx.object.namespace)
    await ctx.apply(Intent(ConfigMap, metadata=metadata, data={"text": ctx.object.spec.text}, immutable=True))


async def replaces_what_is_immutable(ctx: Context[Text]) -> None:
    digest = hashlib.sha256(ctx.object.spec.text.encode()).hexdigest()[:8]
    metadata = ObjectMeta(f"{ctx.object.name}-{digest}", ctx.object.namespace)
    await ctx.apply(Intent(ConfigMap, metadata=metadata, data={"text": ctx.object.spec.text}, immutable=True))
    for child in await ctx.owned(ConfigMap):
        if child.name != metadata.name:
            await ctx.delete(child)


# --- a name without bounds ---------------------------------------------------------------------------


@frozen
class TitleSpec:
    title: str = "a"


@resource("transitions.example.com/v1")
class Titled(Object):
    spec: TitleSpec = TitleSpec()


@frozen
class BoundedTitleSpec:
    title: Annotated[str, Schema(pattern="^[a-z]([a-z0-9-]{0,30}[a-z0-9])?$")] = "a"


@resource("transitions.example.com/v1")
class BoundedTitled(Object):
    spec: BoundedTitleSpec = BoundedTitleSpec()


async def named_by_title(ctx: Context[Any]) -> None:
    wanted = f"{ctx.object.name}-{ctx.object.spec.title}"
    await ctx.apply(page(ctx, {}, wanted))
    for child in await ctx.owned(ConfigMap):
        if child.name != wanted:
            await ctx.delete(child)


# --- labels that are not handed on --------------------------------------------------------------------


async def labels_at_creation(ctx: Context[Text]) -> None:
    child = await own_page(ctx)
    labels = ctx.object.metadata.labels if child is None else child.metadata.labels
    await ctx.apply(page(ctx, {"text": ctx.object.spec.text}, **labels))


async def labels_always(ctx: Context[Text]) -> None:
    await ctx.apply(page(ctx, {"text": ctx.object.spec.text}, **ctx.object.metadata.labels))


# --- what a deletion leaves ---------------------------------------------------------------------------


async def leaves_a_page(ctx: Context[Text]) -> None:
    if ctx.object.spec.text:
        await ctx.client.apply(page(ctx, {"text": ctx.object.spec.text}))


async def owns_its_page(ctx: Context[Text]) -> None:
    if ctx.object.spec.text:
        await keep_text(ctx)
        return
    for child in await ctx.owned(ConfigMap):
        await ctx.delete(child)


# --- a status of an earlier spec -----------------------------------------------------------------------


async def observes_texts_alone(ctx: Context[Text]) -> None:
    await keep_text(ctx)
    if ctx.object.spec.text:
        ctx.status(phase="Ready", observed_generation=ctx.object.metadata.generation)


async def observes_always(ctx: Context[Text]) -> None:
    await keep_text(ctx)
    ctx.status(phase="Ready", observed_generation=ctx.object.metadata.generation)


# --- a run with nothing to do ---------------------------------------------------------------------------


async def writes_in_each_run(ctx: Context[Text]) -> None:
    await keep_text(ctx)
    if (child := await own_page(ctx)) is not None:
        await ctx.client.raw.merge(child, {"data": {"text": ctx.object.spec.text}}, guard={})


# --- a run that wakes itself ------------------------------------------------------------------------------


async def wakes_itself(ctx: Context[Text]) -> None:
    await ctx.apply(page(ctx, {"text": ctx.object.spec.text, "at": ctx.clock.uuid().hex}))


# --- a class that does not read what its schema admits ---------------------------------------------------


def _small(_: Any, __: Any, value: int) -> None:
    if not 0 <= value <= 3:
        raise ValueError("expected 0 to 3")


@frozen
class NumberSpec:
    number: int = attribute(default=1, validator=_small)


@resource("transitions.example.com/v1")
class Number(Object):
    spec: NumberSpec = NumberSpec()


@frozen
class BoundedNumberSpec:
    number: Annotated[int, Schema(minimum=0, maximum=3)] = attribute(default=1, validator=_small)


@resource("transitions.example.com/v1")
class BoundedNumber(Object):
    spec: BoundedNumberSpec = BoundedNumberSpec()


async def keep_number(ctx: Context[Any]) -> None:
    await ctx.apply(page(ctx, {"number": str(ctx.object.spec.number)}))


# --- two fields together ----------------------------------------------------------------------------------


@frozen
class ListenSpec:
    tls: bool = False
    port: Annotated[int, Schema(minimum=1, maximum=9)] = 1


@resource("transitions.example.com/v1")
class Listener(Object):
    spec: ListenSpec = ListenSpec()


async def forgets_the_port_with_tls(ctx: Context[Listener]) -> None:
    spec = ctx.object.spec
    port = 8 if spec.tls and spec.port == 9 else spec.port
    before = await own_page(ctx)
    if before is not None and spec.tls and spec.port == 9:
        port = int(before.data["port"])
    await ctx.apply(page(ctx, {"port": str(port), "tls": str(spec.tls)}))


async def listens_where_it_should(ctx: Context[Listener]) -> None:
    spec = ctx.object.spec
    await ctx.apply(page(ctx, {"port": str(spec.port), "tls": str(spec.tls)}))


def planted(
    name: str,
    kind: type[Object],
    wrong: Callable[[Any], Awaitable[None]],
    right: Callable[[Any], Awaitable[None]],
    rule: str,
    place: str,
    *,
    mended: type[Object] | None = None,
    only: str = "spec",
    pairs: bool = False,
) -> PlantedBug:
    return PlantedBug(name, made(kind, wrong), made(mended or kind, right), rule, place, only, pairs)


PLANTED = (
    planted("a field ignored on update", Text, only_at_creation, keep_text, "as-new", "spec.text from"),
    planted("a list that shrinks", Pages, never_fewer_pages, exact_pages, "as-new", "spec.pages from"),
    planted(
        "a removed field that stays", Note, keeps_a_removed_note, removes_the_note, "as-new", "spec.note from"
    ),
    planted("a crash on an empty list", Pages, first_page_always, first_page_if_any, "fails", "a new Pages"),
    planted("no way back", Text, fails_for_ever, recovers, "as-new", "spec.text from"),
    planted(
        "an immutable field of a child",
        Text,
        changes_what_is_immutable,
        replaces_what_is_immutable,
        "fails",
        "spec.text from",
    ),
    planted(
        "a name without bounds",
        Titled,
        named_by_title,
        named_by_title,
        "fails",
        "a new Titled",
        mended=BoundedTitled,
    ),
    planted(
        "labels not handed on",
        Text,
        labels_at_creation,
        labels_always,
        "as-new",
        "metadata.labels from",
        only="metadata.labels",
    ),
    planted("a deletion that leaves a child", Text, leaves_a_page, owns_its_page, "leftovers", "a new Text"),
    planted(
        "a status of an earlier spec",
        Text,
        observes_texts_alone,
        observes_always,
        "observed",
        "spec.text from",
    ),
    planted("a run that always writes", Text, writes_in_each_run, keep_text, "idempotent", "a new Text"),
    planted("a run that wakes itself", Text, wakes_itself, keep_text, "converges", "a new Text"),
    planted(
        "a class narrower than its schema",
        Number,
        keep_number,
        keep_number,
        "reads",
        "a new Number",
        mended=BoundedNumber,
    ),
    planted(
        "two fields together",
        Listener,
        forgets_the_port_with_tls,
        listens_where_it_should,
        "as-new",
        "spec.tls from",
        pairs=True,
    ),
)
"""Each bug, by the rule that it breaks and what the message says of the place."""

TWINS = tuple({bug.right: bug for bug in reversed(PLANTED)}.values())
"""The right controllers, each once: some bugs have the same one."""
