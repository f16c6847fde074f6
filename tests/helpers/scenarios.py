"""Turns a scenario into a test: an async function that is played in a world, in virtual time."""

import functools
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

Scenario: TypeAlias = Callable[..., Awaitable[None]]


def in_world(play: Callable[..., None]) -> Callable[[Scenario], Callable[..., None]]:
    """`play` calls a scenario with its world, the first parameter; a parameter `seed` goes to both."""

    def decorate(scenario: Scenario) -> Callable[..., None]:
        @functools.wraps(scenario)
        def test(**arguments: Any) -> None:
            seed = {"seed": arguments["seed"]} if "seed" in arguments else {}
            play(lambda world: scenario(world, **arguments), **seed)

        signature = inspect.signature(scenario)
        _, *parameters = signature.parameters.values()
        del test.__wrapped__  # type: ignore[attr-defined]
        test.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        return test

    return decorate
