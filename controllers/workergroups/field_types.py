"""The types of fields that our models leave open: pod templates and options of features.

KubeRay's own definition lets the API server check them; ours does not. Only fields that the controller reads
are checked here, since the API server checks the others when a pod is created.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from .ray_pod_view import Object

Text = str | None
# How msgspec words a mismatch: "Expected `str`, got `int` - at `$.spec.containers[...].image`".
_PLACE = re.compile(r"^(?P<why>.*?)(?: - at `\$(?P<path>[^`]*)`)?$", re.DOTALL)


class _Named(msgspec.Struct):
    name: str


class _Port(msgspec.Struct):
    containerPort: int
    name: Text = None
    protocol: Text = None


class _Mount(msgspec.Struct):
    name: Text = None
    mountPath: Text = None


class _Resources(msgspec.Struct):
    limits: dict[str, int | float | str] | None = None
    requests: dict[str, int | float | str] | None = None


class _Process(msgspec.Struct, kw_only=True):
    image: Text = None
    command: list[str] | None = None
    args: list[str] | None = None
    env: list[_Named] | None = None
    volumeMounts: list[_Mount] | None = None


class _Container(_Process, kw_only=True):
    name: str
    ports: list[_Port] | None = None
    resources: _Resources | None = None


class _PodSpec(msgspec.Struct):
    containers: list[_Container] | None = None
    initContainers: list[_Container] | None = None
    volumes: list[_Named] | None = None
    serviceAccountName: Text = None


class _TemplateMetadata(msgspec.Struct):
    name: Text = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _Template(msgspec.Struct):
    metadata: _TemplateMetadata | None = None
    spec: _PodSpec | None = None


class _ServiceSpec(msgspec.Struct):
    type: Text = None
    ports: list[dict[str, Any]] | None = None


class _Service(msgspec.Struct):
    metadata: _TemplateMetadata | None = None
    spec: _ServiceSpec | None = None


class _Ingress(msgspec.Struct):
    host: Text = None
    path: Text = None
    pathType: Text = None
    tls: list[dict[str, Any]] | None = None


class _Autoscaler(_Process, kw_only=True):
    version: Text = None
    imagePullPolicy: Text = None
    envFrom: list[dict[str, Any]] | None = None
    resources: dict[str, Any] | None = None
    securityContext: dict[str, Any] | None = None


class _Tolerance(msgspec.Struct):
    backend: Text = None
    redisAddress: Text = None
    redisUsername: dict[str, Any] | None = None
    redisPassword: dict[str, Any] | None = None
    externalStorageNamespace: Text = None


class _Auth(msgspec.Struct):
    mode: Text = None
    secretName: Text = None


def type_faults(spec: Object) -> list[str]:
    """The first wrong type of each part, with its path. If there are any, the parts must not be read."""
    return [fault for path, part, shape in _parts(spec) for fault in _faults(path, part, shape)]


def _parts(spec: Object) -> Iterator[tuple[str, Any, type[msgspec.Struct]]]:
    head = spec.get("headGroupSpec") or {}
    yield "spec.headGroupSpec.template", head.get("template"), _Template
    yield "spec.headGroupSpec.headService", head.get("headService"), _Service
    yield "spec.headGroupSpec.ingressOptions", head.get("ingressOptions"), _Ingress
    for group in spec.get("workerGroupSpecs") or ():
        path = f"spec.workerGroupSpecs[{group.get('groupName')}].template"
        yield path, group.get("template"), _Template
    yield "spec.autoscalerOptions", spec.get("autoscalerOptions"), _Autoscaler
    yield "spec.gcsFaultToleranceOptions", spec.get("gcsFaultToleranceOptions"), _Tolerance
    yield "spec.authOptions", spec.get("authOptions"), _Auth


def _faults(path: str, part: Mapping[str, Any] | None, shape: type[msgspec.Struct]) -> Iterator[str]:
    if part is None:
        return
    try:
        msgspec.convert(part, shape)
    except msgspec.ValidationError as error:
        match = _PLACE.match(str(error))
        assert match is not None
        yield f"{path}{match['path'] or ''}: {match['why']}"
