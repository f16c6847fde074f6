"""Functions between the versions of a kind, and the ways from one version to another."""

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeVar

import attrs

from reconcile.models.objects import Object, kind_of

Source = TypeVar("Source", bound=Object)
Target = TypeVar("Target", bound=Object)
Conversion = Callable[[Any], Any]

_FUNCTIONS: Final[dict[tuple[type[Object], type[Object]], Conversion]] = {}


class ConversionError(ValueError):
    """An object that cannot be converted; the text names the versions and the problem."""


def converts(
    source: type[Source], target: type[Target]
) -> Callable[[Callable[[Source], Target]], Callable[[Source], Target]]:
    """Declare a pure function that makes an object of one version of a kind from an object of another.

    Neighbours need one function each way; between other versions the functions are chained. The metadata of
    what the function returns is ignored, since a conversion cannot change it. What the target has no field
    for is kept by the library, and put back by the conversion in the other direction; the function does not
    need to care.

    Raises TypeError unless both are versions of one kind, and for a second function between them.
    """
    mine, its = kind_of(source).resource, kind_of(target).resource
    if source is target or attrs.evolve(mine, version="") != attrs.evolve(its, version=""):
        raise TypeError(
            f"@converts({source.__name__}, {target.__name__}): {mine} and {its} are not two versions of one "
            "kind: group, kind, plural and scope must be equal, and the versions must differ"
        )

    def declare(function: Callable[[Source], Target]) -> Callable[[Source], Target]:
        known = _FUNCTIONS.setdefault((source, target), function)
        if known is not function:
            raise TypeError(f"@converts({source.__name__}, {target.__name__}) was given to two functions")
        _way.cache_clear()
        return function

    return declare


@functools.lru_cache(maxsize=256)
def _way(source: type[Any], target: type[Any]) -> Sequence[tuple[type[Any], Conversion]]:
    ways: dict[type[Any], tuple[tuple[type[Any], Conversion], ...]] = {source: ()}
    pending = [source]
    for here in pending:
        for (start, end), function in _FUNCTIONS.items():
            if start is here and end not in ways:
                ways[end] = (*ways[here], (end, function))
                pending.append(end)
    if target not in ways:
        raise ConversionError(
            f"no function converts {kind_of(source).resource} to {kind_of(target).resource}: "
            f"declare one with @converts({source.__name__}, {target.__name__})"
        )
    return ways[target]


def way(source: type[Object], target: type[Object]) -> Sequence[tuple[type[Any], Conversion]]:
    """The classes on the shortest way, each with the function that leads to it; empty if they are one.

    Raises ConversionError if functions are missing.
    """
    models: tuple[Any, Any] = (source, target)
    return _way(*models)


def converted(obj: Object, target: type[Target]) -> Target:
    """The object in another version, by the functions on the way; the metadata stays.

    Raises ConversionError if a function is missing, raises, or returns an object of another class.
    """
    here: Any = obj
    for step, function in way(type(obj), target):
        try:
            result = function(here)
        except (Exception, SystemExit) as error:
            where = f"{kind_of(here).resource.version} to {kind_of(step).resource.version}"
            raise ConversionError(f"the conversion from {where} raised {type(error).__name__}") from error
        if type(result) is not step:
            got = type(result).__name__
            raise ConversionError(f"the conversion to {step.__name__} returned an object of {got}")
        here = attrs.evolve(result, metadata=obj.metadata)
    assert isinstance(here, target)
    return here


def are_convertible(versions: Iterable[type[Object]]) -> bool:
    """Whether functions lead from each of the versions to every other one.

    Raises TypeError if there are functions, and some are missing.
    """
    versions = list(versions)
    if not any(source in versions for source, _ in _FUNCTIONS):
        return False
    for source in versions:
        for target in versions:
            try:
                way(source, target)
            except ConversionError as error:
                raise TypeError(str(error)) from None
    return True
