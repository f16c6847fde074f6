"""What is applied: an object that was built for it, in a type of its own, so that nothing else can be."""

from collections.abc import Callable
from typing import Generic, ParamSpec, TypeVar

from attrs import field, frozen

from reconcile.models.objects import Object

P = ParamSpec("P")
O_co = TypeVar("O_co", bound=Object, covariant=True)


@frozen(init=False)
class Intent(Generic[O_co]):
    """What an object shall have: `Intent(ConfigMap, metadata=ObjectMeta("a"), data={"k": "v"})`.

    Made of a class and its fields (or of a function that builds the object and its arguments), and not of
    an object: to apply what was read would claim the fields of every other writer. A type checker says so at
    the call, and sees each field as it does in `ConfigMap(...)`. Raises what `model` raises.
    """

    object: O_co = field(init=False)

    def __init__(self, model: Callable[P, O_co], /, *args: P.args, **fields: P.kwargs) -> None:
        object.__setattr__(self, "object", model(*args, **fields))
