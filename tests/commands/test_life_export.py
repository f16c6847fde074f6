"""`reconcile explain --export`: the files, and what happens where one cannot be written."""

import errno
import json
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from attrs import define, field

from reconcile.commands import main
from tests.helpers.lives import a_life
from tests.helpers.otlp import read_spans


@define
class FakeManager:
    """Answers /status/object with `body`, as a manager would."""

    status: int = 200
    body: bytes = field(factory=lambda: json.dumps({**a_life(), "of_a_later_version": 1}).encode())
    asked: list[str] = field(factory=list)
    address: str = ""

    def explain(self, *arguments: str) -> int:
        return main(["explain", "Site", "default/shop", "--manager", self.address, *arguments])


@pytest.fixture
def manager() -> Iterator[FakeManager]:
    fake = FakeManager()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            fake.asked.append(self.path)
            self.send_response(fake.status)
            self.send_header("Content-Length", str(len(fake.body)))
            self.end_headers()
            self.wfile.write(fake.body)

        def log_message(self, *_: object) -> None:
            """Stay silent."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    fake.address = f"http://127.0.0.1:{server.server_port}"
    yield fake
    server.shutdown()
    thread.join()
    server.server_close()


def test_the_name_of_the_file_says_its_form(
    manager: FakeManager, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("shop.json", "shop.html", "shop.otlp.json", "SHOP.HTML"):
        assert manager.explain("--export", str(tmp_path / name)) == 0
        assert capsys.readouterr().out == f"{tmp_path / name}\n"
    assert json.loads((tmp_path / "shop.json").read_text())["of_a_later_version"] == 1
    assert (tmp_path / "shop.html").read_text().startswith("<!doctype html>")
    assert (tmp_path / "SHOP.HTML").read_bytes() == (tmp_path / "shop.html").read_bytes()
    assert (tmp_path / "shop.otlp.json").read_text().count("\n") == 1, "collectors read line by line"
    assert [span["name"] for span in read_spans((tmp_path / "shop.otlp.json").read_text())][:2] == [
        "Site default/shop",
        "reconcile site",
    ]
    assert parse_qs(urlsplit(manager.asked[0]).query) == {"controller": ["Site"], "key": ["default/shop"]}
    assert urlsplit(manager.asked[0]).path == "/status/object"


def test_a_dash_prints_the_json_alone(manager: FakeManager, capsys: pytest.CaptureFixture[str]) -> None:
    assert manager.explain("--export", "-") == 0
    assert json.loads(capsys.readouterr().out)["key"] == "default/shop"


def test_an_earlier_file_is_replaced_and_a_link_to_it_stays(manager: FakeManager, tmp_path: Path) -> None:
    target, link = tmp_path / "real.json", tmp_path / "link.json"
    target.write_text("old")
    link.symlink_to(target)
    assert manager.explain("--export", str(link)) == 0
    assert link.is_symlink()
    assert json.loads(target.read_text())["version"] == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.json", "real.json"]


@pytest.mark.rule("life-export")
@pytest.mark.parametrize("step", ["write", "replace"])
def test_on_a_full_disk_the_earlier_file_stays_and_nothing_else_is_left(
    step: str,
    manager: FakeManager,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    target = tmp_path / "shop.html"
    target.write_text("old")
    opened = Path.open

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def open_full(self: Path, *arguments: str, **options: str) -> object:
        file = opened(self, *arguments, **options)  # type: ignore[call-overload]
        if self.parent == tmp_path and step == "write":
            monkeypatch.setattr(file, "write", full, raising=False)
        return file

    monkeypatch.setattr(Path, "open", open_full)
    if step == "replace":
        monkeypatch.setattr(Path, "replace", full)
    assert manager.explain("--export", str(target)) == 2
    assert capsys.readouterr().err == (
        f"error: cannot write {target}: No space left on device; name another file\n"
    )
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize(
    ("name", "why"), [("none/shop.json", "No such file or directory"), ("folder.json", "Is a directory")]
)
def test_a_place_that_cannot_be_written_is_said_with_the_next_step(
    name: str, why: str, manager: FakeManager, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "folder.json").mkdir()
    assert manager.explain("--export", str(tmp_path / name)) == 2
    said = capsys.readouterr().err
    assert said == f"error: cannot write {tmp_path / name}: {why}; name another file\n"
    assert list(tmp_path.iterdir()) == [tmp_path / "folder.json"]


def test_a_name_of_no_form_is_refused_before_the_manager_is_asked(
    manager: FakeManager, capsys: pytest.CaptureFixture[str]
) -> None:
    assert manager.explain("--export", "shop.pdf") == 2
    assert capsys.readouterr().err == (
        "error: the name shop.pdf does not say in which form to export: "
        "end it with .html, .json or .otlp.json\n"
    )
    assert manager.asked == []


@pytest.mark.parametrize("other", ["--follow", "--json"])
def test_an_export_is_not_mixed_with_other_output(
    other: str, manager: FakeManager, capsys: pytest.CaptureFixture[str]
) -> None:
    assert manager.explain("--export", "shop.html", other) == 2
    assert capsys.readouterr().err == "error: --export takes no --follow and no --json: leave them out\n"


@pytest.mark.parametrize("body", [b"{}", b"<html>", b'{"version":2}', b"\xff"])
def test_what_is_not_a_life_writes_no_file(
    body: bytes, manager: FakeManager, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manager.body = body
    assert manager.explain("--export", str(tmp_path / "shop.html")) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"error: {manager.address} does not answer with the life of an object (")
    assert said.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_what_the_manager_says_is_passed_on(manager: FakeManager, capsys: pytest.CaptureFixture[str]) -> None:
    manager.status, manager.body = 400, b"several controllers work on Site default/shop: name one of a, b\n"
    assert manager.explain("--export", "-") == 2
    assert "several controllers work on Site default/shop: name one of a, b" in capsys.readouterr().err


def test_an_older_manager_is_said_to_be_older(
    manager: FakeManager, capsys: pytest.CaptureFixture[str]
) -> None:
    manager.status, manager.body = 404, b"404: Not Found"
    assert manager.explain("--export", "-") == 2
    assert "has no /status/object: its manager is older than this command" in capsys.readouterr().err
