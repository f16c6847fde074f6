"""A credential plugin of a kubeconfig: a program that prints a token or a certificate.

The protocol is ExecCredential of client.authentication.k8s.io. A plugin that hangs must not hang requests,
and must not outlive the transport that started it.
"""

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import anyio
from attrs import define, field

SECONDS = 30.0
"""How long a plugin may take."""
LOGIN_SECONDS = 300.0
"""The limit if a person sits at a terminal: then a plugin may ask for a login."""
END_SECONDS = 1.0
"""How long to wait for the end of a killed plugin: one in a session of its own may hold a pipe."""
MOST_BYTES = 1 << 20


class PluginError(Exception):
    """The plugin gave no credentials; the message says why in one line."""


@define(eq=False)
class Plugin:
    """Runs a plugin whenever asked. `arguments` begin with the program. `close` kills it and its children.

    `may_ask`: it may ask the person at the terminal, if there is one. `cluster` is what it is told of the
    cluster.
    """

    arguments: Sequence[str]
    environment: Mapping[str, str] = field(repr=False)
    api_version: str = "client.authentication.k8s.io/v1"
    may_ask: bool = True
    cluster: Mapping[str, Any] | None = None
    _running: set[asyncio.subprocess.Process] = field(factory=set, init=False)

    async def ask(self) -> Mapping[str, Any]:
        """The `status` that the plugin prints. Raises PluginError."""
        interactive = self.may_ask and sys.stdin is not None and sys.stdin.isatty()
        seconds = LOGIN_SECONDS if interactive else SECONDS
        try:
            with anyio.fail_after(seconds):
                output = await self._run(interactive)
        except TimeoutError:
            raise PluginError(f"the plugin {self.name} gave no answer within {seconds:g} s") from None
        return self._status(output)

    @property
    def name(self) -> str:
        return os.path.basename(self.arguments[0])

    def close(self) -> None:
        for process in self._running:
            _kill(process)

    async def _run(self, interactive: bool) -> bytes:
        spec: dict[str, Any] = {"interactive": interactive}
        if self.cluster is not None:
            spec["cluster"] = self.cluster
        info = {"apiVersion": self.api_version, "kind": "ExecCredential", "spec": spec}
        environment = {**self.environment, "KUBERNETES_EXEC_INFO": json.dumps(info)}
        try:
            process = await asyncio.create_subprocess_exec(
                *self.arguments,
                env=environment,
                stdin=None if interactive else asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                # A session of its own can be killed whole; without a terminal it could not ask for a login.
                start_new_session=not interactive,
            )
        except OSError as error:
            raise PluginError(f"the plugin {self.name} cannot be started: {error.strerror}") from None
        self._running.add(process)
        readers = [asyncio.create_task(self._read(pipe)) for pipe in (process.stdout, process.stderr)]
        try:
            output, errors = await asyncio.gather(*readers)
            await process.wait()
        finally:
            self._running.discard(process)
            for reader in readers:
                reader.cancel()  # `gather` lets the other one read on where one fails
            if process.returncode is None:
                _kill(process)
                await _wait_for_end(process, readers)
        if process.returncode != 0:
            said = " ".join(errors[:500].decode(errors="replace").split())
            raise PluginError(f"the plugin {self.name} ended with status {process.returncode}: {said}")
        return output

    async def _read(self, stream: asyncio.StreamReader | None) -> bytes:
        assert stream is not None
        read = bytearray()
        while part := await stream.read(1 << 16):
            read += part
            if len(read) > MOST_BYTES:
                raise PluginError(f"the plugin {self.name} printed more than {MOST_BYTES} bytes")
        return bytes(read)

    def _status(self, output: bytes) -> Mapping[str, Any]:
        try:
            answer = json.loads(output)
            version, kind, status = answer["apiVersion"], answer["kind"], answer["status"]
        except (ValueError, TypeError, LookupError, RecursionError):
            raise PluginError(f"the plugin {self.name} did not print an ExecCredential") from None
        if kind != "ExecCredential" or version != self.api_version or not isinstance(status, dict):
            raise PluginError(
                f"the plugin {self.name} printed {kind!s:.40} of {version!s:.60}, "
                f"expected ExecCredential of {self.api_version}"
            )
        return status


async def _wait_for_end(process: asyncio.subprocess.Process, readers: Sequence[asyncio.Task[bytes]]) -> None:
    """Read on to the ends of the pipes: asyncio waits for those too. `readers` have been cancelled."""
    with anyio.move_on_after(END_SECONDS, shield=True):
        await asyncio.wait(readers)  # a stream takes one reader at a time
        for stream in (process.stdout, process.stderr):
            while stream is not None and await stream.read(1 << 16):
                pass
        await process.wait()


def _kill(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if os.getpgid(process.pid) == process.pid:
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
