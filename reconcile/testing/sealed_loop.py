"""An event loop that refuses sockets, processes and threads: their timing makes a simulation unrepeatable."""

import asyncio
import functools
import sys
import sysconfig
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import Context
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn, TypeVarTuple

Arguments = TypeVarTuple("Arguments")

_BLOCKING = "time.sleep(), which blocks while no virtual time passes,"

# The interpreter itself raises audit events, so this also sees a blocking call in a library.
_AUDITED = {
    "_thread.start_joinable_thread": "starting a thread",
    "_thread.start_new_thread": "starting a thread",
    "os.exec": "replacing the process",
    "os.fork": "forking",
    "os.forkpty": "forking",
    "os.posix_spawn": "starting a process",
    "os.spawn": "starting a process",
    "os.system": "starting a process",
    "socket.bind": "binding a socket",
    "socket.connect": "connecting a socket",
    "socket.getaddrinfo": "looking up a host name",
    "socket.gethostbyaddr": "looking up a host name",
    "socket.gethostbyname": "looking up a host name",
    "socket.sendto": "sending to a socket",
    "subprocess.Popen": "starting a process",
    "time.sleep": _BLOCKING,
}

_UNAUDITED = ((threading.Thread, "start", "starting a thread"), (time, "sleep", _BLOCKING))

_REFUSED_METHODS = (
    "add_reader", "add_signal_handler", "add_writer", "connect_accepted_socket", "connect_read_pipe",
    "connect_write_pipe", "create_connection", "create_datagram_endpoint", "create_server",
    "create_unix_connection", "create_unix_server", "getaddrinfo", "getnameinfo", "run_in_executor",
    "sendfile", "sock_accept", "sock_connect", "sock_recv", "sock_recv_into", "sock_recvfrom",
    "sock_recvfrom_into", "sock_sendall", "sock_sendfile", "sock_sendto", "start_tls", "subprocess_exec",
    "subprocess_shell",
)  # fmt: skip


class SimulationError(RuntimeError):
    """A simulation cannot go on."""


class RealWorldError(SimulationError):
    """Code under virtual time used a socket, a process, a thread or a blocking sleep.

    `what` is which of them, and `place` the `file:line` of the innermost caller outside the standard library
    and installed packages. It ends the run even if the code catches it.
    """

    def __init__(self, what: str, place: str) -> None:
        super().__init__(f"{what} under virtual time, at {place}: pass the code an in-process stand-in")
        self.what = what
        self.place = place


class SealedLoop(asyncio.BaseEventLoop):
    """The part of a simulation's event loop that refuses; the subclass decides on time and order."""

    _thread_id: int | None  # of the base class: the thread that runs this loop

    def __init__(self) -> None:
        super().__init__()
        self._breach: RealWorldError | None = None
        self._stands_still = False
        _install_audit_hook()

    def run_forever(self) -> None:
        """Adds guards for the calls that Python 3.11 does not audit."""
        originals = [(owner, name, getattr(owner, name), what) for owner, name, what in _UNAUDITED]
        for owner, name, original, what in originals:
            setattr(owner, name, _guard(original, what))
        try:
            super().run_forever()
        finally:
            for owner, name, original, _ in originals:
                setattr(owner, name, original)

    @contextmanager
    def standing_still(self) -> Iterator[None]:
        """Within this context a thread may be started, if the loop stands still while it runs."""
        self._stands_still = True
        try:
            yield
        finally:
            self._stands_still = False

    def refuse(self, what: str) -> NoReturn:
        """Raise `RealWorldError` here, and again from the loop at its next step."""
        __tracebackhide__ = True  # for pytest: the caller's line matters
        error = RealWorldError(what, caller_place())
        self._breach = self._breach or error
        raise error

    def raise_breach(self) -> None:
        """Raise what was refused since the last call, as an `except Exception` may have hidden it."""
        breach, self._breach = self._breach, None
        if breach is not None:
            raise breach

    def call_soon_threadsafe(
        self, callback: Callable[[*Arguments], object], *args: *Arguments, context: Context | None = None
    ) -> asyncio.Handle:
        """As `call_soon`, for signal handlers; refused to every other thread."""
        if self._thread_id not in (None, threading.get_ident()):
            self.refuse("a call from another thread")
        return self.call_soon(callback, *args, context=context)


def caller_place() -> str:
    """`file:line` of the innermost frame of the user's code, or else of the innermost frame."""
    frames = list(_frames(sys._getframe(1)))
    ours = [frame for frame in frames if not is_library(frame.f_code.co_filename)]
    frame = (ours or frames)[0]
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def is_library(filename: str) -> bool:
    """Whether a source file belongs to the standard library, an installed package or the test kit."""
    return filename.startswith(_library_paths())


@functools.cache
def _library_paths() -> tuple[str, ...]:
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    return ("<frozen", str(Path(__file__).parent), *(sysconfig.get_path(name) for name in names))


def _frames(innermost: FrameType | None) -> Iterator[FrameType]:
    """The frames from the innermost one out to the loop, without those of this module."""
    while innermost is not None and innermost.f_code.co_name != "_run_once":
        if innermost.f_code.co_filename != __file__:
            yield innermost
        innermost = innermost.f_back


@functools.cache
def _install_audit_hook() -> None:
    # An audit hook cannot be removed, so the first loop installs it once.
    sys.addaudithook(_on_audit_event)


def _on_audit_event(event: str, arguments: tuple[Any, ...]) -> None:
    if event in _AUDITED:
        _refuse_in_simulation(_AUDITED[event])


@functools.cache
def _guard(original: Callable[..., Any], what: str) -> Callable[..., Any]:
    @functools.wraps(original)
    def guard(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        _refuse_in_simulation(what)
        return original(*args, **kwargs)

    return guard


def _refuse_in_simulation(what: str) -> None:
    __tracebackhide__ = True
    loop = asyncio._get_running_loop()  # of this thread: other threads are not restricted
    if isinstance(loop, SealedLoop) and not loop._stands_still:
        loop.refuse(what)


def _refusal(name: str) -> Any:
    def refuse(self: SealedLoop, *_: Any, **__: Any) -> NoReturn:
        self.refuse(f"{name}()")

    return refuse


for _name in _REFUSED_METHODS:
    setattr(SealedLoop, _name, _refusal(_name))
