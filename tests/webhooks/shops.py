"""A kind with three versions, between which functions of an author convert."""

from typing import Any

import msgspec
from attrs import frozen

from reconcile import Object, resource
from reconcile.webhooks import converts
from reconcile.webhooks.object_conversion import VersionedKind

GROUP = "shop.example.com"


@frozen
class PortV1:
    number: int = 0
    protocol: str = "TCP"


@frozen
class ShopSpecV1:
    replicas: int = 1
    color: str | None = None
    ports: tuple[PortV1, ...] = ()
    tier: str = "silver"


@resource(f"{GROUP}/v1", kind="Shop")
class Shop(Object):
    spec: ShopSpecV1 = ShopSpecV1()


@frozen
class ShopSpecBeta:
    size: int = 1
    ports: tuple[int, ...] = ()
    motto: str | None = None


@resource(f"{GROUP}/v1beta1", kind="Shop")
class ShopBeta(Object):
    spec: ShopSpecBeta = ShopSpecBeta()


@frozen
class ShopSpecAlpha:
    count: int = 1


@resource(f"{GROUP}/v1alpha1", kind="Shop")
class ShopAlpha(Object):
    spec: ShopSpecAlpha = ShopSpecAlpha()


@converts(ShopAlpha, ShopBeta)
def alpha_up(old: ShopAlpha) -> ShopBeta:
    return ShopBeta(spec=ShopSpecBeta(size=old.spec.count))


@converts(ShopBeta, ShopAlpha)
def beta_down(new: ShopBeta) -> ShopAlpha:
    return ShopAlpha(spec=ShopSpecAlpha(count=new.spec.size))


@converts(ShopBeta, Shop)
def beta_up(old: ShopBeta) -> Shop:
    ports = tuple(PortV1(number) for number in old.spec.ports)
    return Shop(spec=ShopSpecV1(replicas=old.spec.size, ports=ports))


@converts(Shop, ShopBeta)
def v1_down(new: Shop) -> ShopBeta:
    return ShopBeta(spec=ShopSpecBeta(new.spec.replicas, tuple(port.number for port in new.spec.ports)))


SHOPS = VersionedKind([Shop, ShopBeta, ShopAlpha])
V1, BETA, ALPHA = (f"{GROUP}/{version}" for version in ("v1", "v1beta1", "v1alpha1"))
KEPT = f"{GROUP}/kept-fields"


def shop(api_version: str, spec: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    named = {"name": "a", "namespace": "default", "uid": "1", **metadata}
    return {"apiVersion": api_version, "kind": "Shop", "metadata": named, "spec": spec}


def conversion_review(*objects: Any, desired: str = V1) -> bytes:
    request = {"uid": "u-1", "desiredAPIVersion": desired, "objects": objects}
    head = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview"}
    return msgspec.json.encode({**head, "request": request})
