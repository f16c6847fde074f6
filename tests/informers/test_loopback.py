"""Which hosts mean this very machine."""

import pytest

from informers.loopback import is_loopback


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("localhost", True),
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("[::1]", True),
        ("::1%lo", True),
        ("", False),
        (None, False),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.1", False),
        ("fe80::1%eth0", False),
        ("localhost.example.com", False),
        ("127.0.0.1.example.com", False),
    ],
)
def test_a_host_is_recognised_as_loopback_by_its_text_alone(host: str | None, expected: bool) -> None:
    assert is_loopback(host) is expected
