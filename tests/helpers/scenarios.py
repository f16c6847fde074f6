"""Turns a scenario into a test: an async function that is played in a world, in virtual time."""

import functools
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from reconcile.testing import simulate

Scenario: TypeAlias = Callable[..., Awaitable[None]]


def in_world(play: Callable[..., None], parts: int = 1) -> Callable[[Scenario], Callable[..., None]]:
    """`play` calls a scenario with the `parts` of its world, which come first; a `seed` goes to both."""

    def decorate(scenario: Scenario) -> Callable[..., None]:
        def test(arguments: dict[str, Any]) -> None:
            seed = {"seed": arguments["seed"]} if "seed" in arguments else {}
            play(lambda *world: scenario(*world, **arguments), **seed)

        return _test_of(scenario, test, parts)

    return decorate


def simulated(scenario: Scenario) -> Callable[..., None]:
    """A scenario in virtual time, without a world; a parameter `seed` is that of the schedule too."""

    def test(arguments: dict[str, Any]) -> None:
        simulate(lambda: scenario(**arguments), seed=arguments.get("seed", 0))

    return _test_of(scenario, test, parts=0)


def _test_of(scenario: Scenario, run: Callable[[dict[str, Any]], None], parts: int) -> Callable[..., None]:
    """The test under the name of its scenario, with the parameters that pytest and Hypothesis are to give."""
    signature = inspect.signature(scenario)
    signature = signature.replace(parameters=[*signature.parameters.values()][parts:])

    @functools.wraps(scenario)
    def test(*values: Any, **named: Any) -> None:
        run(signature.bind(*values, **named).arguments)

    del test.__wrapped__  # type: ignore[attr-defined]
    test.__signature__ = signature  # type: ignore[attr-defined]
    return test
