"""Protobuf bodies, as kubectl's imperative commands send them."""

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconcile.embedded.kinds import BUILT_IN, Catalogue
from reconcile.embedded.kubectl.protobuf import Protobuf
from reconcile.embedded.protocol.api_failure import ApiFailure
from tests.embedded.protobuf_bodies import envelope, number, text

PROTOBUF = Catalogue(BUILT_IN).protobuf


def read(api_version: str, kind: str, raw: bytes) -> Any:
    return json.loads(PROTOBUF.to_json(envelope(api_version, kind, raw)))


@pytest.mark.rule("api-14")
def test_a_config_map_is_read_with_all_its_data() -> None:
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


def test_an_explicit_zero_differs_from_an_absent_one() -> None:
    # replicas is a pointer, minReadySeconds and paused are not
    spec = number(1, 0) + number(5, 0) + number(7, 0)
    assert read("apps/v1", "Deployment", text(2, spec))["spec"] == {"replicas": 0}


def test_negative_numbers_and_ports_by_name_or_number_are_read() -> None:
    by_name = text(4, number(1, 1) + number(2, 0) + text(3, "http"))
    by_number = number(3, -5) + text(4, number(1, 0) + number(2, 8080) + text(3, ""))
    spec = text(1, by_name) + text(1, by_number)
    assert read("v1", "Service", text(2, spec))["spec"]["ports"] == [
        {"targetPort": "http"},
        {"port": -5, "targetPort": 8080},
    ]


def test_an_unsupported_field_or_kind_is_refused_by_name() -> None:
    with pytest.raises(ApiFailure, match="field 77 of ConfigMap") as refused:
        read("v1", "ConfigMap", number(77, 1))
    assert refused.value.code == 415
    with pytest.raises(ApiFailure, match="apps/v1 StatefulSet"):
        read("apps/v1", "StatefulSet", b"")
    with pytest.raises(ApiFailure, match="v2 ConfigMap"):
        read("v2", "ConfigMap", b"")


@given(st.binary(max_size=60))
def test_bytes_that_are_not_a_valid_message_are_refused_without_a_crash(noise: bytes) -> None:
    for body in (noise, b"k8s\x00" + noise, envelope("v1", "ConfigMap", noise)):
        with contextlib.suppress(ApiFailure):
            json.loads(PROTOBUF.to_json(body))


def test_a_message_type_with_an_unknown_member_is_refused_when_the_server_is_created() -> None:
    with pytest.raises(ValueError, match="protobuf message Site: field 'spec:SiteSpec' is of a type"):
        Protobuf({"Site": {1: "metadata:ObjectMeta", 2: "spec:SiteSpec"}}, {})
