"""An event loop with no way out: the real world is refused, loudly and by place.

A socket, a process or a thread answers when the machine pleases, so one of them is enough to make
a simulation unrepeatable, and to make virtual time run away while it is waited for.
"""

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

# Audit events are what the interpreter itself reports, so this also sees a blocking call in a library.
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

_UNHEARD = ((threading.Thread, "start", "starting a thread"), (time, "sleep", _BLOCKING))

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
    """Code under virtual time reached for a socket, a process, a thread or a blocking sleep.

    `what` says for which of them and `place` where, as `file:line`: the innermost caller outside
    the standard library and installed packages. It ends the run even where it is caught on its way.
    """

    def __init__(self, what: str, place: str) -> None:
        super().__init__(f"{what} under virtual time, at {place}: give the code an in-process stand-in")
        self.what = what
        self.place = place


class SealedLoop(asyncio.BaseEventLoop):
    """The part of a simulation's event loop that refuses; time and order are its subclass's work."""

    _thread_id: int | None  # the base class's: the thread that runs this loop, while one does

    def __init__(self) -> None:
        super().__init__()
        self._breach: RealWorldError | None = None
        self._stands_still = False
        _listen()

    def run_forever(self) -> None:
        """As every loop's, with the ways out guarded that Python 3.11 tells no audit hook of."""
        originals = [(owner, name, getattr(owner, name), what) for owner, name, what in _UNHEARD]
        for owner, name, original, what in originals:
            setattr(owner, name, _guard(original, what))
        try:
            super().run_forever()
        finally:
            for owner, name, original, _ in originals:
                setattr(owner, name, original)

    @contextmanager
    def standing_still(self) -> Iterator[None]:
        """While inside, a thread may be started: one for which this loop stands still while it runs."""
        self._stands_still = True
        try:
            yield
        finally:
            self._stands_still = False

    def refuse(self, what: str) -> NoReturn:
        """Raise `RealWorldError` here, and once more out of the loop at its next step."""
        __tracebackhide__ = True  # for pytest: it is the caller's line that matters
        error = RealWorldError(what, caller_place())
        self._breach = self._breach or error
        raise error

    def raise_breach(self) -> None:
        """Raise what was refused since the last call, so that no `except Exception` can hide it."""
        breach, self._breach = self._breach, None
        if breach is not None:
            raise breach

    def call_soon_threadsafe(
        self, callback: Callable[[*Arguments], object], *args: *Arguments, context: Context | None = None
    ) -> asyncio.Handle:
        """As `call_soon`, which is what a signal handler needs; refused to every other thread."""
        if self._thread_id not in (None, threading.get_ident()):
            self.refuse("a call from another thread")
        return self.call_soon(callback, *args, context=context)


def caller_place() -> str:
    """`file:line` of the innermost frame that belongs to the user, or to nobody better."""
    frames = list(_frames(sys._getframe(1)))
    ours = [frame for frame in frames if not is_library(frame.f_code.co_filename)]
    frame = (ours or frames)[0]
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def is_library(filename: str) -> bool:
    """Whether a source file is the standard library's, an installed package's, or the test kit's."""
    return filename.startswith(_library_paths())


@functools.cache
def _library_paths() -> tuple[str, ...]:
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    return ("<frozen", str(Path(__file__).parent), *(sysconfig.get_path(name) for name in names))


def _frames(innermost: FrameType | None) -> Iterator[FrameType]:
    """From within outwards, as far as the loop that called; the frames of this module left out."""
    while innermost is not None and innermost.f_code.co_name != "_run_once":
        if innermost.f_code.co_filename != __file__:
            yield innermost
        innermost = innermost.f_back


@functools.cache
def _listen() -> None:
    # An audit hook cannot be taken out again: it is installed by the first loop, and only once.
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
    loop = asyncio._get_running_loop()  # this thread's: others may do what they like
    if isinstance(loop, SealedLoop) and not loop._stands_still:
        loop.refuse(what)


def _refusal(name: str) -> Any:
    def refuse(self: SealedLoop, *_: Any, **__: Any) -> NoReturn:
        self.refuse(f"{name}()")

    return refuse


for _name in _REFUSED_METHODS:
    setattr(SealedLoop, _name, _refusal(_name))
