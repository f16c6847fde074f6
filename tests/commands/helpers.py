"""Runs the `reconcile` command as a person does: a process of its own, in a folder of its own."""

import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from attrs import define, field

from reconcile.commands import main

ROOT = Path(__file__).parents[2]


@define
class Command:
    """A running command. What it says is read line by line as it comes."""

    process: subprocess.Popen[str]
    stderr: Path
    lines: list[str] = field(factory=list)
    _coming: "queue.Queue[str | None]" = field(factory=queue.Queue)

    def listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._coming.put(line.rstrip("\n"))
        self._coming.put(None)

    def wait_for(self, text: str, seconds: float = 30.0) -> str:
        """The first line from now on that has `text` in it."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                line = self._coming.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise AssertionError(f"no line with {text!r} in {seconds} s, but:\n{self.said}") from None
            if line is None:
                raise AssertionError(f"it ended without {text!r}:\n{self.said}\n{self.complaints}")
            self.lines.append(line)
            if text in line:
                return line

    def wait_for_log(self, text: str, seconds: float = 30.0) -> None:
        """Wait until `text` is in what it logs."""
        deadline = time.monotonic() + seconds
        while text not in self.complaints:
            assert time.monotonic() < deadline, f"no log of {text!r} in {seconds} s, but:\n{self.complaints}"
            time.sleep(0.02)

    @property
    def said(self) -> str:
        return "\n".join(self.lines)

    @property
    def complaints(self) -> str:
        return self.stderr.read_text()

    def seconds_to_end(self, number: signal.Signals = signal.SIGINT) -> float:
        """Send a signal and wait for the end."""
        started = time.monotonic()
        self.process.send_signal(number)
        self.process.wait(timeout=20)
        return time.monotonic() - started


@contextmanager
def running(
    *arguments: str,
    home: Path,
    path: Path | None = None,
    python: str = sys.executable,
    root: Path | None = ROOT,
    stdin: int = subprocess.DEVNULL,
    variables: Mapping[str, str] = {},
) -> Iterator[Command]:
    """`reconcile ARGUMENTS` in the folder `home`, with `path` before everything else that is installed.

    It is that of `root`, or for None what is installed for the interpreter `python`. Of the environment it
    sees `variables` and what it cannot do without.
    """
    environment = {
        **variables,
        "HOME": str(home),
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.pathsep.join(str(p) for p in (path, root) if p is not None),
        "TMPDIR": str(home),
    }
    with open(home / "stderr", "w+") as stderr:
        process = subprocess.Popen(
            (python, "-c", "import sys; from reconcile.commands import main; sys.exit(main())", *arguments),
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            env=environment,
            cwd=home,
        )
        command = Command(process, home / "stderr")
        listener = threading.Thread(target=command.listen)
        listener.start()
        try:
            yield command
        finally:
            process.kill()
            process.wait()
            listener.join()
            assert process.stdout is not None
            process.stdout.close()


def complaint(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line of error that `reconcile ARGUMENTS` ends with, at status 2 and without other output."""
    out, line = output_and_complaint(capsys, *arguments)
    assert out == ""
    return line


def output_and_complaint(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[str, str]:
    """Standard output, and the one line of error besides the log, at status 2."""
    assert main(list(arguments)) == 2
    out, err = capsys.readouterr()
    errors = [line for line in err.splitlines() if not line.startswith("{")]
    assert len(errors) == 1
    assert errors[0].startswith("error: ")
    return out, f"{errors[0]}\n"
