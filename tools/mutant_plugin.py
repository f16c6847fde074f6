"""The part of tools/mutants.py that runs within pytest: each mutant in a fork of a process that imported all.

A module of mutants has each function beside its mutants, as mutmut writes them. Here a function stays as
it is until a fork of the tests gives it the code of one mutant; so nothing is between a call and the
function, and a mutant costs what its tests cost. A mutant is given the tests that call its function,
found by one run with a profiler: first those that noticed a mutant of the same function before, then the
fastest.
"""

import gc
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import FrameType, FunctionType
from typing import Any, TextIO, TypeVar

import pytest
from attrs import define, field, frozen

F = TypeVar("F", bound=Callable[..., Any])
MutantDict = dict[str, Any]
Function = Any

PLAN = "MUTANTS_PLAN"
"""The environment variable that names the file with the plan of a run."""

_REGISTERED: list[tuple[Function, MutantDict]] = []
_MEMORY = 6 * 2**30
"""Bytes that a fork may use, so that a mutant without end harms itself alone."""

_LIKELY = 5
"""How many of the tests that noticed mutants of the same function come first."""


def has_mutants(mutants: MutantDict, is_classmethod: bool = False) -> Callable[[F], F]:
    """Decorates a function, whose mutants come into the dictionary later, and leaves it as it is."""

    def register(function: F) -> F:
        if isinstance(function, FunctionType):
            _REGISTERED.append((function, mutants))
        return function

    return register


@frozen
class Plan:
    """What tools/mutants.py asks for.

    Names of mutants, how many to run at a time, seconds of tests for each, and where to write their ends.
    """

    mutants: Sequence[str]
    jobs: int
    seconds: float
    results: str

    @classmethod
    def read(cls) -> "Plan":
        return cls(**json.loads(Path(os.environ[PLAN]).read_text()))


@frozen
class Mutant:
    """A function and the code to give it."""

    name: str
    function: Function
    changed: Function

    def switch_on(self) -> None:
        for attribute in ("__code__", "__defaults__", "__kwdefaults__"):
            setattr(self.function, attribute, getattr(self.changed, attribute))


@frozen
class Learned:
    """The tests that call each function, by index, and how long each test took in seconds."""

    tests: Mapping[str, Sequence[int]]
    seconds: Mapping[int, float]


@define
class Fork:
    """One mutant at work, and the folder where its tests may write."""

    mutant: Mutant
    folder: str


@define
class Forks:
    """Runs mutants in forks, so many at a time, and writes what came of each as a line of JSON."""

    session: pytest.Session
    plan: Plan
    learned: Learned
    running: dict[int, Fork] = field(factory=dict)
    noticed_by: dict[str, list[int]] = field(factory=dict)

    def run(self, mutants: Iterable[Mutant]) -> None:
        with Path(self.plan.results).open("a") as results:
            for mutant in mutants:
                tests = self.tests_for(mutant)
                if not tests:
                    self.write(results, mutant, "no tests", None)
                    continue
                while len(self.running) >= self.plan.jobs:
                    self.reap(results)
                self.start(mutant, tests)
            while self.running:
                self.reap(results)

    def tests_for(self, mutant: Mutant) -> Sequence[int]:
        """The tests that call it, the likeliest to notice first, until a mutant's seconds are used up."""
        function = name_of(mutant.function)
        chosen = dict.fromkeys(self.noticed_by.get(function, [])[:_LIKELY])
        seconds = 0.0
        for test in sorted(self.learned.tests.get(function, ()), key=self.learned.seconds.__getitem__):
            seconds += self.learned.seconds[test]
            if seconds > self.plan.seconds and chosen:
                break
            chosen.setdefault(test)
        return list(chosen)

    def start(self, mutant: Mutant, tests: Sequence[int]) -> None:
        folder = tempfile.mkdtemp(prefix="mutant-")
        if pid := os.fork():
            self.running[pid] = Fork(mutant, folder)
            return
        try:
            isolate(folder)
            mutant.switch_on()
            for test in tests:
                signal.setitimer(signal.ITIMER_REAL, self.limit(test))
                if not passes(self.session, test):
                    Path(folder, "noticed").write_text(str(test))
                    os._exit(1)
            os._exit(0)
        except BaseException:
            os._exit(1)

    def limit(self, test: int) -> float:
        """Seconds after which a test hangs."""
        return 5 + 10 * self.learned.seconds[test]

    def reap(self, results: TextIO) -> None:
        pid, status = os.wait()
        fork = self.running.pop(pid)
        noticed = Path(fork.folder, "noticed")
        by = int(noticed.read_text()) if noticed.exists() else None
        shutil.rmtree(fork.folder, ignore_errors=True)
        end = "timeout" if os.WIFSIGNALED(status) else "killed" if os.WEXITSTATUS(status) else "survived"
        if by is not None:
            before = self.noticed_by.setdefault(name_of(fork.mutant.function), [])
            before[:] = [by, *(test for test in before if test != by)]
        self.write(results, fork.mutant, end, by)

    def write(self, results: TextIO, mutant: Mutant, end: str, by: int | None) -> None:
        test = self.session.items[by].nodeid if by is not None else None
        results.write(json.dumps({"mutant": mutant.name, "end": end, "by": test}) + "\n")
        results.flush()


