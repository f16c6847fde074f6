"""The commands that ask a manager, asking something else: each ends with one line that says what to do."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from reconcile.commands import debug_client, main

Answer = Callable[[BaseHTTPRequestHandler], None]


@contextmanager
def server(answer: Answer) -> Iterator[tuple[str, list[str | None]]]:
    """The address of a server that gives this answer, and the tokens that it was sent."""
    tokens: list[str | None] = []

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            tokens.append(self.headers["Authorization"])
            answer(self)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Page) as found:
        thread = threading.Thread(target=found.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{found.server_port}", tokens
        finally:
            found.shutdown()
            thread.join()


def body(text: str) -> Answer:
    def answer(page: BaseHTTPRequestHandler) -> None:
        page.send_response(200)
        page.end_headers()
        page.wfile.write(text.encode())

    return answer


COMMANDS = (("explain", "Toy", "default/a"), ("explain", "Toy", "default/a", "-f"), ("top", "--once"))


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize(
    "text",
    ["<html>", "[1, 2]", "null", '{"controllers": [{"kind": 1}]}', '{"controllers": 7}', "[" * 200_000],
    ids=lambda text: text[:20],
)
def test_another_answer_than_a_managers_is_said_in_one_line(
    command: tuple[str, ...], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with server(body(text)) as (address, _):
        assert main([*command, "--manager", address]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line == (
        f"error: {address} does not answer like a manager of this version: "
        "pass the address of a manager with --manager"
    )


def test_an_answer_without_an_end_is_not_read_to_the_end(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(debug_client, "MOST", 1 << 20)
    with server(body("x" * ((1 << 20) + 1))) as (address, _):
        assert main(["explain", "Toy", "default/a", "--manager", address]) == 2
    assert f"error: {address} answers with more than 1 MiB" in capsys.readouterr().err


def test_a_token_does_not_follow_to_another_address(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    token = tmp_path / "token"
    token.write_text("t0ken")
    with server(body("{}")) as (elsewhere, leaked):

        def lead_away(page: BaseHTTPRequestHandler) -> None:
            page.send_response(302)
            page.send_header("Location", f"{elsewhere}/debug/explain")
            page.end_headers()

        with server(lead_away) as (address, tokens):
            given = ["explain", "Toy", "default/a", "--manager", address, "--token-file", str(token)]
            assert main(given) == 2
    assert (tokens, leaked) == (["Bearer t0ken"], [])
    assert f"error: {address} leads to another address" in capsys.readouterr().err


def test_a_refusal_that_is_cut_off_is_said_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    def half(page: BaseHTTPRequestHandler) -> None:
        page.send_response(500)
        page.send_header("Content-Length", "100")
        page.end_headers()
        page.wfile.write(b"half")
        page.close_connection = True

    with server(half) as (address, _):
        assert main(["explain", "Toy", "default/a", "--manager", address]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ")


@pytest.mark.parametrize("address", ["http://[::1", "http://", "ftp://host", "http://host:port"])
def test_what_is_no_address_is_refused(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["top", "--manager", address]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line == (
        f"error: {address} is not the address of a manager: write http://HOST:PORT or https://HOST:PORT"
    )


@pytest.mark.parametrize("token", [b"\xff\xfe", b"one\ntwo", "gr\u00fcn".encode()])
def test_what_is_no_token_is_refused(
    token: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "token").write_bytes(token)
    assert main(["top", "--manager", "http://127.0.0.1:1", "--token-file", str(tmp_path / "token")]) == 2
    assert "does not hold a token: expected one line of printable ASCII" in capsys.readouterr().err
