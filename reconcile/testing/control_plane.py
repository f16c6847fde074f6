"""HTTPS servers for tests, outside any test's event loop: embedded in a thread, or a real kube-apiserver."""

import os
import shutil
import socket
import ssl
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from http.client import HTTPException, HTTPSConnection
from pathlib import Path

import anyio
from anyio.from_thread import start_blocking_portal
from attrs import frozen

from informers.clock import SystemClock
from reconcile.embedded import ApiServer
from reconcile.embedded.http import ServerHandle, serve
from reconcile.embedded.listener.admin_kubeconfig import write_kubeconfig

ASSETS = "KUBEBUILDER_ASSETS"
"""The variable for the folder of `etcd` and `kube-apiserver`; kubebuilder's tools use the same."""

START_SECONDS = 60.0
STOP_SECONDS = 10.0
_POLL_SECONDS = 0.1
_LAST_LINES = 20


class DidNotStart(RuntimeError):
    """A program of the control plane ended, or was not ready in time; has its last lines of output."""


@frozen
class ServerEndpoint:
    url: str
    kubeconfig: Path
    real: bool


def assets(environ: Mapping[str, str] = os.environ) -> Path | None:
    """The folder of the real programs; None without the variable. Raises DidNotStart if one is missing."""
    if not environ.get(ASSETS):
        return None
    folder = Path(environ[ASSETS])
    missing = [name for name in ("etcd", "kube-apiserver") if not os.access(folder / name, os.X_OK)]
    if missing:
        raise DidNotStart(f"{ASSETS} is {folder}, which has no program {' and no program '.join(missing)}")
    return folder


@contextmanager
def embedded() -> Iterator[ServerEndpoint]:
    """The embedded server on HTTPS, in a thread with an event loop of its own."""
    with ExitStack() as stack:
        folder = stack.enter_context(_private_folder())
        portal = stack.enter_context(start_blocking_portal())
        face = stack.enter_context(portal.wrap_async_context_manager(_serving(SystemClock().uuid().hex)))
        kubeconfig = folder / "kubeconfig"
        write_kubeconfig(kubeconfig, face.url, face.ca_pem, face.token)
        yield ServerEndpoint(face.url, kubeconfig, real=False)


@asynccontextmanager
async def _serving(token: str) -> AsyncIterator[ServerHandle]:
    server = ApiServer()
    async with serve(server, token=token) as face, anyio.create_task_group() as tasks:
        tasks.start_soon(server.run)
        yield face
        tasks.cancel_scope.cancel()


@contextmanager
def real(folder: Path, *, start_seconds: float = START_SECONDS) -> Iterator[ServerEndpoint]:
    """Run a folder's etcd and kube-apiserver on free local ports, with an empty store. Raises DidNotStart."""
    with ExitStack() as stack:
        home = stack.enter_context(_private_folder())
        keys = _write_keys(home)
        store = f"http://127.0.0.1:{_free_port()}"
        arguments = etcd_arguments(home, store, f"http://127.0.0.1:{_free_port()}")
        etcd = stack.enter_context(_running(folder / "etcd", arguments, home))
        port = _free_port()
        arguments = apiserver_arguments(home, store, port)
        apiserver = stack.enter_context(_running(folder / "kube-apiserver", arguments, home))
        _wait_until_ready(port, keys, [etcd, apiserver], start_seconds)
        url, kubeconfig = f"https://127.0.0.1:{port}", home / "kubeconfig"
        write_kubeconfig(kubeconfig, url, keys.ca_pem, keys.token)
        yield ServerEndpoint(url, kubeconfig, real=True)


def etcd_arguments(home: Path, client: str, peer: str) -> list[str]:
    """A single etcd for this machine, which need not survive a power failure."""
    return [
        f"--data-dir={home / 'etcd'}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--unsafe-no-fsync=true",
    ]


def apiserver_arguments(home: Path, store: str, port: int) -> list[str]:
    return [
        f"--etcd-servers={store}",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        f"--secure-port={port}",
        f"--cert-dir={home}",
        f"--tls-cert-file={home / 'server.crt'}",
        f"--tls-private-key-file={home / 'server.key'}",
        f"--token-auth-file={home / 'tokens.csv'}",
        f"--service-account-key-file={home / 'accounts.key'}",
        f"--service-account-signing-key-file={home / 'accounts.key'}",
        "--service-account-issuer=https://kubernetes.default.svc",
        "--service-cluster-ip-range=10.0.0.0/24",
        "--authorization-mode=RBAC",
        "--disable-admission-plugins=ServiceAccount",
        "--allow-privileged=true",
    ]


@frozen
class _ServingKeys:
    ca_pem: bytes
    token: str


def _write_keys(home: Path) -> _ServingKeys:
    """Make the server's certificate and its administrator's token, in files that only this user may read."""
    import trustme
    from cryptography.hazmat.primitives.asymmetric import rsa
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    authority = trustme.CA(organization_name="reconcile-runtime tests")
    leaf = authority.issue_cert("127.0.0.1", "localhost")
    token = SystemClock().uuid().hex
    accounts = rsa.generate_private_key(65537, 2048)
    files = {
        "server.crt": b"".join(blob.bytes() for blob in leaf.cert_chain_pems),
        "server.key": leaf.private_key_pem.bytes(),
        "accounts.key": accounts.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
        "tokens.csv": f'{token},admin,admin,"system:masters"\n'.encode(),
    }
    for name, content in files.items():
        (home / name).touch(mode=0o600)
        (home / name).write_bytes(content)
    return _ServingKeys(authority.cert_pem.bytes(), token)


@contextmanager
def _private_folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="reconcile-test-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@frozen
class _Program:
    name: str
    process: "subprocess.Popen[bytes]"
    log: Path

    def check(self) -> None:
        code = self.process.poll()
        if code is not None:
            raise DidNotStart(f"{self.name} ended with status {code}:\n{self.last_lines()}")

    def last_lines(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines()[-_LAST_LINES:]
        return "\n".join(f"  {line}" for line in lines) or "  (it printed nothing)"


@contextmanager
def _running(program: Path, arguments: Sequence[str], home: Path) -> Iterator[_Program]:
    log = home / f"{program.name}.log"
    with log.open("wb") as out:
        process = subprocess.Popen([program, *arguments], stdin=subprocess.DEVNULL, stdout=out, stderr=out)
    try:
        yield _Program(program.name, process, log)
    finally:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_until_ready(port: int, keys: _ServingKeys, programs: Sequence[_Program], seconds: float) -> None:
    context = ssl.create_default_context(cadata=keys.ca_pem.decode())
    attempts = max(1, round(seconds / _POLL_SECONDS))
    answer = "no answer"
    for _ in range(attempts):
        for program in programs:
            program.check()
        answer = _readiness(port, keys.token, context)
        if answer == "200":
            return
        with suppress(subprocess.TimeoutExpired):
            programs[-1].process.wait(_POLL_SECONDS)
    words = "\n".join(f"{program.name}:\n{program.last_lines()}" for program in programs)
    raise DidNotStart(f"kube-apiserver was not ready after {seconds:g} s ({answer}):\n{words}")


def _readiness(port: int, token: str, context: ssl.SSLContext) -> str:
    connection = HTTPSConnection("127.0.0.1", port, timeout=5, context=context)
    try:
        connection.request("GET", "/readyz", headers={"Authorization": f"Bearer {token}"})
        return str(connection.getresponse().status)
    except (OSError, HTTPException) as error:
        return str(error)
    finally:
        connection.close()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
