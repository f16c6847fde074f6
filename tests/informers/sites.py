"""A custom resource for tests."""

from attrs import frozen

from reconcile import Object, resource
from reconcile.models import kind_of


@frozen
class SiteSpec:
    replicas: int = 1


@resource("example.com/v1")
class Site(Object):
    spec: SiteSpec = SiteSpec()


SITES = kind_of(Site).resource
