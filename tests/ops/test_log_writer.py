"""Log lines that are written by a thread: a reader that stops reading stops nothing else."""

import json
import logging
import os
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import IO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconcile import configure_logging
from reconcile.ops.log_writer import FLUSH_SECONDS, MAX_CHARACTERS, MAX_LINES, ThreadedHandler, handler_on


@contextmanager
def pipe() -> Iterator[tuple[int, IO[str]]]:
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as stream:
        try:
            yield reading, stream
        finally:
            os.close(reading)


def read_all(descriptor: int, until: str) -> str:
    text = b""
    while until.encode() not in text:
        text += os.read(descriptor, 1 << 16)
    return text.decode()


def record(message: str) -> logging.LogRecord:
    return logging.LogRecord("toys", logging.INFO, __file__, 1, message, (), None)


def test_an_unread_pipe_blocks_nothing_and_the_number_of_dropped_lines_is_logged() -> None:
    with pipe() as (reading, stream):
        handler = ThreadedHandler(stream)
        began = time.monotonic()
        for number in range(3 * MAX_LINES):
            handler.emit(record(f"line {number}"))
        assert time.monotonic() - began < 5
        assert handler.dropped >= MAX_LINES - 100
        seen: list[str] = []
        reader = threading.Thread(target=lambda: seen.append(read_all(reading, "line last")))
        reader.start()
        while handler._lines or handler._writing:
            time.sleep(0.01)
        handler.emit(record("line last"))
        reader.join(10)
        lines = seen[0].splitlines()
        handler.close()
    assert lines[-1] == "line last"
    assert lines[-2] == f"log lines were dropped: their reader was too slow dropped={handler.dropped}"
    assert lines[:-2] == [f"line {number}" for number in range(3 * MAX_LINES - handler.dropped)]


def test_the_length_of_lines_is_bounded_in_characters() -> None:
    with pipe() as (reading, stream):
        handler = ThreadedHandler(stream)
        for _ in range(40):
            handler.emit(record("x" * (MAX_CHARACTERS // 10)))
        assert handler.dropped >= 19
        os.set_blocking(reading, False)
        drainer = threading.Thread(target=lambda: drained(reading, handler), daemon=True)
        drainer.start()
        handler.close()
        drainer.join(10)


def drained(reading: int, handler: ThreadedHandler) -> None:
    while handler._lines or handler._writing:
        try:
            os.read(reading, 1 << 20)
        except BlockingIOError:
            time.sleep(0.001)


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=20), max_size=20))
def test_a_reader_that_keeps_up_gets_every_line_in_order(messages: list[str]) -> None:
    with pipe() as (reading, stream):
        handler = ThreadedHandler(stream)
        for message in messages:
            handler.emit(record(message))
        handler.close()
        stream.close()
        text = b""
        while piece := os.read(reading, 1 << 16):
            text += piece
    assert text.decode("utf-8") == "".join(f"{message}\n" for message in messages)


def test_a_reader_that_disconnects_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with pipe() as (reading, stream):
        elsewhere = os.dup(reading)
        handler = ThreadedHandler(stream)
        os.dup2(os.open(os.devnull, os.O_RDONLY), reading)
        os.close(elsewhere)
        handler.emit(record("to nobody"))
        handler.flush()
        handler.emit(record("to nobody"))
        handler.close()
        assert not handler._lines


def test_lines_are_not_written_to_a_later_file_that_reuses_the_descriptor_of_a_closed_stream(
    tmp_path: Path,
) -> None:
    reading, writing = os.pipe()
    stream = os.fdopen(writing, "w")
    handler = ThreadedHandler(stream)
    stream.close()
    with (tmp_path / "other").open("w") as other:
        assert other.fileno() == writing
        handler.emit(record("for the pipe"))
        handler.close()
    assert (tmp_path / "other").read_text() == ""
    assert os.read(reading, 100) == b"for the pipe\n"
    os.close(reading)


def test_a_forked_child_writes_only_its_own_lines() -> None:
    code = """
        import logging, os, sys, reconcile
        reconcile.configure_logging(format="json")
        log = logging.getLogger("mine")
        log.info("of the parent")
        child = os.fork()
        if not child:
            log.info("of the child")
            logging.shutdown()
            os._exit(0)
        os.waitpid(child, 0)
        log.info("of the parent again")
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=30
    )
    assert done.returncode == 0
    said = sorted(json.loads(line)["event"] for line in done.stderr.splitlines())
    assert said == ["of the child", "of the parent", "of the parent again"]


def test_a_process_ends_even_if_its_log_is_not_read() -> None:
    code = """
        import logging, reconcile
        reconcile.configure_logging(format="json")
        for number in range(20_000):
            logging.getLogger("mine").info("%s", "x" * 100)
        print("done", flush=True)
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"done\n"
            started = time.monotonic()
            assert process.wait(20) == 0
            assert time.monotonic() - started < 2 * FLUSH_SECONDS
        finally:
            process.kill()


def test_every_line_is_written_before_the_process_ends() -> None:
    code = """
        import logging, reconcile
        reconcile.configure_logging(format="json")
        for number in range(2_000):
            logging.getLogger("mine").info("%s", number)
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert [json.loads(line)["event"] for line in done.stderr.splitlines()] == [str(n) for n in range(2000)]


def test_files_and_memory_are_written_at_once(tmp_path: Path) -> None:
    with (tmp_path / "log").open("w") as stream:
        assert type(handler_on(stream)) is logging.StreamHandler
    assert type(handler_on(StringIO())) is logging.StreamHandler


def test_configuring_logging_again_ends_the_previous_thread() -> None:
    root = logging.getLogger()
    former = list(root.handlers)
    level = root.level
    try:
        with pipe() as (reading, stream):
            configure_logging(stream, format="json")
            logging.getLogger("mine").info("first")
            configure_logging(StringIO())
            assert json.loads(os.read(reading, 1 << 16))["event"] == "first"
        assert not [thread for thread in threading.enumerate() if thread.name == "log"]
    finally:
        root.handlers[:] = former
        root.setLevel(level)
