"""A system outside of the cluster, in a process of its own, with effects that nobody can take back.

It is as plain as such systems are: it appends whatever it is told, also the same effect twice. All that it
knows is the largest epoch in which anyone named an account, and it refuses whoever comes with a smaller one,
to read as to append. So who has read in an epoch and found an effect missing can rely on it that no former
holder appends it later; and two processes that take themselves for the holder in one epoch would be seen.
"""

import json
import socket
import time
from collections import defaultdict
from pathlib import Path
from typing import Any, TextIO

import anyio
from anyio.abc import SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream
from attrs import define, field, frozen

LOG = "ledger.jsonl"
LONGEST = 1 << 12
LATENCY = 0.05
"""Seconds until it acts, so that faults find many runs between their look and their effect."""


@frozen
class Entry:
    """What someone asked of the ledger; `effect` is 0 for one who only read."""

    at: float
    account: str
    epoch: int
    by: str
    effect: int = 0
    refused: bool = False


class StaleEpoch(Exception):
    """Someone has been here with a larger epoch."""


@define
class _Book:
    file: TextIO
    epochs: dict[str, int] = field(factory=lambda: defaultdict(int))
    last: dict[str, int] = field(factory=lambda: defaultdict(int))

    async def serve(self, client: SocketStream) -> None:
        lines = BufferedByteReceiveStream(client)
        async with client:
            try:
                while True:
                    asked = json.loads(await lines.receive_until(b"\n", LONGEST))
                    await anyio.sleep(LATENCY)
                    await client.send(json.dumps(self.note(**asked)).encode() + b"\n")
            except (anyio.BrokenResourceError, anyio.IncompleteRead, anyio.EndOfStream):
                pass  # it was killed

    def note(self, account: str, epoch: int, by: str, effect: int = 0) -> dict[str, Any]:
        """The last effect of the account, after this one; None if it is refused."""
        refused = epoch < self.epochs[account]
        line = {"account": account, "epoch": epoch, "by": by, "effect": effect, "refused": refused}
        self.file.write(json.dumps({"at": time.monotonic(), **line}) + "\n")
        self.file.flush()
        if refused:
            return {"last": None}
        self.epochs[account] = epoch
        if effect:
            self.last[account] = effect
        return {"last": self.last[account]}


def run(folder: Path, ready: Any) -> None:
    """Serve until killed; tells `ready` its port."""
    anyio.run(_run, folder, ready)


async def _run(folder: Path, ready: Any) -> None:
    with (folder / LOG).open("a") as file:
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
        ready.send(listener.extra(anyio.abc.SocketAttribute.local_port))
        ready.close()
        await listener.serve(_Book(file).serve)


def note_once(port: int, account: str, effect: int, epoch: int, by: str) -> None:
    """Append an effect, unless it is there. Raises StaleEpoch if a later holder was there.

    Blocks. In a thread of its own, nobody ends it half-way when the replica loses its Lease.
    """
    with socket.create_connection(("127.0.0.1", port)) as connection, connection.makefile("rw") as lines:

        def ask(effect: int) -> int:
            asked = {"account": account, "epoch": epoch, "by": by, "effect": effect}
            print(json.dumps(asked), file=lines, flush=True)
            last: int | None = json.loads(lines.readline())["last"]
            if last is None:
                raise StaleEpoch(f"{account}: epoch {epoch} is over")
            return last

        if ask(0) < effect:
            ask(effect)


def entries_of(folder: Path) -> list[Entry]:
    lines = (folder / LOG).read_text().splitlines(keepends=True)
    return [Entry(**json.loads(line)) for line in lines if line.endswith("\n")]
