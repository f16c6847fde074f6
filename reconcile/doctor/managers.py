"""What running managers say of themselves: storms, caches that are far behind, and refusals for load."""

import re
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
from attrs import frozen

from informers.api_errors import parsed
from reconcile.doctor.findings import Finding

STORMS: Final = "storms"
CACHES: Final = "caches"
FAILING_SECONDS: Final = 90.0
"""An informer that fails is back within a back-off of 30 s when the server is."""
SILENT_SECONDS: Final = 900.0
"""API servers send bookmarks each minute, and those that do not end a watch after 10 minutes at most."""
BACKLOG: Final = 1000
"""Changes that wait for handlers, which take some microseconds each."""

_SAMPLE: Final = re.compile(r"^rest_client_requests_total\{([^}]*)\} ([0-9.e+]+)", re.MULTILINE)
_CODE: Final = re.compile(r'(?:^|,)code="(\d+)"')


class StormState(msgspec.Struct, frozen=True):
    message: str = ""


class ControllerState(msgspec.Struct, frozen=True):
    storms: dict[str, StormState] = {}


class InformerState(msgspec.Struct, frozen=True):
    resource: str = ""
    namespace: str = ""
    state: str = ""
    synced: bool = True
    error: str = ""
    lag: float | None = None
    backlog: int = 0


class ClusterState(msgspec.Struct, frozen=True):
    name: str = ""
    reachable: bool = True
    down_seconds: float = 0.0


class DebugState(msgspec.Struct, frozen=True):
    """The page /debug/state of a manager, as far as the checks look at it."""

    leading: bool = False
    clusters: list[ClusterState] = []
    controllers: dict[str, ControllerState] = {}
    informers: list[InformerState] = []


@frozen
class ManagerState:
    """What the manager `where` (a pod or an address) says. `requests` and `refused` (429) it has sent."""

    where: str
    state: DebugState
    requests: int = 0
    refused: int = 0


def manager_state(where: str, state: bytes, metrics: str = "") -> ManagerState:
    """From the bodies of /debug/state and /metrics. Raises MalformedAnswer."""
    read = parsed(msgspec.json.Decoder(DebugState).decode, state, f"GET /debug/state of {where}")
    total = refused = 0
    for labels, value in _SAMPLE.findall(metrics):
        count = int(float(value))
        code = _CODE.search(labels)
        total += count
        refused += count if code is not None and code[1] == "429" else 0
    return ManagerState(where, read, total, refused)


def check_storms(managers: Sequence[ManagerState]) -> Iterable[Finding]:
    for manager in managers:
        for name, controller in manager.state.controllers.items():
            for key, storm in controller.storms.items():
                what = f"is in a storm and slowed down in {manager.where}: {storm.message}"
                yield Finding(STORMS, "warning", f"{name} {key}", what, f"reconcile explain {name} {key}")


def check_caches(managers: Sequence[ManagerState]) -> Iterable[Finding]:
    for manager in managers:
        for cluster in manager.state.clusters:
            if not cluster.reachable:
                server = f"the API server {cluster.name}".rstrip()
                what = f"has not reached {server} for {cluster.down_seconds:.0f} s"
                yield Finding(CACHES, "error", manager.where, what, "look at its network and at the server")
        for informer in manager.state.informers:
            if problem := _behind(informer):
                subject = f"cache of {informer.resource}"
                what = f"in {manager.where} {problem}: its controllers work on old objects"
                yield Finding(
                    CACHES,
                    "error",
                    subject,
                    what,
                    "reconcile top; see its log for why lists and watches fail",
                )


def _behind(informer: InformerState) -> str:
    if informer.state == "gone":
        return "follows what the server does not serve any more"
    if not informer.synced:
        return "has not been filled yet"
    limit = FAILING_SECONDS if informer.error else SILENT_SECONDS
    if informer.lag is not None and informer.lag > limit:
        why = f" ({informer.error})" if informer.error else ""
        return f"has heard nothing from the server for {informer.lag:.0f} s{why}"
    if informer.backlog > BACKLOG:
        return f"has {informer.backlog} changes that wait for its handlers"
    return ""