def pytest_runtestloop(session: pytest.Session) -> bool:
    plan = Plan.read()
    gc.collect()
    gc.freeze()
    learned = learn(session)
    wanted = dict.fromkeys(plan.mutants)
    Forks(session, plan, learned).run(mutant for mutant in registered() if mutant.name in wanted)
    return True


def registered() -> Iterable[Mutant]:
    for function, mutants in _REGISTERED:
        for name, changed in mutants.items():
            if not name.endswith("_orig"):
                yield Mutant(f"{function.__module__}.{name}", function, getattr(changed, "__func__", changed))


def name_of(function: Function) -> str:
    return f"{function.__module__}.{function.__qualname__}"


class _Failures:
    """Whether a test failed in any of its phases."""

    def __init__(self) -> None:
        self.any = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.any = self.any or report.failed


def passes(session: pytest.Session, test: int) -> bool:
    """Run a test in this process, with fixtures of its own."""
    failures = _Failures()
    session.config.pluginmanager.register(failures)
    session.config.hook.pytest_runtest_protocol(item=session.items[test], nextitem=None)
    session.config.pluginmanager.unregister(failures)
    return not failures.any


def isolate(folder: str) -> None:
    """Take from a fork what it must not share: the terminal, handlers of signals, folders, all memory."""
    os.setpgid(0, 0)
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    os.environ["PYTEST_DEBUG_TEMPROOT"] = folder
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))


def learn(session: pytest.Session) -> Learned:
    """Run all tests once, with a profiler: which functions each calls, and how long it takes.

    Here and not in a fork, so that each fork has what the tests keep between them, such as compiled schemas.
    """
    learned = _watched(session)
    for test in learned["failed"]:
        print(f"\nnot used, as it fails without a mutant: {session.items[test].nodeid}")
    session.testsfailed = 0
    return Learned(learned["tests"], learned["seconds"])


def _watched(session: pytest.Session) -> Mapping[str, Any]:
    keys = {id(function.__code__): name_of(function) for function, _ in _REGISTERED}
    called: set[str] = set()

    def watch(frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and (key := keys.get(id(frame.f_code))):
            called.add(key)

    tests: dict[str, list[int]] = {}
    seconds: dict[int, float] = {}
    failed: list[int] = []
    for test in range(len(session.items)):
        called.clear()
        threading.setprofile(watch)
        sys.setprofile(watch)
        began = time.monotonic()
        passed = passes(session, test)
        seconds[test] = time.monotonic() - began
        sys.setprofile(None)
        threading.setprofile(None)
        if not passed:
            failed.append(test)
            continue
        for key in called:
            tests.setdefault(key, []).append(test)
    return {"tests": tests, "seconds": seconds, "failed": failed}
