"""Admission of writes and conversion between versions: what authors declare, and the webhooks that serve it.

`Admission` goes into `Controller(admission=)`, `converts` decorates a function from one version to another.
"""

from typing import TYPE_CHECKING

from informers.lazy_face import on_demand

if TYPE_CHECKING:
    from reconcile.controller.admission import Admission, AdmissionRequest, Refusal, UserInfo, Warn
    from reconcile.models.conversions import ConversionError, converts

__all__ = [
    "Admission",
    "AdmissionRequest",
    "ConversionError",
    "Refusal",
    "UserInfo",
    "Warn",
    "converts",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = on_demand(__name__)
