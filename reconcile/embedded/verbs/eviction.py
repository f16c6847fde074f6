"""Evictions, as far as PodDisruptionBudgets allow them."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attrs import evolve
from msgspec.structs import replace

from informers.apimachinery.label_selectors import matches_labels, requirements_of, selector_matches
from informers.resource import Key
from informers.transport import Response
from reconcile.embedded.admission.attributes import Kind
from reconcile.embedded.api import ApiRequest, RequestTarget
from reconcile.embedded.engine import Engine
from reconcile.embedded.log import StorageKey
from reconcile.embedded.protocol.api_failure import ApiFailure, FieldCause
from reconcile.embedded.refusals import bad_request, bare_server_error
from reconcile.embedded.stored_forms import encode, object_in
from reconcile.embedded.verbs.admitting import admit_request
from reconcile.embedded.verbs.bodies import read_kind, write_options
from reconcile.embedded.verbs.deletion import delete_options, remove
from reconcile.embedded.verbs.object_selection import require
from reconcile.embedded.verbs.rendering import SUCCESS, json_response

BUDGETS: StorageKey = ("policy", "poddisruptionbudgets")
PODS: StorageKey = ("", "pods")

# canIgnorePDB in kube-apiserver's eviction.go.
_FREE_PHASES = frozenset({"Succeeded", "Failed", "Pending"})

Object = Mapping[str, Any]


# --- the status -------------------------------------------------------------------------------


def budget_status(budget: Object, pods: Sequence[Object], scale: int, now: str) -> dict[str, Any]:
    """The status of a budget that selects `pods`; their owners want `scale` pods."""
    spec, metadata = budget.get("spec") or {}, budget["metadata"]
    expected, desired = _demand(spec, len(pods), scale)
    healthy = sum(is_ready(pod) and not pod["metadata"].get("deletionTimestamp") for pod in pods)
    allowed = max(0, healthy - desired) if expected > 0 else 0
    condition = {
        "type": "DisruptionAllowed",
        "status": "True" if allowed else "False",
        "reason": "SufficientPods" if allowed else "InsufficientPods",
        "observedGeneration": metadata.get("generation", 1),
        "message": "",
    }
    before = (budget.get("status") or {}).get("conditions") or [{}]
    same = before[0].get("status") == condition["status"]
    condition["lastTransitionTime"] = before[0].get("lastTransitionTime", now) if same else now
    return {
        "conditions": [condition],
        "currentHealthy": healthy,
        "desiredHealthy": desired,
        "disruptionsAllowed": allowed,
        "expectedPods": expected,
        "observedGeneration": metadata.get("generation", 1),
    }


def _demand(spec: Object, count: int, scale: int) -> tuple[int, int]:
    """The expected pods, and how many of them must be healthy."""
    least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
    if most is not None:
        return scale, max(0, scale - _amount(most, scale))
    if isinstance(least, str):
        return scale, _amount(least, scale)
    return count, least if isinstance(least, int) else 0


def _amount(value: int | str, total: int) -> int:
    if isinstance(value, int):
        return value
    percent = int(value.removesuffix("%").lstrip("0") or "0")  # at most 100, behind any number of zeros
    return math.ceil(percent * total / 100)


def is_ready(pod: Object) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)


def current_status(engine: Engine, budget: Object) -> dict[str, Any]:
    pods = list(_selected(engine, budget))
    return budget_status(budget, pods, _scale_of_owners(engine, pods), engine.now())


def _selected(engine: Engine, budget: Object) -> Iterator[dict[str, Any]]:
    namespace = budget["metadata"]["namespace"]
    selector = (budget.get("spec") or {}).get("selector")
    if selector is None:
        return
    try:
        requirements = requirements_of(selector)
    except ValueError:
        return  # a selector that an API server would refuse chooses nothing
    for stored in engine.log.snapshot(PODS):
        if stored.key.namespace == namespace and matches_labels(requirements, stored.labels):
            yield stored.decode()


def _scale_of_owners(engine: Engine, pods: Sequence[Object]) -> int:
    """The replicas that the controllers of these pods specify together."""
    found: dict[str, int] = {}
    for pod in pods:
        owner = _top_owner(engine, pod)
        if owner is not None:
            replicas = (owner.get("spec") or {}).get("replicas")
            found[owner["metadata"]["uid"]] = replicas if isinstance(replicas, int) else 0
    return sum(found.values())


def _top_owner(engine: Engine, obj: Object) -> dict[str, Any] | None:
    """The topmost controller of an object: a Deployment rather than its ReplicaSet."""
    owner: dict[str, Any] | None = None
    reference = _controller_of(obj)
    while reference is not None:
        group, _, _ = reference["apiVersion"].rpartition("/")
        resource = engine.registry.by_kind(group, reference["kind"])
        if resource is None:
            break
        stored = engine.log.get(resource.storage_key, Key(obj["metadata"]["namespace"], reference["name"]))
        if stored is None or stored.uid != reference["uid"]:
            break
        owner = stored.decode()
        reference = _controller_of(owner)
    return owner


def _controller_of(obj: Object) -> dict[str, Any] | None:
    references = obj["metadata"].get("ownerReferences") or ()
    return next((one for one in references if one.get("controller")), None)


# --- eviction ---------------------------------------------------------------------------------


async def evict(engine: Engine, request: ApiRequest, target: RequestTarget) -> Response:
    """POST pods/NAME/eviction: delete the pod, or answer 429 if that would violate a budget."""
    write_options(request, "CreateOptions")
    eviction = read_kind(request, "Eviction")
    metadata = eviction.get("metadata") or {}
    if not isinstance(metadata, dict):
        raise bad_request("json: cannot unmarshal metadata: expected an object")
    name = metadata.get("name") or target.name
    if name != target.name:
        raise bad_request("name in URL does not match name in Eviction object")
    kind = Kind("policy", "v1", "Eviction")
    shown = {"kind": "Eviction", "apiVersion": kind.api_version, **eviction}
    shown["metadata"] = {**metadata, "name": name, "namespace": target.namespace}
    eviction = await admit_request(engine, request, target, "CREATE", kind, shown)
    body = encode(eviction["deleteOptions"]) if eviction.get("deleteOptions") else b""
    options = delete_options(replace(request, body=body))
    stored = require(engine, target)
    pod = object_in(stored, target.resource)
    ended = (pod.get("status") or {}).get("phase") in _FREE_PHASES
    if not ended and not stored.deleting:
        _require_budget(engine, target, pod)
    remove(engine, target.resource, stored, evolve(options, uid=options.uid or stored.uid))
    return json_response(201, {**SUCCESS, "code": 201})


def _require_budget(engine: Engine, target: RequestTarget, pod: Object) -> None:
    labels = pod["metadata"].get("labels") or {}
    budgets = [
        budget
        for stored in engine.log.snapshot(BUDGETS)
        if stored.key.namespace == target.namespace
        and selector_matches(((budget := stored.decode()).get("spec") or {}).get("selector") or {}, labels)
    ]
    if not budgets:
        return
    if len(budgets) > 1:
        raise bare_server_error(
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        )
    status = current_status(engine, budgets[0])
    if status["disruptionsAllowed"] > 0 or _may_go_unready(pod, budgets[0], status):
        return
    raise _over_budget(budgets[0]["metadata"]["name"], status)


def _may_go_unready(pod: Object, budget: Object, status: Object) -> bool:
    if is_ready(pod):
        return False
    if (budget.get("spec") or {}).get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    return bool(0 < status["desiredHealthy"] <= status["currentHealthy"])


def _over_budget(name: str, status: Object) -> ApiFailure:
    message = "Cannot evict pod as it would violate the pod's disruption budget."
    why = (
        f"The disruption budget {name} needs {status['desiredHealthy']} healthy pods and has "
        f"{status['currentHealthy']} currently"
    )
    return ApiFailure(429, "TooManyRequests", message, {}, [FieldCause("DisruptionBudget", why)])
