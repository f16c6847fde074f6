"""The operator that has taken the gadgets over from one on kopf; `reconcile adopt kopf back` reads it."""

from reconcile import Context, Controller, Manager, Object, Predecessor, resource
from tests.adoption.kopf_objects import GROUP


@resource(f"{GROUP}/v1")
class Gadget(Object):
    """A gadget, of which only the metadata is read."""


async def keep(ctx: Context[Gadget]) -> None: ...


async def leave(ctx: Context[Gadget]) -> None: ...


gadgets = Controller(Gadget, keep, cleanup=leave, predecessor=Predecessor.kopf("gadgets on kopf"))
manager = Manager(gadgets, name="gadgets")
