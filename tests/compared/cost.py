"""What a program costs its machine: CPU and memory of a process that follows objects and runs for each.

The server is the embedded one, over HTTPS, in this process; each program is a process of its own, as its
users run it, with one controller and its defaults. A run reads its object and writes one byte into a pipe;
the next update is made when the run of the last one has written it.
"""

import os
import random
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

from anyio.from_thread import BlockingPortal, start_blocking_portal
from attrs import define, frozen

from tests.bench import informers as objects
from tests.compared.programs import CACHE, PROGRAMS, NotBuilt, Program
from tests.compared.story import HERE, Recording, serving
from tests.helpers.definitions import definition

OBJECTS = 20_000
PATIENCE = 600.0
"""Seconds that a program may take for all objects, or for one update, on a machine that does much else."""
QUIET = 1.0
"""Seconds without a request and without a run after which a program has nothing more to do."""
PATHS = {"sites": "/apis/example.com/v1/namespaces/default/sites", "pods": "/api/v1/namespaces/default/pods"}
SITE = definition("Site", subresources={})
"""Any content is taken as it is, so an object is created whole, with its status."""
SETTINGS = 16
"""So many make it 2 KB with the managed fields that the server adds; they are half of a pod's 8 KB."""
STARTS = 3
MERGE = "application/merge-patch+json"


@frozen
class Cost:
    """CPU seconds of a process, and the megabytes (10^6 bytes) that it has resident after them."""

    cpu: float
    memory: float

    def __str__(self) -> str:
        return f"{self.cpu:.2f} s, {self.memory:.0f} MB"


def rows(count: int) -> tuple[str, ...]:
    """The first cells of the table."""
    return (
        "an empty manager, ready",
        f"start, list and run {count:,} custom resources of 2 KB",
        f"{count:,} updates of these, one at a time",
        f"start, list and run {count:,} pods of 8 KB",
    )


@define
class Process:
    """A program at work, and the bytes that its runs have written."""

    _process: "subprocess.Popen[bytes]"
    _pipe: int
    _log: Path
    _stage: "Stage"
    _runs: int = 0

    def finish(self, runs: int) -> None:
        """Wait for so many runs. Raises AssertionError with the end of the log where they do not come."""
        deadline = time.monotonic() + PATIENCE
        while self._runs < runs:
            self._runs += self._read()
            self._expect_alive(deadline)
        self._runs -= runs

    def rest(self) -> None:
        """Wait until it follows its objects and has nothing more to do; forget its further runs."""
        deadline = ran = time.monotonic()
        deadline += PATIENCE
        while not self._stage.followed() or time.monotonic() - max(ran, self._stage.server.last) < QUIET:
            if self._read(0.1):
                ran = time.monotonic()
            self._expect_alive(deadline)
        self._runs = 0

    def cost(self) -> Cost:
        """Of the process since it began, with all its threads."""
        pid = self._process.pid
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        # The clock of that process, as clock_getcpuclockid(3) makes it: /proc counts in ticks of 10 ms.
        cpu = time.clock_gettime(~pid << 3 | 2)
        return Cost(cpu, pages * os.sysconf("SC_PAGE_SIZE") / 1e6)

    def _read(self, seconds: float = 1.0) -> int:
        """How many runs have written something; waits a while for the first."""
        ready, _, _ = select.select([self._pipe], [], [], seconds)
        written = len(os.read(self._pipe, 1 << 16)) if ready else 0
        if ready and not written:
            time.sleep(0.01)  # the program has not opened the pipe yet, or has ended
        return written

    def _expect_alive(self, deadline: float) -> None:
        if self._process.poll() is not None or time.monotonic() > deadline:
            raise AssertionError(self._log.read_text()[-3000:])


