"""Functions that do not fit their place are refused where they are given, or fail the run that shows it."""

import functools
import re
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import anyio
import pytest

from reconcile import (
    Context,
    Controller,
    InformerOptions,
    LabelSelector,
    Manager,
    ObjectMeta,
    Predicate,
    Watch,
    predicates,
)
from reconcile.kinds import ConfigMap, Secret
from reconcile.testing import FakeClient, run_once
from tests.helpers.managers import Toy, World, played
from tests.helpers.scenarios import in_world


async def fits(ctx: Any) -> None:
    """One argument, async."""


async def of_two(ctx: Any, other: Any) -> None:
    """Two arguments."""


async def yields(ctx: Any) -> AsyncIterator[None]:
    yield None


def yields_plainly(ctx: Any) -> Any:
    yield None


def plain(obj: Any) -> Any:
    """One argument, plain."""


def plain_of_two(old: Any, new: Any) -> Any:
    """Two arguments, plain."""


WRONG: Sequence[tuple[Callable[[], Any], str]] = [
    (lambda: Controller(Toy, of_two), r"Controller\(Toy\): reconcile= is called with \(ctx\), and of_two"),
    (lambda: Controller(Toy, yields), r"reconcile= yields is an asynchronous generator"),
    (lambda: Controller(Toy, yields_plainly), r"reconcile= yields_plainly is a generator"),
    (lambda: Controller(Toy, 5), r"reconcile= expected a function of \(ctx\), got int"),  # type: ignore[arg-type]
    (lambda: Controller(Toy, fits, cleanup=of_two), r"cleanup= is called with"),
    (lambda: Controller(Toy, fits, on_terminating=yields), r"on_terminating= yields is an asynchronous"),
    (lambda: Controller(Toy, fits, on_deleted=of_two), r"on_deleted= is called with \(gone\)"),
    (lambda: Controller(Toy, fits, on_deleted=plain), r"on_deleted= is an `async def`"),
    (lambda: Controller(Toy, fits, background=of_two), r"background= is called with \(given\)"),
    (lambda: Controller(Toy, fits, background=5), r"background= expected a function"),  # type: ignore[arg-type]
    (lambda: Controller(Toy, fits, wakes=plain), r"predicate .* is called with \(old, new\), and plain"),
    (lambda: Controller(Toy, fits, wakes=of_two), r"of_two is an `async def`"),
    (lambda: Controller(Toy, fits, wakes=Predicate(plain)), r"a predicate is called with \(old, new\)"),
    (
        lambda: Controller(Toy, fits, sources=[fits]),
        r"Source 'fits': start= fits is an `async def` that yields",
    ),
    (lambda: Controller(Toy, fits, sources=[of_two]), r"of_two is an `async def` that yields nothing"),
    (lambda: Controller(Toy, fits, sources=[5]), r"expected a function of \(context\), got int"),  # type: ignore[list-item]
    (lambda: Watch(Secret, by=fits), r"Watch\(Secret\): by= fits is an `async def`"),
    (lambda: Watch(Secret, by=yields), r"by= yields is an asynchronous generator"),
    (lambda: Watch(Secret, by=plain_of_two), r"by= is called with \(object\), and plain_of_two\(old, new\)"),
    (lambda: Watch(Secret, by="name"), r"by= expected a function of \(object\), got str"),  # type: ignore[arg-type]
    (lambda: Watch(Secret, by_labels=fits), r"by_labels= fits is an `async def`"),
    (lambda: Watch(Secret, by_labels=yields_plainly), r"by_labels= yields_plainly is a generator"),
    (lambda: Watch(Secret, to=fits), r"to= fits is an `async def`"),
    (lambda: Watch(Secret, to=plain_of_two), r"to= is called with \(object\)"),
    (lambda: Watch(Secret, to=plain, wakes=fits), r"fits is an `async def`"),
    (lambda: predicates.generation & plain, r"is called with \(old, new\), and plain\(obj\)"),
    (lambda: Manager(liveness={"odd": fits}), r"the health check 'odd' fits is an `async def`"),
    (lambda: Manager(readiness={"odd": plain}), r"the health check 'odd' is called with \(\), and plain"),
    (lambda: InformerOptions(transform=fits), r"InformerOptions: transform= fits is an `async def`"),
    (lambda: InformerOptions(transform=plain_of_two), r"transform= is called with \(object\)"),
]


@pytest.mark.rule("survival-functions")
@pytest.mark.parametrize(("give", "message"), WRONG, ids=[message for _, message in WRONG])
def test_a_function_with_the_wrong_signature_is_refused_on_construction(
    give: Callable[[], Any], message: str
) -> None:
    with pytest.raises(TypeError, match=message) as caught:
        give()
    assert not re.search(r"<function|0x[0-9a-f]{6}", str(caught.value))


class Callables:
    """Ways to give a function that are none of `def`."""

    async def method(self, ctx: Any) -> None:
        """A method."""

    async def __call__(self, ctx: Any) -> None:
        """An object that is called."""


def test_a_function_that_might_fit_is_accepted() -> None:
    @functools.wraps(of_two)
    async def injected(*given: Any) -> None:
        await of_two(*given, 5)

    def decorated(function: Any) -> Any:
        @functools.wraps(function)
        async def wrapper(ctx: Any) -> None:
            await function(ctx, 5)

        return wrapper

    for function in (
        functools.partial(of_two, other=5),
        Callables().method,
        Callables(),
        injected,
        decorated(of_two),
        functools.partial(Callables().method),
    ):
        Controller(Toy, function, cleanup=function, on_deleted=function, background=function)
    Watch(Secret, by=str)
    Watch(Secret, by=yields_plainly)
    Watch(Secret, to=yields_plainly)
    Watch(Secret, by=functools.partial(plain_of_two, 1))
    Watch(Secret, by_labels=lambda toy, team=None: LabelSelector())
    Controller(Toy, fits, wakes=max)


@pytest.mark.rule("survival-functions")
@pytest.mark.parametrize("result", [True, 5, {"after": 5}, "soon"])
@pytest.mark.parametrize("blocking", [False, True])
@in_world(played)
async def test_an_invalid_result_fails_the_run_for_good_and_names_the_function(
    world: World, result: Any, blocking: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def keep_wrongly(ctx: Context[Toy]) -> Any:
        return result

    def keep_wrongly_in_a_thread(ctx: Any) -> Any:
        return result

    await world.make()
    async with world.running(Controller(Toy, keep_wrongly_in_a_thread if blocking else keep_wrongly)):
        await anyio.sleep(5)
    errors = [
        vars(record)["error"]
        for record in caplog.records
        if getattr(record, "event", "") == "failed for good"
    ]
    (error,) = errors
    assert re.search(r"keep_wrongly\w* returned (bool|int|dict|str): expected a Result or None", error)


async def test_run_sync_refuses_an_async_function() -> None:
    async def call_wrongly(ctx: Context[Any]) -> None:
        await ctx.run_sync(fits, ctx)

    toy = ConfigMap(metadata=ObjectMeta("a", "default"))
    done = await run_once(Controller(ConfigMap, call_wrongly), toy, FakeClient(toy))
    assert "run_sync: fits is an `async def`" in str(done.error)
