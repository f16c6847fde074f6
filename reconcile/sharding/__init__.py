"""One operator on many replicas: each works on some of the objects, and takes over those of one that ends.

`Sharding` goes into `Manager(sharding=)`.
"""

from typing import TYPE_CHECKING

from informers.lazy_face import on_demand

if TYPE_CHECKING:
    from reconcile.sharding.options import Sharding

__all__ = ["Sharding"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = on_demand(__name__)
