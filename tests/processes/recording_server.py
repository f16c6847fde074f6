"""An embedded API server in a process of its own; it writes down each request, when it came and from whom."""

import json
import signal
import time
from pathlib import Path
from typing import Any, TextIO

import anyio
import msgspec
from attrs import frozen

from informers import Response
from reconcile.embedded import ApiRequest, ApiServer, User, WatchStream
from reconcile.embedded.http import serve
from reconcile.embedded.listener.admin_kubeconfig import write_kubeconfig
from reconcile.embedded.log import StoredChange
from reconcile.sharding.ring import ASSIGNMENT

LOG = "requests.jsonl"
CHANGES = "changes.jsonl"
TAG = "x-request-tag"
"""The header by which a proxy marks what it sends on; the log keeps it."""
AWAY_SECONDS = 2.0


class _Recorded(ApiServer):
    def __init__(self, log: TextIO, changes: TextIO | None = None) -> None:
        self._file = log
        self._changes = changes
        self._holder = ""
        super().__init__(rbac=False)
        self.log.on_change(self._note)

    def _note(self, change: StoredChange) -> None:
        """Write down a state that an object has reached, or the last one of an object that is gone.

        Of Leases only those with the assignment of a ring.
        """
        plural = change.resource[1]
        state = change.new or change.left
        if plural == "leases":
            self._holder = state.decode()["spec"].get("holderIdentity") or "" if change.new else ""
        if self._changes is None or plural == "events":
            return
        obj = state.decode()
        if plural == "leases" and ASSIGNMENT not in obj["metadata"].get("annotations", {}):
            return
        obj["metadata"].pop("managedFields", None)
        line = {"at": time.monotonic(), "plural": plural, "gone": change.new is None, "object": obj}
        self._changes.write(json.dumps(line) + "\n")
        self._changes.flush()

    async def respond(self, request: ApiRequest) -> Response | WatchStream:
        holder_before = self._holder
        answer = await super().respond(request)
        status = answer.status if isinstance(answer, Response) else 200
        line = {
            "at": time.monotonic(),
            "user": request.user.name,
            "method": request.method,
            "path": request.path,
            "status": status,
            "leader": holder_before,
            "tag": request.headers.get(TAG, ""),
            "dry_run": "dryRun" in request.query,
        }
        if request.body and "/leases" in request.path:
            line["holder"] = msgspec.json.decode(request.body).get("spec", {}).get("holderIdentity")
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()
        return answer


def run(folder: Path, users: list[str], port: int, tls: bool, changes: bool, ready: Any) -> None:
    """Serve until killed; tells `ready` its port. Each user's token is its name.

    With `changes` each state that an object reaches is written down as well, also by the server itself.
    SIGUSR1 cuts all connections and closes the port for a while; what the server holds stays.
    """
    anyio.run(_run, folder, users, port, tls, changes, ready)


async def _run(folder: Path, users: list[str], port: int, tls: bool, changes: bool, ready: Any) -> None:
    known = {name: User(name) for name in users}
    with (folder / LOG).open("a") as log, (folder / CHANGES).open("a") as states:
        server = _Recorded(log, states if changes else None)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.run)
            with anyio.open_signal_receiver(signal.SIGUSR1) as signals:
                while True:
                    async with serve(server, port=port, tls=tls, token="admin", users=known) as face:
                        port = face.port
                        for name in ["admin", *users]:
                            write_kubeconfig(folder / name, face.url, face.ca_pem, name)
                        if not ready.closed:
                            ready.send(port)
                            ready.close()
                        await anext(signals)
                    await anyio.sleep(AWAY_SECONDS)


@frozen
class Asked:
    """One request, as the server wrote it down; `at` is the machine's monotonic clock."""

    at: float
    user: str
    method: str
    path: str
    status: int
    holder: str | None = None
    leader: str = ""
    """The identity in the Lease when it came; all Leases are one here."""
    tag: str = ""
    dry_run: bool = False

    @property
    def writes(self) -> bool:
        """Whether it may change something; by a dry run an operator that ends asks about its namespace."""
        return self.method not in ("GET", "HEAD") and not self.dry_run

    @property
    def committed(self) -> bool:
        return self.writes and self.status < 400

    @property
    def election(self) -> bool:
        return "/leases" in self.path


def asked_of(folder: Path) -> list[Asked]:
    lines = (folder / LOG).read_text().splitlines(keepends=True)
    return [Asked(**json.loads(line)) for line in lines if line.endswith("\n")]
