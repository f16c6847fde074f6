"""The children of a database in a cluster, as they are applied."""

from typing import Any

from reconcile import Intent, LabelSelector, ObjectMeta
from reconcile.kinds import Job, JobSpec, Service, ServicePort, ServiceSpec, StatefulSet, StatefulSetSpec


def server(name: str, secret: str, storage: str) -> Intent[StatefulSet]:
    labels = {"database": name}
    mounts = [{"name": "data", "mountPath": "/var/lib/postgresql"}]
    main = container("postgres:18", "POSTGRES_PASSWORD", secret, volumeMounts=mounts)
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": storage}}}
    spec = StatefulSetSpec(
        selector=LabelSelector(labels),
        template={"metadata": {"labels": labels}, "spec": {"containers": [main]}},
        volume_claim_templates=({"metadata": {"name": "data"}, "spec": claim},),
    )
    return Intent(StatefulSet, metadata=ObjectMeta(name), spec=spec)


def service(name: str) -> Intent[Service]:
    spec = ServiceSpec(selector={"database": name}, ports=(ServicePort(5432),))
    return Intent(Service, metadata=ObjectMeta(name), spec=spec)


def backup(name: str, secret: str, image: str, host: str) -> Intent[Job]:
    main = container(image, "PGPASSWORD", secret, args=[f"--host={host}", f"--name={name}"])
    pod = {"containers": [main], "restartPolicy": "Never"}
    return Intent(Job, metadata=ObjectMeta(name), spec=JobSpec(template={"spec": pod}))


def container(image: str, password: str, secret: str, **more: Any) -> dict[str, Any]:
    source = {"secretKeyRef": {"name": secret, "key": "password"}}
    return {"name": "main", "image": image, "env": [{"name": password, "valueFrom": source}], **more}
