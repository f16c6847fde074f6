"""Bodies of workloads, and what the server says of changed ones."""

from copy import deepcopy
from typing import Any

from tests.embedded.api_client import Api

ABSENT = object()
"""As a value of `edited`: the field is taken out."""

LABELS = {"app": "web"}
POD: dict[str, Any] = {"containers": [{"name": "main", "image": "img:1"}]}
TEMPLATE: dict[str, Any] = {"metadata": {"labels": LABELS}, "spec": POD}
ENDING: dict[str, Any] = {"spec": {**POD, "restartPolicy": "Never"}}
SPECS: dict[str, dict[str, Any]] = {
    "deployments": {"selector": {"matchLabels": LABELS}, "template": TEMPLATE},
    "replicasets": {"selector": {"matchLabels": LABELS}, "template": TEMPLATE},
    "daemonsets": {"selector": {"matchLabels": LABELS}, "template": TEMPLATE},
    "statefulsets": {"selector": {"matchLabels": LABELS}, "template": TEMPLATE, "serviceName": "web"},
    "replicationcontrollers": {"selector": LABELS, "template": TEMPLATE},
    "jobs": {"template": ENDING},
    "cronjobs": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": ENDING}}},
}
_GROUPS = {"jobs": "/apis/batch/v1", "cronjobs": "/apis/batch/v1", "replicationcontrollers": "/api/v1"}


def path_of(plural: str) -> str:
    return f"{_GROUPS.get(plural, '/apis/apps/v1')}/namespaces/default/{plural}"


def body(plural: str, changes: dict[str, Any] | None = None, name: str = "a") -> dict[str, Any]:
    """A small valid workload, changed at paths such as `spec.template.metadata`."""
    metadata = {"name": name, "labels": {"l": "1"}}
    return edited({"metadata": metadata, "spec": SPECS[plural]}, changes or {})


def edited(obj: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    copy = deepcopy(obj)
    for path, value in changes.items():
        *steps, last = path.split(".")
        place = copy
        for step in steps:
            place = place.setdefault(step, {})
        if value is ABSENT:
            place.pop(last, None)
        else:
            place[last] = value
    return copy


def causes_of_create(api: Api, plural: str, changes: dict[str, Any]) -> list[str]:
    """`Reason field` of each cause for which it is refused, sorted; none if it is created."""
    return _causes(api.send("POST", path_of(plural), body(plural, changes)))


def causes_of_change(api: Api, plural: str, first: dict[str, Any], changes: dict[str, Any]) -> list[str]:
    """The same for a change to one that was made with `first`; a change of `status` goes to its endpoint."""
    made = api.ok("POST", path_of(plural), body(plural, first))
    return _causes(_put(api, plural, made, changes))


def causes_of_status(
    api: Api, plural: str, first: dict[str, Any], status: Any, *, spec: dict[str, Any] | None = None
) -> list[str]:
    """The same for a new status, of a workload that had the status `first`."""
    api.ok("POST", path_of(plural), body(plural, spec))
    path = f"{path_of(plural)}/a/status"
    made = api.merge(path, {"status": first})
    return _causes(api.send("PUT", path, {**made, "status": status}))


def _put(api: Api, plural: str, made: dict[str, Any], changes: dict[str, Any]) -> Any:
    return api.send("PUT", f"{path_of(plural)}/{made['metadata']['name']}", edited(made, changes))


def _causes(answer: Any) -> list[str]:
    if answer.status < 400:
        return []
    assert answer.status == 422, answer.body
    return sorted(f"{reason.removeprefix('FieldValue')} {field}" for reason, field in answer.causes)
