"""What a webhook costs: an object of 4 KB that is completed, refused or converted, and calls over HTTPS."""

import asyncio
import os
import ssl
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import trustme
from attrs import evolve, frozen

from reconcile import Controller, Object, resource
from reconcile.manager.webhook_server import serving_webhooks
from reconcile.ops.certificate_rotation import rotating
from reconcile.ops.serving_addresses import Address
from reconcile.webhooks import Admission, AdmissionRequest, Refusal, converts
from reconcile.webhooks.handler import answer
from reconcile.webhooks.routes import Route, routes_of
from tests.bench._harness import best_us, measured

ROUNDS = 7
CALLS_A_SECOND = 500
SECONDS = 6
CONNECTIONS = 8


@frozen
class Port:
    name: str = ""
    number: int = 0
    protocol: str = "TCP"


@frozen
class Step:
    name: str = ""
    image: str = ""
    arguments: tuple[str, ...] = ()
    ports: tuple[Port, ...] = ()
    labels: Mapping[str, str] | None = None


@frozen
class PlanSpec:
    steps: tuple[Step, ...] = ()
    parallel: int = 1
    owner: str = ""


@resource("bench.example.com/v1", kind="Plan")
class Plan(Object):
    spec: PlanSpec = PlanSpec()


@frozen
class OldSpec:
    steps: tuple[Step, ...] = ()
    width: int = 1


@resource("bench.example.com/v1beta1", kind="Plan")
class OldPlan(Object):
    spec: OldSpec = OldSpec()


@converts(OldPlan, Plan)
def up(old: OldPlan) -> Plan:
    return Plan(spec=PlanSpec(old.spec.steps, old.spec.width))


@converts(Plan, OldPlan)
def down(new: Plan) -> OldPlan:
    return OldPlan(spec=OldSpec(new.spec.steps, new.spec.parallel))


def owned(plan: Plan, request: AdmissionRequest) -> Plan:
    spec = plan.spec
    return plan if spec.owner else evolve(plan, spec=evolve(spec, owner=request.user.username))


def bounded(plan: Plan, old: Plan | None, request: AdmissionRequest) -> list[Refusal]:
    return [
        Refusal("must not be empty", f"spec.steps[{number}].image")
        for number, step in enumerate(plan.spec.steps)
        if not step.image
    ]


async def keep(plan: Plan) -> None: ...


def plan(api_version: str, **spec: Any) -> dict[str, Any]:
    """About 4 KB."""
    steps = [
        {
            "name": f"step-{number}",
            "image": f"registry.example.com/team/step-{number}:1.{number}",
            "arguments": ["--verbose", f"--number={number}", "--mode=production"],
            "ports": [
                {"name": "http", "number": 8000 + number},
                {"name": "metrics", "number": 9000 + number},
            ],
            "labels": {"app.example.com/part": f"step-{number}"},
        }
        for number in range(14)
    ]
    metadata = {
        "name": "plan-1",
        "namespace": "default",
        "uid": "8ad1c7ce-6a43-4b6f-9a51-111111111111",
        "creationTimestamp": "2026-01-02T03:04:05Z",
        "generation": 3,
        "labels": {"app.kubernetes.io/name": "plan", "team": "a"},
        "managedFields": [
            {
                "manager": "kubectl",
                "operation": "Update",
                "apiVersion": api_version,
                "time": "2026-01-02T03:04:05Z",
                "fieldsType": "FieldsV1",
                "fieldsV1": {"f:spec": {".": {}, "f:steps": {}}},
            }
        ],
    }
    body = {"steps": steps, **spec}
    return {"apiVersion": api_version, "kind": "Plan", "metadata": metadata, "spec": body}


V1, BETA = "bench.example.com/v1", "bench.example.com/v1beta1"


