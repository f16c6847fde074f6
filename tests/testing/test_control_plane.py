"""The real control plane is started, told what to do, and ended; stand-ins play its programs here."""

import base64
import json
import os
import ssl
import stat
import subprocess
import sys
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
import yaml

from reconcile.testing import control_plane
from reconcile.testing.control_plane import DidNotStart

STAND_IN = """#!{python}
import json, os, pathlib, signal, ssl, sys, time
from http.server import BaseHTTPRequestHandler, HTTPServer

name = pathlib.Path(sys.argv[0]).name
here = pathlib.Path(sys.argv[0]).parent
options = dict(argument[2:].split("=", 1) for argument in sys.argv[1:])

def end(*_):
    with (here / "ended").open("a") as file:
        file.write(name + " ")
    os._exit(0)

signal.signal(signal.SIGTERM, end)
(here / (name + ".part")).write_text(json.dumps({{"pid": os.getpid(), "options": options}}))
(here / (name + ".part")).rename(here / (name + ".json"))
print("the last words of", name, flush=True)
if (here / (name + ".fails")).exists():
    sys.exit(3)
if name == "etcd":
    signal.pause()

looks = 0

class Answers(BaseHTTPRequestHandler):
    def do_GET(self):
        global looks
        looks += 1
        token = pathlib.Path(options["token-auth-file"]).read_text().partition(",")[0]
        known = self.headers["Authorization"] == "Bearer " + token
        ready = looks > 1 and (here / "etcd.json").exists() and not (here / "never-ready").exists()
        self.send_response(401 if not known else 200 if ready else 500)
        self.end_headers()

    def log_message(self, *_):
        pass

server = HTTPServer((options["bind-address"], int(options["secure-port"])), Answers)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(options["tls-cert-file"], options["tls-private-key-file"])
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
"""


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    for name in ("etcd", "kube-apiserver"):
        program = tmp_path / name
        program.write_text(STAND_IN.format(python=sys.executable))
        program.chmod(0o755)
    return tmp_path


def started(programs: Path, name: str) -> dict[str, str]:
    options: dict[str, str] = json.loads((programs / f"{name}.json").read_text())["options"]
    return options


def runs(programs: Path, name: str) -> bool:
    if not (programs / f"{name}.json").exists():
        return False  # it was ended before it could say who it is
    try:
        os.kill(json.loads((programs / f"{name}.json").read_text())["pid"], 0)
    except ProcessLookupError:
        return False
    return True


def test_etcd_and_the_server_start_on_free_ports_and_stop_in_order(programs: Path) -> None:
    with control_plane.real(programs) as endpoint:
        etcd, server = started(programs, "etcd"), started(programs, "kube-apiserver")
        assert endpoint.real
        assert endpoint.url == f"https://127.0.0.1:{server['secure-port']}"
        assert server["etcd-servers"] == etcd["listen-client-urls"] == etcd["advertise-client-urls"]
        assert server["etcd-servers"].startswith("http://127.0.0.1:")
        assert etcd["listen-peer-urls"] in etcd["initial-cluster"]
        assert server["authorization-mode"] == "RBAC"
        home = endpoint.kubeconfig.parent
    assert (programs / "ended").read_text() == "kube-apiserver etcd "
    assert not runs(programs, "etcd")
    assert not runs(programs, "kube-apiserver")
    assert not home.exists()


def test_the_kubeconfig_connects_to_the_server_as_its_administrator(programs: Path) -> None:
    with control_plane.real(programs) as endpoint:
        config = yaml.safe_load(endpoint.kubeconfig.read_text())
        token = config["users"][0]["user"]["token"]
        line = Path(started(programs, "kube-apiserver")["token-auth-file"]).read_text()
        assert line == f'{token},admin,admin,"system:masters"\n'
        ca = base64.b64decode(config["clusters"][0]["cluster"]["certificate-authority-data"])
        context = ssl.create_default_context(cadata=ca.decode())
        request = Request(f"{endpoint.url}/readyz", headers={"Authorization": f"Bearer {token}"})
        assert urlopen(request, context=context, timeout=5).status == 200


def test_only_the_owner_can_read_keys_and_tokens(programs: Path) -> None:
    with control_plane.real(programs) as endpoint:
        home = endpoint.kubeconfig.parent
        assert stat.S_IMODE(home.stat().st_mode) == 0o700
        for name in ("server.key", "accounts.key", "tokens.csv", "kubeconfig"):
            assert stat.S_IMODE((home / name).stat().st_mode) == 0o600, name


@pytest.mark.parametrize("name", ["etcd", "kube-apiserver"])
def test_a_program_that_ends_at_once_is_reported_with_its_last_output(programs: Path, name: str) -> None:
    (programs / f"{name}.fails").touch()
    with pytest.raises(DidNotStart) as caught, control_plane.real(programs):
        pass
    assert f"{name} ended with status 3" in str(caught.value)
    assert f"the last words of {name}" in str(caught.value)
    assert not runs(programs, "etcd")


def test_a_server_that_never_becomes_ready_is_stopped_and_reported(programs: Path) -> None:
    (programs / "never-ready").touch()
    with (
        pytest.raises(DidNotStart, match=r"not ready after 1 s \(500\)"),
        control_plane.real(programs, start_seconds=1),
    ):
        pass
    assert not runs(programs, "kube-apiserver")


def test_the_variable_must_name_a_folder_with_both_programs(programs: Path, tmp_path: Path) -> None:
    assert control_plane.assets({}) is None
    assert control_plane.assets({"KUBEBUILDER_ASSETS": str(programs)}) == programs
    (programs / "etcd").unlink()
    with pytest.raises(DidNotStart, match="has no program etcd"):
        control_plane.assets({"KUBEBUILDER_ASSETS": str(programs)})


SERVES = """#!{python}
import pathlib, ssl, sys, time
import anyio
from reconcile.embedded import ApiServer, http
from reconcile.embedded.listener.certificates import ServingCertificate

options = dict(argument[2:].split("=", 1) for argument in sys.argv[1:])
with (pathlib.Path(sys.argv[0]).parent / "starts").open("a") as file:
    file.write("once ")
while not (pathlib.Path(sys.argv[0]).parent / "etcd.json").exists():
    time.sleep(0.05)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(options["tls-cert-file"], options["tls-private-key-file"])
http.make_certificate = lambda *_, **__: ServingCertificate(context, b"")
token = pathlib.Path(options["token-auth-file"]).read_text().partition(",")[0]

async def main():
    server = ApiServer()
    async with http.serve(server, options["bind-address"], int(options["secure-port"]), token=token):
        await server.run()

anyio.run(main)
"""


@pytest.mark.rule("kit-listening")
def test_with_the_variable_set_the_same_tests_run_on_the_programs_that_it_names(programs: Path) -> None:
    (programs / "kube-apiserver").write_text(SERVES.format(python=sys.executable))
    tests = Path(__file__).parent / "test_fixture_handles.py"
    options = ("-q", "-p", "no:cacheprovider", "-k", "listen or loopback")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, str(tests)],
        cwd=tests.parents[2],
        env={**os.environ, "KUBEBUILDER_ASSETS": str(programs)},
        capture_output=True,
        text=True,
        timeout=55,
        check=False,
    )
    assert "3 passed" in done.stdout, done.stdout
    assert (programs / "starts").read_text() == "once "
    assert not runs(programs, "etcd")
