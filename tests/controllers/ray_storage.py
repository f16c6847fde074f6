"""RayClusters with their state in Redis."""

from typing import Any

from reconcile import Client
from reconcile.kinds import Job


async def end_job(client: Client, job: Job, how: str) -> None:
    now = "2026-01-01T00:00:00Z"
    conditions: list[dict[str, str]] = [{"type": how, "status": "True", "lastTransitionTime": now}]
    status: dict[str, Any] = {"conditions": conditions, "startTime": now}
    if how == "Complete":
        conditions.insert(0, {"type": "SuccessCriteriaMet", "status": "True", "lastTransitionTime": now})
        status |= {"completionTime": now, "succeeded": 1}
    else:
        conditions.insert(0, {"type": "FailureTarget", "status": "True", "lastTransitionTime": now})
        status |= {"failed": 1}
    await client.raw.merge(job, {"status": status}, guard={"uid": job.uid}, subresource="status")
