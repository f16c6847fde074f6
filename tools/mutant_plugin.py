"""The part of tools/mutants.py that runs within pytest: each mutant in a fork of a process that imported all.

A module of mutants has each function beside its mutants, as mutmut writes them. Here a function stays as
it is until a fork of the tests gives it the code of one mutant; so nothing is between a call and the
function, and a mutant costs what its tests cost. A mutant is given the tests that call its function,
found by one run with a profiler: first those that noticed a mutant of the same function before, then the
fastest. A test that does not pass without a mutant, or does not end, is named and asked of none.
"""

import faulthandler
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

NOTICED = "noticed"
"""The file with the test that noticed a mutant."""

CALLED = "called"
"""The file with the functions that a test called."""

PATIENCE = 120.0
"""Seconds after which any test counts as hanging, even though a profiler slows it down."""

_REGISTERED: list[tuple[Function, MutantDict]] = []
_MEMORY = 6 * 2**30
"""Bytes that a fork may use, so that a runaway mutant only harms itself."""

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
    """The plan that tools/mutants.py passes.

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


@frozen
class Fork:
    """A running process, and the folder where it may write."""

    pid: int
    folder: Path

    @classmethod
    def of(cls, work: Callable[[Path], bool]) -> "Fork":
        """Start the work in a fork, which exits with 0 if the work returns true."""
        folder = Path(tempfile.mkdtemp(prefix="mutant-"))
        if pid := os.fork():
            return cls(pid, folder)
        succeeded = False
        try:
            isolate(folder)
            succeeded = work(folder)
        finally:
            os._exit(0 if succeeded else 1)

    def read(self, name: str) -> Any:
        """The content of a file that the ended process left in its folder. Removes the folder."""
        file = self.folder / name
        value = json.loads(file.read_text()) if file.exists() else None
        shutil.rmtree(self.folder, ignore_errors=True)
        return value


@define
class Forks:
    """Runs mutants in a limited number of forks, and writes the result of each as a line of JSON."""

    session: pytest.Session
    plan: Plan
    learned: Learned
    running: dict[int, tuple[Mutant, Fork]] = field(factory=dict)
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
        fork = Fork.of(lambda folder: self.survives(mutant, tests, folder))
        self.running[fork.pid] = mutant, fork

    def survives(self, mutant: Mutant, tests: Sequence[int], folder: Path) -> bool:
        mutant.switch_on()
        for test in tests:
            signal.setitimer(signal.ITIMER_REAL, self.limit(test))
            if not passes(self.session, test):
                (folder / NOTICED).write_text(json.dumps(test))
                return False
        return True

    def limit(self, test: int) -> float:
        """Seconds after which a test counts as hanging."""
        return min(5 + 10 * self.learned.seconds[test], PATIENCE)

    def reap(self, results: TextIO) -> None:
        pid, status = os.wait()
        mutant, fork = self.running.pop(pid)
        by = fork.read(NOTICED)
        end = "timeout" if os.WIFSIGNALED(status) else "killed" if os.WEXITSTATUS(status) else "survived"
        if by is not None:
            before = self.noticed_by.setdefault(name_of(mutant.function), [])
            before[:] = [by, *(test for test in before if test != by)]
        self.write(results, mutant, end, by)

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


def isolate(folder: Path) -> None:
    """Detach a fork from what it must not share: the terminal, signal handlers, folders, all memory."""
    os.setpgid(0, 0)
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    os.environ["PYTEST_DEBUG_TEMPROOT"] = str(folder)
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))


class NotLearned(Exception):
    """A test does not pass without a mutant; the message says what it does instead."""


def learn(session: pytest.Session) -> Learned:
    """Run each test in a fork with a profiler, for the functions that it calls, and then here.

    Here for its time, and so that each fork has what the tests keep between them, such as compiled schemas.
    """
    tests: dict[str, list[int]] = {}
    seconds: dict[int, float] = {}
    for test, item in enumerate(session.items):
        try:
            called, seconds[test] = called_by(session, test), seconds_of(session, test)
        except NotLearned as what:
            print(f"\nnot used, as without a mutant it {what}: {item.nodeid}", flush=True)
            continue
        for function in called:
            tests.setdefault(function, []).append(test)
    session.testsfailed = 0
    return Learned(tests, seconds)


def called_by(session: pytest.Session, test: int) -> Sequence[str]:
    """The functions with mutants that a test calls. Raises NotLearned."""
    fork = Fork.of(lambda folder: is_watched(session, test, folder))
    _, status = os.waitpid(fork.pid, 0)
    called: Sequence[str] | None = fork.read(CALLED)
    if called is None:
        raise NotLearned(f"does not end in {PATIENCE:g} s" if os.WIFSIGNALED(status) else "fails")
    return called


def is_watched(session: pytest.Session, test: int, folder: Path) -> bool:
    """Run a test with a profiler, and write down which functions it calls if it passes."""
    names = {id(function.__code__): name_of(function) for function, _ in _REGISTERED}
    called: set[str] = set()

    def watch(frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and (name := names.get(id(frame.f_code))):
            called.add(name)

    signal.setitimer(signal.ITIMER_REAL, PATIENCE)
    threading.setprofile(watch)
    sys.setprofile(watch)
    passed = passes(session, test)
    sys.setprofile(None)
    if passed:
        (folder / CALLED).write_text(json.dumps(sorted(called)))
    return passed


def seconds_of(session: pytest.Session, test: int) -> float:
    """How long a test takes. Raises NotLearned; if it hangs, everything ends with a trace of each thread."""
    faulthandler.dump_traceback_later(PATIENCE, exit=True)
    began = time.monotonic()
    passed = passes(session, test)
    faulthandler.cancel_dump_traceback_later()
    if not passed:
        raise NotLearned("fails at times")
    return time.monotonic() - began
