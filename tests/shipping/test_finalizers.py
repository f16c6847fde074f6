"""Finalizers are written into manifests, and their operators found again."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from sites import Site

from reconcile import Controller
from reconcile.kinds import ConfigMap, Deployment
from reconcile.shipping.finalizers import Owner, annotated, held_by, held_of, owners_of_finalizers


async def keep(ctx: Any) -> None: ...


def object_of(name: str, **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, **metadata}}


CONTROLLERS = (
    Controller(Site, keep, cleanup=keep, former_finalizers=("kopf.zalando.org/KopfFinalizerMarker",)),
    Controller(Deployment, keep, cleanup=keep, operator="shop.example.com"),
    Controller(ConfigMap, keep, cleanup=keep, operator="shop.example.com", finalizer="shop.example.com/hold"),
)


def test_what_is_written_is_read_again() -> None:
    held = held_by(CONTROLLERS)
    assert len(held) == 4
    assert {*held_of(annotated(object_of("shop"), held))} == {*held}
    assert {one.resource for one in held} == {"sites.example.com", "deployments.apps", "configmaps"}


def test_an_object_without_finalizers_gets_no_annotation() -> None:
    assert annotated(object_of("shop"), held_by([Controller(Site, keep)])) == object_of("shop")


@given(st.text())
def test_any_annotation_is_read(text: str) -> None:
    for held in held_of(object_of("x", annotations={"reconcile-runtime/finalizers": text})):
        assert str(held) in text


def test_a_finalizer_belongs_to_the_operator_of_a_deployment_or_to_one_that_is_gone() -> None:
    held = [one for one in held_by(CONTROLLERS) if one.resource == "sites.example.com"]
    labels = {"app.kubernetes.io/name": "shop"}
    definition = annotated(object_of("sites.example.com", labels=labels), held)
    deployment = annotated(object_of("shop", namespace="shop-system", labels=labels), held)
    at = ("sites.example.com", "example.com/site")
    gone = owners_of_finalizers([definition], [])[at]
    assert (gone, gone.is_gone, str(gone)) == (Owner("shop"), True, "shop, which is gone")
    owner = owners_of_finalizers([definition], [deployment])[at]
    assert (owner, owner.is_gone) == (Owner("shop", "shop-system"), False)
