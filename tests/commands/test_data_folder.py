"""`--data`: what `reconcile apiserver` and `reconcile dev` keep between runs, as a person meets it."""

import base64
import json
import os
import signal
import ssl
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from reconcile.commands import main
from reconcile.commands.main import reconcile
from tests.commands.helpers import Command, complaint, running
from tests.embedded.api_client import CONFIG_MAPS, config_map
from tests.embedded.durable_worlds import kept, segments


class Kubectl:
    """What a client with a kubeconfig does."""

    def __init__(self, kubeconfig: Path) -> None:
        read = yaml.safe_load(kubeconfig.read_text())
        cluster, user = read["clusters"][0]["cluster"], read["users"][0]["user"]
        self.url = cluster["server"]
        self._headers = {"Authorization": f"Bearer {user['token']}", "Content-Type": "application/json"}
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        self._context = ssl.create_default_context(cadata=authority)

    def call(self, path: str, body: dict[str, Any] | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        asked = urllib.request.Request(f"{self.url}{path}", data, self._headers)
        with urllib.request.urlopen(asked, timeout=10, context=self._context) as answer:
            return json.loads(answer.read())


def up(command: Command) -> None:
    command.wait_for("Ctrl-C")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_objects_kubeconfig_and_tokens_are_good_after_a_restart(
    tmp_path: Path, number: signal.Signals
) -> None:
    data = tmp_path / "data"
    with running("apiserver", "--data", str(data), home=tmp_path) as command:
        assert command.wait_for("export") == f"export KUBECONFIG={data}/kubeconfig"
        assert command.wait_for("Ctrl-C") == f"Ctrl-C stops it; its objects stay in {data}."
        client = Kubectl(data / "kubeconfig")
        made = client.call(CONFIG_MAPS, config_map("mine", {"a": "b"}))
        account = "/api/v1/namespaces/default/serviceaccounts/default/token"
        token = client.call(account, {"spec": {}})["status"]["token"]
        kubeconfig = (data / "kubeconfig").read_text()
        command.seconds_to_end(number)
    with running("apiserver", "--data", str(data), home=tmp_path) as command:
        up(command)
        assert client.call(f"{CONFIG_MAPS}/mine") == made
        review = {"kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1", "spec": {"token": token}}
        status = client.call("/apis/authentication.k8s.io/v1/tokenreviews", review)["status"]
        assert status["authenticated"]
        assert (data / "kubeconfig").read_text() == kubeconfig
        command.seconds_to_end()
        assert (command.process.returncode, command.complaints) == (0, "")


def test_a_second_server_on_the_folder_is_refused_in_one_line(tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    (tmp_path / "second").mkdir()
    with running("apiserver", "--data", data, home=tmp_path) as first:
        up(first)
        with running("apiserver", "--data", data, home=tmp_path / "second") as second:
            assert second.process.wait(30) == 2
            assert second.complaints == (
                f"error: another server (process {first.process.pid}) uses the data folder {data}: "
                "stop it, or choose another folder\n"
            )
        assert Kubectl(Path(data) / "kubeconfig").call("/version")


def test_what_cannot_be_used_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    assert f"{file} is a file: name a folder" in complaint(capsys, "apiserver", "--data", str(file))
    assert "holds file and no log" in complaint(capsys, "apiserver", "--data", str(tmp_path))
    assert "add --data DIR" in complaint(capsys, "apiserver", "--repair")
    assert "cannot use the data folder" in complaint(capsys, "apiserver", "--data", f"{file}/below")


def test_a_damaged_log_is_refused_and_repair_says_what_it_drops(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "data"
    with kept(data) as api:
        api.ok("POST", CONFIG_MAPS, config_map("a"))
    [segment] = segments(data)
    content = bytearray(segment.read_bytes())
    content[-30] ^= 1
    segment.write_bytes(content)
    line = complaint(capsys, "apiserver", "--data", str(data))
    assert f"{segment} is damaged at byte" in line
    assert "--repair" in line
    with running("apiserver", "--data", str(data), "--repair", home=tmp_path) as command:
        up(command)
        assert f"repaired {segment}, damaged at byte" in command.complaints
        assert "0 records of 0 objects" in command.complaints
        listed = Kubectl(data / "kubeconfig").call(CONFIG_MAPS)["items"]
        assert listed == []


def test_the_port_of_the_last_run_is_taken_again_if_it_is_free(tmp_path: Path) -> None:
    data, urls = tmp_path / "data", []
    for options in ((), (), ("--insecure-http",)):
        with running("apiserver", "--data", str(data), *options, home=tmp_path) as command:
            urls.append(command.wait_for("API server on ").rpartition(":")[2])
            up(command)
            command.seconds_to_end()
    assert len(set(urls)) == 1


# --- dev --------------------------------------------------------------------------------------


@pytest.fixture
def greeter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(reconcile, ["init", "greeter"]).exit_code == 0
    return tmp_path / "greeter"


def dev_client(command: Command) -> Kubectl:
    kubeconfig = command.wait_for("export KUBECONFIG=").partition("=")[2]
    command.wait_for("started greeter")
    return Kubectl(Path(kubeconfig))


def test_dev_keeps_its_world_in_the_project_until_fresh(greeter: Path) -> None:
    world = greeter / ".reconcile" / "greeter"
    with running("dev", "greeter", home=greeter) as command:
        client = dev_client(command)
        made = client.call(CONFIG_MAPS, config_map("mine"))
        assert (greeter / ".reconcile" / ".gitignore").read_text() == "*\n"
        assert (world / "kubeconfig").is_file()
        command.seconds_to_end()
    with running("dev", "greeter", home=greeter) as command:
        dev_client(command)
        assert client.call(f"{CONFIG_MAPS}/mine") == made  # with the kubeconfig of the first run
        command.seconds_to_end()
    with running("dev", "greeter", "--fresh", home=greeter) as command:
        assert dev_client(command).call(CONFIG_MAPS)["items"] == []


def test_dev_keeps_it_elsewhere_on_request(greeter: Path) -> None:
    elsewhere = greeter / "elsewhere"
    with running("dev", "greeter", "--data", str(elsewhere), home=greeter) as command:
        dev_client(command)
        assert segments(elsewhere)
        assert not (greeter / ".reconcile").exists()


def test_fresh_leaves_a_folder_of_something_else_alone(
    greeter: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(greeter)
    monkeypatch.syspath_prepend(str(greeter))
    before = sorted(os.listdir(greeter))
    assert main(["dev", "greeter", "--fresh", "--data", str(greeter)]) == 2
    assert "and no log of a server" in capsys.readouterr().err
    assert sorted(os.listdir(greeter)) == before
