"""Controllers as most clusters run them: without the webhooks that would refuse what they report."""

from typing import Any

from attrs import evolve

from reconcile import Controller


def without_admission(controller: Controller[Any]) -> Controller[Any]:
    """The same controller for objects that were stored without a webhook, or before there was one."""
    return evolve(controller, admission=())
