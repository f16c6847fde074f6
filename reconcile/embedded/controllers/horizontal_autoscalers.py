"""HorizontalPodAutoscalers, with the status of a real controller that finds no metrics API.

It keeps targets between `minReplicas` and `maxReplicas`, and gives the reason why it does no more.
"""

from collections.abc import Coroutine, Mapping
from typing import Any, Final

import msgspec

from informers.transport import Response
from reconcile.embedded.admission.chain import finished
from reconcile.embedded.api import ApiRequest, RequestTarget
from reconcile.embedded.engine import Engine
from reconcile.embedded.kinds.custom_definitions import set_condition
from reconcile.embedded.log import StorageKey, Stored, StoredChange
from reconcile.embedded.protocol.api_failure import ApiFailure
from reconcile.embedded.stored_forms import object_in
from reconcile.embedded.verbs.subresources import get_scale, put_scale

AUTOSCALERS: Final[StorageKey] = ("autoscaling", "horizontalpodautoscalers")

_NO_METRICS: Final = "the server could not find the requested resource"
_MANAGER: Final = "kube-controller-manager"


class Autoscalers:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.dirty = False
        """Whether `sync` has anything to do."""
        engine.log.on_change(self._note)

    def _note(self, change: StoredChange) -> None:
        if self._engine.log.count(AUTOSCALERS):
            self.dirty = True

    def sync(self) -> None:
        if not self.dirty:
            return
        newest = self._engine.registry.by_kind("autoscaling", "HorizontalPodAutoscaler", "v2")
        for stored in self._engine.log.snapshot(AUTOSCALERS) if newest is not None else ():
            assert newest is not None
            autoscaler = object_in(stored, newest)
            status = _Evaluation(self._engine, autoscaler).status()
            if autoscaler.get("status") != status and self._is_current(stored):
                self._engine.put_if_it_fits(newest, {**autoscaler, "status": status})
        # Also after changes made here: two autoscalers of one target would keep each other busy.
        self.dirty = False

    def _is_current(self, stored: Stored) -> bool:
        now = self._engine.log.get(AUTOSCALERS, stored.key)
        return now is not None and now.version == stored.version


class _Evaluation:
    def __init__(self, engine: Engine, autoscaler: dict[str, Any]) -> None:
        self._engine = engine
        self._spec: dict[str, Any] = autoscaler["spec"]
        self._namespace = autoscaler["metadata"]["namespace"]
        self._status: dict[str, Any] = dict(autoscaler.get("status") or {})
        conditions = self._status.get("conditions") or ()
        self._conditions = {one["type"]: dict(one) for one in conditions if one and one.get("type")}

    def status(self) -> dict[str, Any]:
        """The new status. Scales the target if it is out of bounds."""
        try:
            target = self._target()
            scale = self._scale(get_scale, target, "GET")
        except ApiFailure as failure:
            why = "the HPA controller was unable to get the target's current scale"
            self._set("AbleToScale", "False", "FailedGetScale", f"{why}: {failure.message}")
        else:
            self._judge(target, scale)
        return {**self._status, "conditions": list(self._conditions.values())}

    def _judge(self, target: RequestTarget, scale: dict[str, Any]) -> None:
        why = "the HPA controller was able to get the target's current scale"
        self._set("AbleToScale", "True", "SucceededGetScale", why)
        now = (scale.get("spec") or {}).get("replicas") or 0
        least, most = self._spec.get("minReplicas") or 1, self._spec["maxReplicas"]
        self._status["currentReplicas"] = now
        if now == 0:
            why = "scaling is disabled since the replica count of the target is zero"
            self._set("ScalingActive", "False", "ScalingDisabled", why)
            self._status["desiredReplicas"] = 0
        elif not least <= now <= most:
            self._rescale(target, scale, max(least, min(now, most)))
        elif not (scale.get("status") or {}).get("selector"):
            why = "the HPA target's scale is missing a selector"
            self._set("ScalingActive", "False", "InvalidSelector", why)
        else:
            self._set("ScalingActive", "False", *_no_metric((self._spec.get("metrics") or [{}])[0]))

    def _rescale(self, target: RequestTarget, scale: dict[str, Any], replicas: int) -> None:
        try:
            self._scale(put_scale, target, "PUT", {**scale, "spec": {"replicas": replicas}})
        except ApiFailure as failure:
            why = f"the HPA controller was unable to update the target scale: {failure.message}"
            self._set("AbleToScale", "False", "FailedUpdateScale", why)
            return
        why = f"the HPA controller was able to update the target scale to {replicas}"
        self._set("AbleToScale", "True", "SucceededRescale", why)
        self._status |= {"desiredReplicas": replicas, "lastScaleTime": self._engine.now()}

    def _target(self) -> RequestTarget:
        reference = self._spec["scaleTargetRef"]
        group, _, version = (reference.get("apiVersion") or "").rpartition("/")
        resource = self._engine.registry.by_kind(group, reference["kind"], version)
        if resource is None:
            raise ApiFailure(404, "NotFound", f'no matches for kind "{reference["kind"]}" in group "{group}"')
        if resource.scale is None:
            raise ApiFailure(404, "NotFound", _NO_METRICS)
        namespace = self._namespace if resource.namespaced else ""
        return RequestTarget(resource, namespace, reference["name"], "scale")

    def _scale(self, verb: Any, target: RequestTarget, method: str, body: Any = None) -> dict[str, Any]:
        headers = {"content-type": "application/json", "user-agent": _MANAGER}
        encoded = b"" if body is None else msgspec.json.encode(body)
        answer: Response | Coroutine[Any, Any, Response]
        answer = verb(self._engine, ApiRequest(method, "", {}, headers, encoded), target)
        response = answer if isinstance(answer, Response) else finished(answer)
        scale: dict[str, Any] = msgspec.json.decode(response.body)
        return scale

    def _set(self, kind: str, value: str, reason: str, message: str) -> None:
        set_condition(self._conditions, kind, value, reason, message, self._engine.now())


def _no_metric(metric: Mapping[str, Any]) -> tuple[str, str]:
    """The reason and the message for a metric that no API serves."""
    kind = metric.get("type") or "Resource"
    name = (metric.get("resource") or {}).get("name", "cpu")
    what = f"{name} resource metric" if kind == "Resource" else f"{kind} metric"
    api = {"Resource": "resource", "ContainerResource": "resource", "External": "external"}
    why = (
        f"the HPA was unable to compute the replica count: failed to get {what} value: "
        f"unable to fetch metrics from {api.get(kind, 'custom')} metrics API: {_NO_METRICS}"
    )
    return f"FailedGet{kind}Metric", why
