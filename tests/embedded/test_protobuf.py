"""Protobuf bodies, as kubectl's imperative commands send them."""

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconcile.embedded.kubectl.protobuf import to_json
from reconcile.embedded.kubectl.protobuf_messages import KINDS, MESSAGES
from reconcile.embedded.protocol.api_failure import Failure


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*out, value))


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def text(field: int, value: str | bytes) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | 2) + varint(len(data)) + data


def envelope(api_version: str, kind: str, raw: bytes) -> bytes:
    meta = text(1, api_version) + text(2, kind)
    return b"k8s\x00" + text(1, meta) + text(2, raw) + text(3, "") + text(4, "")


def read(api_version: str, kind: str, raw: bytes) -> Any:
    return json.loads(to_json(envelope(api_version, kind, raw)))


@pytest.mark.rule("api-14")
def test_a_config_map_is_read_with_all_its_maps() -> None:
    metadata = text(1, "a") + text(2, "") + text(8, b"") + text(11, text(1, "app") + text(2, "web"))
    raw = (
        text(1, metadata)
        + text(2, text(1, "k") + text(2, "v"))
        + text(3, text(1, "b") + text(2, b"\x00\xff"))
    )
    assert read("v1", "ConfigMap", raw + number(4, 1)) == {
        "kind": "ConfigMap",
        "apiVersion": "v1",
        "metadata": {"name": "a", "labels": {"app": "web"}},
        "data": {"k": "v"},
        "binaryData": {"b": "AP8="},
        "immutable": True,
    }


def test_a_zero_that_was_set_is_told_from_one_that_was_not() -> None:
    spec = (
        number(1, 0) + number(5, 0) + number(7, 0)
    )  # replicas is a pointer, minReadySeconds and paused are not
    assert read("apps/v1", "Deployment", text(2, spec))["spec"] == {"replicas": 0}


def test_negative_numbers_and_ports_by_name_or_number_are_read() -> None:
    by_name = text(4, number(1, 1) + number(2, 0) + text(3, "http"))
    by_number = number(3, -5) + text(4, number(1, 0) + number(2, 8080) + text(3, ""))
    spec = text(1, by_name) + text(1, by_number)
    assert read("v1", "Service", text(2, spec))["spec"]["ports"] == [
        {"targetPort": "http"},
        {"port": -5, "targetPort": 8080},
    ]


def test_a_field_or_a_kind_that_is_not_read_is_refused_by_name() -> None:
    with pytest.raises(Failure, match="field 77 of ConfigMap") as refused:
        read("v1", "ConfigMap", number(77, 1))
    assert refused.value.code == 415
    with pytest.raises(Failure, match="apps/v1 StatefulSet"):
        read("apps/v1", "StatefulSet", b"")
    with pytest.raises(Failure, match="v2 ConfigMap"):
        read("v2", "ConfigMap", b"")


@given(st.binary(max_size=60))
def test_bytes_that_are_no_message_are_refused_and_nothing_worse(noise: bytes) -> None:
    for body in (noise, b"k8s\x00" + noise, envelope("v1", "ConfigMap", noise)):
        with contextlib.suppress(Failure):
            json.loads(to_json(body))


def test_every_message_that_a_message_holds_is_in_the_table() -> None:
    scalars = {"string", "int", "bool", "bytes", "time", "quantity", "int-or-string"}
    used = {text.partition(":")[2].strip("*[]{}") for fields in MESSAGES.values() for text in fields.values()}
    assert used - scalars <= set(MESSAGES)
    assert set(KINDS.values()) <= set(MESSAGES)