def admission_review(obj: dict[str, Any]) -> bytes:
    request = {
        "uid": "u-1",
        "kind": {"group": "bench.example.com", "version": "v1", "kind": "Plan"},
        "resource": {"group": "bench.example.com", "version": "v1", "resource": "plans"},
        "name": "plan-1",
        "namespace": "default",
        "operation": "CREATE",
        "userInfo": {"username": "alice", "groups": ["system:authenticated"]},
        "object": obj,
        "oldObject": None,
        "dryRun": False,
    }
    head = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
    return msgspec.json.encode({**head, "request": request})


def conversion_review(obj: dict[str, Any], desired: str) -> bytes:
    request = {"uid": "u-1", "desiredAPIVersion": desired, "objects": [obj]}
    head = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview"}
    return msgspec.json.encode({**head, "request": request})


def routes() -> list[Route]:
    return list(
        routes_of([Controller(Plan, keep, admission=Admission(Plan, defaults=owned, refuses=bounded))])
    )


def figures() -> dict[str, float]:
    """Microseconds of CPU time in the handler, and milliseconds of a call over HTTPS at a steady rate."""
    defaults, refuses, convert = routes()
    review = admission_review(plan(V1))
    lossy = conversion_review(plan(V1, parallel=2, owner="alice"), BETA)
    both = best_us(lambda: (answer(defaults, review), answer(refuses, review)), 200, rounds=ROUNDS)
    return {
        "webhooks.admission_us": both,
        "webhooks.conversion_us": best_us(lambda: answer(convert, lossy), 200, rounds=ROUNDS),
        **{f"webhooks.{name}": value for name, value in measured(__name__, "load").items()},
    }


async def load() -> dict[str, float]:
    """Calls at CALLS_A_SECOND over HTTPS from another process, to a server that has one core."""
    everywhere = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(everywhere)})
    authority = trustme.CA()
    made = authority.issue_cert("127.0.0.1")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        authority.cert_pem.write_to_path(folder / "ca.crt")
        made.private_key_pem.write_to_path(folder / "tls.key")
        (folder / "tls.crt").write_bytes(b"".join(blob.bytes() for blob in made.cert_chain_pems))
        async with (
            rotating(folder) as certificate,
            serving_webhooks(Address("127.0.0.1", 0), routes(), certificate) as bound,
        ):
            before = time.process_time()
            caller = (__name__, "calls", str(bound.port), str(folder / "ca.crt"), str(max(everywhere)))
            taken = sorted(await asyncio.to_thread(measured, *caller))
            cpu = (time.process_time() - before) / len(taken)
    wanted = CALLS_A_SECOND * SECONDS
    assert len(taken) == wanted, f"{len(taken)} of {wanted} calls were answered"
    return {
        "https_cpu_us": cpu * 1e6,
        "https_p50_ms": taken[wanted // 2] * 1e3,
        "https_p99_ms": taken[wanted * 99 // 100] * 1e3,
    }


async def calls(port: str, authority: str, core: str) -> list[float]:
    """Seconds of each call, from when it was due."""
    os.sched_setaffinity(0, {int(core)})
    address, trust = Address("127.0.0.1", int(port)), ssl.create_default_context(cafile=authority)
    body = admission_review(plan(V1))
    head = (
        "POST /defaults/plans.bench.example.com?timeout=5s HTTP/1.1\r\nHost: a\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    request = head.encode() + body
    began = time.perf_counter() + 0.5
    clients = [_client(address, trust, request, began, place) for place in range(CONNECTIONS)]
    return [one for taken in await asyncio.gather(*clients) for one in taken]


async def _client(
    address: Address, trust: ssl.SSLContext, request: bytes, began: float, place: int
) -> list[float]:
    reader, writer = await asyncio.open_connection(address.host, address.port, ssl=trust)
    taken: list[float] = []
    for number in range(place, CALLS_A_SECOND * SECONDS, CONNECTIONS):
        due = began + number / CALLS_A_SECOND
        # Calls are due at a steady rate of real time, however long the last answer took.
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        writer.write(request)
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        assert head.startswith("http/1.1 200"), head
        length = int(head.partition("content-length:")[2].partition("\r\n")[0])
        await reader.readexactly(length)
        taken.append(time.perf_counter() - due)
    writer.close()
    return taken
