"""An operator with webhooks: a kind of three versions, defaults and refusals."""

from collections.abc import Iterator

from attrs import evolve

from reconcile import Context, Controller, Intent, ObjectMeta
from reconcile.kinds import ConfigMap
from reconcile.webhooks import Admission, AdmissionRequest, Refusal, Warn
from tests.webhooks.shops import Shop, ShopSpecV1


def fill_color(shop: Shop, request: AdmissionRequest) -> Shop:
    if shop.spec.color is not None:
        return shop
    return evolve(shop, spec=evolve(shop.spec, color="red"))


def check_shop(shop: Shop, old: Shop | None, request: AdmissionRequest) -> Iterator[Refusal | Warn]:
    if shop.spec.replicas < 0:
        yield Refusal("must not be negative", "spec.replicas")
    if old is not None and old.spec.tier != shop.spec.tier:
        yield Refusal("cannot be changed", "spec.tier")
    if shop.spec.tier == "bronze":
        yield Warn("bronze shops close next year")


ADMISSION = Admission(Shop, defaults=fill_color, refuses=check_shop)


async def keep_shop(ctx: Context[Shop]) -> None:
    data = {"color": ctx.object.spec.color or "none", "replicas": str(ctx.object.spec.replicas)}
    await ctx.apply(Intent(ConfigMap, metadata=ObjectMeta(ctx.object.name), data=data))


def shops() -> Controller[Shop]:
    return Controller(Shop, keep_shop, owns=[ConfigMap], admission=ADMISSION)


def a_shop(name: str = "corner", **spec: object) -> Shop:
    return Shop(metadata=ObjectMeta(name, "default"), spec=ShopSpecV1(**spec))  # type: ignore[arg-type]
