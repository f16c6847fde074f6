"""What Go says of base64, JSON and URLs that it cannot read."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconcile.embedded.protocol.base64_faults import base64_fault
from reconcile.embedded.protocol.go_urls import UrlFault, read_url
from reconcile.embedded.protocol.json_faults import json_fault


@given(st.binary(max_size=40))
def test_what_was_encoded_has_no_fault(data: bytes) -> None:
    assert base64_fault(base64.b64encode(data).decode()) == ""
    assert base64_fault(base64.encodebytes(data).decode()) == ""


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("***", 0),
        ("1", 0),
        ("abc", 0),
        ("abcde", 4),
        ("ab=", 3),
        ("ab=c", 2),
        ("abc=d", 4),
        ("a===", 1),
        ("é", 0),
    ],
)
def test_a_fault_of_base64_is_at_the_byte_where_go_stops(text: str, at: int) -> None:
    assert base64_fault(text) == f"illegal base64 data at input byte {at}"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("not json", "invalid character 'o' in literal null (expecting 'u')"),
        ("hello", "invalid character 'h' looking for beginning of value"),
        ("[1", "unexpected end of JSON input"),
        ("", "unexpected end of JSON input"),
        ('{"a" 1}', "invalid character '1' after object key"),
        ("{a: 1}", "invalid character 'a' looking for beginning of object key string"),
        ("[1 2]", "invalid character '2' after array element"),
        ('{"a": 1 "b"}', "invalid character '\"' after object key:value pair"),
        ("1 x", "invalid character 'x' after top-level value"),
        (f"[{'1' * 5_000} x", "invalid character 'x' after array element"),
    ],
)
def test_a_fault_of_json_is_worded_as_by_go(text: str, why: str) -> None:
    assert json_fault(text.encode()) == why


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("%%", 'parse "%%": invalid URL escape "%%"'),
        ("https://h/%zz1", 'parse "https://h/%zz1": invalid URL escape "%zz"'),
        (":x", 'parse ":x": missing protocol scheme'),
        ("https://h:x/", 'parse "https://h:x/": invalid port ":x" after host'),
        ("https://a b/", 'parse "https://a b/": invalid character " " in host name'),
    ],
)
def test_a_fault_of_a_url_is_worded_as_by_go(url: str, why: str) -> None:
    with pytest.raises(UrlFault) as fault:
        read_url(url)
    assert str(fault.value) == why
