"""A Kubernetes API server for tests of any style and client: a process of its own, reached by kubeconfig.

Nothing here imports the runtime, and tests that use it need not be async.
"""

import base64
import json
import os
import ssl
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Event, Timer
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import HTTPSHandler, OpenerDirector, ProxyHandler, Request, build_opener

from attrs import field, frozen

START_SECONDS = 60.0
STOP_SECONDS = 10.0
SERVED_SECONDS = 30.0
_POLL_SECONDS = 0.05
_LAST_CHARACTERS = 2000
_NOT_FOUND = 404
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


class KubeApiserverFailed(RuntimeError):
    """The server did not start, or refused a request; has its own words. `status` is the HTTP status."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


@frozen
class KubeApiserver:
    """A server on this machine, for its administrator: the fixtures `kube_apiserver`, `fresh_kube_apiserver`.

    Clients of any kind reach it with `kubeconfig`, or with `url`, `token` and `ca_file`. `real` is True
    for a kube-apiserver.
    """

    url: str
    kubeconfig: Path
    token: str | None = field(repr=False)
    ca_file: Path | None
    real: bool = False

    def request(
        self, method: str, path: str, body: object = None, *, content_type: str = "application/json"
    ) -> Any:
        """Send a request and return the JSON of its answer. Raises KubeApiserverFailed for a refusal."""
        headers = {"Content-Type": content_type}
        if self.token is not None:
            headers["Authorization"] = f"Bearer {self.token}"
        data = None if body is None else json.dumps(body).encode()
        try:
            with self._opener().open(Request(f"{self.url}{path}", data, headers, method=method)) as answer:
                return json.loads(answer.read())
        except HTTPError as error:
            with error:
                raise KubeApiserverFailed(f"{method} {path}: {_words(error)}", error.code) from None

    def install(self, *paths: Path | str) -> None:
        """Install the CustomResourceDefinitions of these files and folders; their kinds are served then.

        Raises ValueError for a file that cannot be read or holds none, and KubeApiserverFailed for one that
        the server refuses.
        """
        from reconcile.testing.definition_files import read_definitions

        definitions = read_definitions(Path(path) for path in paths)
        query = urlencode({"fieldManager": "kube-apiserver-fixture", "force": "true"})
        for one in definitions:
            path = f"{_DEFINITIONS}/{one.name}?{query}"
            try:
                self.request("PATCH", path, one.content, content_type="application/apply-patch+yaml")
            except KubeApiserverFailed as failed:
                raise KubeApiserverFailed(f"{one.file}: {failed}", failed.status) from None
        for one in definitions:
            self._wait_until_served(one.content)

    @contextmanager
    def namespace(self, prefix: str = "test") -> Iterator[str]:
        """A new, empty namespace, deleted at the end."""
        metadata = {"generateName": f"{prefix}-"}
        made = self.request("POST", "/api/v1/namespaces", {"metadata": metadata})
        name: str = made["metadata"]["name"]
        try:
            yield name
        finally:
            with suppress(KubeApiserverFailed):  # the test may have deleted it
                self.request("DELETE", f"/api/v1/namespaces/{name}")

    def _opener(self) -> OpenerDirector:
        """It uses no proxy, whatever the environment says: the server is on this machine."""
        trusted = None if self.ca_file is None else ssl.create_default_context(cafile=self.ca_file)
        return build_opener(ProxyHandler({}), HTTPSHandler(context=trusted))

    def _wait_until_served(self, definition: Mapping[str, Any]) -> None:
        spec = definition["spec"]
        served = [version["name"] for version in spec["versions"] if version["served"]]
        paths = [f"/apis/{spec['group']}/{name}/{spec['names']['plural']}" for name in served]
        for _ in range(round(SERVED_SECONDS / _POLL_SECONDS)):
            if all(self._serves(path) for path in paths):
                return
            Event().wait(_POLL_SECONDS)
        raise KubeApiserverFailed(
            f"{definition['metadata']['name']} is not served after {SERVED_SECONDS:g} s: see its status"
        )

    def _serves(self, path: str) -> bool:
        try:
            self.request("GET", f"{path}?limit=1")
        except KubeApiserverFailed as failed:
            if failed.status != _NOT_FOUND:
                raise
            return False
        return True


@contextmanager
def running_kube_apiserver(
    definitions: Iterable[Path | str] = (), options: Sequence[str] = ()
) -> Iterator[KubeApiserver]:
    """Run a server with these definitions installed until the context is left.

    It is `reconcile apiserver` with these further `options`, or a real etcd and kube-apiserver, without
    options, where KUBEBUILDER_ASSETS names their folder. Raises KubeApiserverFailed and ValueError.
    """
    with ExitStack() as stack:
        if os.environ.get("KUBEBUILDER_ASSETS"):
            server = stack.enter_context(_real())
        else:
            server = stack.enter_context(_embedded(options))
        paths = tuple(definitions)
        if paths:
            server.install(*paths)
        yield server


@contextmanager
def _embedded(options: Sequence[str]) -> Iterator[KubeApiserver]:
    with tempfile.TemporaryDirectory(prefix="kube-apiserver-") as folder:
        home = Path(folder)
        kubeconfig, log = home / "kubeconfig", home / "stderr"
        # -P: a folder `reconcile` of the project under test is not ours.
        command = [sys.executable, "-P", "-m", "reconcile", "apiserver", "--json", "--until-eof"]
        command += ["--kubeconfig-out", str(kubeconfig), *options]
        with log.open("wb") as errors:
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, start_new_session=True
            )
        with _ending(process):
            line = _first_line(process)
            if not line.startswith("{"):
                words = log.read_text(errors="replace")[-_LAST_CHARACTERS:].strip()
                raise KubeApiserverFailed(
                    f"`reconcile apiserver` did not start: {words or 'it said nothing'}"
                )
            yield _reached(json.loads(line)["url"], kubeconfig, home, real=False)


@contextmanager
def _real() -> Iterator[KubeApiserver]:
    from reconcile.testing import control_plane

    folder = control_plane.assets()
    if folder is None:
        raise KubeApiserverFailed("KUBEBUILDER_ASSETS is not set")
    with control_plane.real(folder) as endpoint, tempfile.TemporaryDirectory() as home:
        yield _reached(endpoint.url, endpoint.kubeconfig, Path(home), real=True)


@contextmanager
def _ending(process: "subprocess.Popen[bytes]") -> Iterator[None]:
    """End the process by the end of its input, as it would end if this process were killed."""
    try:
        yield
    finally:
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _first_line(process: "subprocess.Popen[bytes]") -> str:
    """Its first line of output; empty if it ended, or was not ready in time."""
    if process.stdout is None:
        return ""
    limit = Timer(START_SECONDS, process.kill)
    limit.start()
    try:
        return process.stdout.readline().decode()
    finally:
        limit.cancel()


def _reached(url: str, kubeconfig: Path, home: Path, *, real: bool) -> KubeApiserver:
    import yaml

    content = yaml.safe_load(kubeconfig.read_bytes())
    authority = content["clusters"][0]["cluster"].get("certificate-authority-data")
    ca_file = None
    if authority is not None:
        ca_file = home / "ca.crt"
        ca_file.write_bytes(base64.b64decode(authority))
    return KubeApiserver(url, kubeconfig, content["users"][0]["user"].get("token"), ca_file, real)


def _words(error: HTTPError) -> str:
    text = error.read().decode(errors="replace")
    try:
        status = json.loads(text)
    except ValueError:
        return f"{error.code} {text.strip()}"
    message = status.get("message") if isinstance(status, dict) else None
    return f"{error.code} {message or text}"