@define
class Stage:
    """A server with objects of one kind, for one program after another."""

    kind: str
    server: Recording
    _portal: BlockingPortal
    _folder: Path
    _version: int = 0

    def fill(self, count: int) -> None:
        self._portal.call(self._create, count)

    def _create(self, count: int) -> None:
        make = objects.pod if self.kind == "pods" else objects.site
        for number in range(count):
            made = make(number, random.Random(number), 0)
            if self.kind == "sites":
                made["spec"]["settings"] = dict(islice(made["spec"]["settings"].items(), SETTINGS))
            metadata = {"name": f"{self.kind}-{number}", "labels": made["metadata"]["labels"]}
            self.server.ask("POST", PATHS[self.kind], {**made, "metadata": metadata})
            if self.kind == "pods":
                status = {"status": made["status"]}
                self.server.ask("PATCH", f"{PATHS['pods']}/{metadata['name']}/status", status, MERGE)

    def update(self, number: int) -> None:
        """Change the spec of an object."""
        self._version += 1
        spec = {"spec": {"replicas": self._version}}
        path = f"{PATHS[self.kind]}/{self.kind}-{number}"
        self._portal.call(self.server.ask, "PATCH", path, spec, MERGE)

    def followed(self) -> bool:
        """Whether a program watches the objects of the kind."""
        return any(asked.startswith("WATCH") and asked.endswith(self.kind) for asked in self.server.asked)

    @contextmanager
    def running(self, command: Sequence[str]) -> Iterator[Process]:
        """A program's process, which begins now."""
        runs, log = self._folder / "runs", self._folder / "log"
        runs.unlink(missing_ok=True)
        os.mkfifo(runs)
        pipe = os.open(runs, os.O_RDONLY | os.O_NONBLOCK)
        self.server.asked.clear()
        with log.open("wb") as output:
            process = subprocess.Popen(command, env=self._environment(runs), stdout=output, stderr=output)
        try:
            yield Process(process, pipe, log, self)
        finally:
            process.kill()
            process.wait()
            os.close(pipe)

    def _environment(self, runs: Path) -> Mapping[str, str]:
        found = os.pathsep.join(str(folder) for folder in (HERE, HERE.parents[1]))
        inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        return inherited | {
            "PYTHONPATH": found,
            "PYTHONPYCACHEPREFIX": str(CACHE / "python"),
            "KUBECONFIG": str(self._folder / "kubeconfig"),
            "KIND": self.kind,
            "RUNS": str(runs),
        }


@contextmanager
def staged(kind: str, count: int) -> Iterator[Stage]:
    """A server with so many objects of a kind."""
    with (
        tempfile.TemporaryDirectory() as folder,
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(serving(Path(folder, "kubeconfig"), SITE)) as server,
    ):
        stage = Stage(kind, server, portal, Path(folder))
        stage.fill(count)
        yield stage


def empty(stage: Stage, command: Sequence[str], _count: int) -> list[Cost]:
    """Of a program without objects, once it follows them: the best start, as the first compiles modules."""
    costs = []
    for _ in range(STARTS):
        with stage.running(command) as process:
            process.rest()
            costs.append(process.cost())
    return [min(costs, key=lambda cost: cost.cpu)]


def synced(stage: Stage, command: Sequence[str], count: int) -> list[Cost]:
    """Of a program's start, up to the first run of each object."""
    with stage.running(command) as process:
        process.finish(count)
        process.rest()
        return [process.cost()]


def updated(stage: Stage, command: Sequence[str], count: int) -> list[Cost]:
    """Of a program's start, and then of an update of each object, one at a time."""
    with stage.running(command) as process:
        process.finish(count)
        process.rest()
        before = process.cost()
        for number in range(count):
            stage.update(number)
            process.finish(1)
        after = process.cost()
    return [before, Cost(after.cpu - before.cpu, after.memory)]


Measure = Callable[[Stage, Sequence[str], int], list[Cost]]
PHASES: tuple[tuple[str, bool, Measure], ...] = (
    ("sites", False, empty),
    ("sites", True, updated),
    ("pods", True, synced),
)
"""The kind, whether there are objects, and what gives one or more rows."""


def table(count: int = OBJECTS, programs: Sequence[Program] = PROGRAMS) -> list[list[str]]:
    """The rows of the table, first one of names; stderr tells which programs are left out, and why."""
    built = [program for program in programs if _built(program)]
    lines = [["", *(program.name for program in built)]]
    labels = iter(rows(count))
    for kind, filled, measure in PHASES:
        with staged(kind, count if filled else 0) as stage:
            costs = [measure(stage, program.command(kind), count) for program in built]
        lines += [[next(labels), *map(str, cells)] for cells in zip(*costs, strict=True)]
    return lines


def _built(program: Program) -> bool:
    try:
        program.command("sites")
    except NotBuilt as reason:
        print(f"{program.name} is left out: {reason}", file=sys.stderr)
        return False
    return True
