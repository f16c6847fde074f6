"""The type of what is applied, so that nothing else can be."""

from collections.abc import Callable
from typing import Generic, ParamSpec, TypeVar

from attrs import field, frozen

from reconcile.models.objects import Object

P = ParamSpec("P")
O_co = TypeVar("O_co", bound=Object, covariant=True)


@frozen(init=False)
class Intent(Generic[O_co]):
    """A desired object: `Intent(ConfigMap, metadata=ObjectMeta("a"), data={"k": "v"})`.

    It takes a class and its fields (or a function that builds the object, and its arguments), but no object:
    applying what was read would claim the fields of every other writer. Type checkers report that, and check
    each field as in `ConfigMap(...)`. Raises what `model` raises.
    """

    object: O_co = field(init=False)

    def __init__(self, model: Callable[P, O_co], /, *args: P.args, **fields: P.kwargs) -> None:
        object.__setattr__(self, "object", model(*args, **fields))
