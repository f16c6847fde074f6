"""Reads OTLP/JSON as a collector does: by the protobuf JSON parser, and with the rules that OTLP adds.

The messages are those of opentelemetry-proto, as far as traces use them. Numbers of fields are not those of
the specification: JSON does not have them.
"""

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory

_TYPES: Final = {
    "string": descriptor_pb2.FieldDescriptorProto.TYPE_STRING,
    "bytes": descriptor_pb2.FieldDescriptorProto.TYPE_BYTES,
    "int64": descriptor_pb2.FieldDescriptorProto.TYPE_INT64,
    "uint32": descriptor_pb2.FieldDescriptorProto.TYPE_UINT32,
    "int32": descriptor_pb2.FieldDescriptorProto.TYPE_INT32,
    "fixed64": descriptor_pb2.FieldDescriptorProto.TYPE_FIXED64,
    "double": descriptor_pb2.FieldDescriptorProto.TYPE_DOUBLE,
    "bool": descriptor_pb2.FieldDescriptorProto.TYPE_BOOL,
}
_MESSAGES: Final[Mapping[str, Mapping[str, str]]] = {
    "ArrayValue": {"values": "*AnyValue"},
    "AnyValue": {
        "string_value": "string",
        "bool_value": "bool",
        "int_value": "int64",
        "double_value": "double",
        "array_value": "ArrayValue",
    },
    "KeyValue": {"key": "string", "value": "AnyValue"},
    "Resource": {"attributes": "*KeyValue", "dropped_attributes_count": "uint32"},
    "Scope": {"name": "string", "version": "string", "attributes": "*KeyValue"},
    "Status": {"message": "string", "code": "int32"},
    "Event": {"time_unix_nano": "fixed64", "name": "string", "attributes": "*KeyValue"},
    "Link": {
        "trace_id": "bytes",
        "span_id": "bytes",
        "trace_state": "string",
        "attributes": "*KeyValue",
        "flags": "uint32",
    },
    "Span": {
        "trace_id": "bytes",
        "span_id": "bytes",
        "trace_state": "string",
        "parent_span_id": "bytes",
        "name": "string",
        "kind": "int32",
        "start_time_unix_nano": "fixed64",
        "end_time_unix_nano": "fixed64",
        "attributes": "*KeyValue",
        "events": "*Event",
        "links": "*Link",
        "status": "Status",
    },
    "ScopeSpans": {"scope": "Scope", "spans": "*Span", "schema_url": "string"},
    "ResourceSpans": {"resource": "Resource", "scope_spans": "*ScopeSpans", "schema_url": "string"},
    "Request": {"resource_spans": "*ResourceSpans"},
}
_IDS: Final = re.compile(r'"(traceId|spanId|parentSpanId)": *"([^"]*)"')
_BYTES: Final = {"traceId": 16, "spanId": 8, "parentSpanId": 8}


def read_spans(text: str) -> list[dict[str, Any]]:
    """The spans of a request, after all checks. Raises AssertionError, and json_format.ParseError."""
    for name, value in _IDS.findall(text):
        # OTLP departs from protobuf's JSON here: ids are hexadecimal, not base64.
        assert len(bytes.fromhex(value)) == _BYTES[name], (name, value)
        assert any(bytes.fromhex(value)), f"{name} is all zeros"
    json_format.Parse(text, _message("Request"))
    (resource,) = json.loads(text)["resourceSpans"]
    (scope,) = resource["scopeSpans"]
    for span in scope["spans"]:
        _check_span(span)
    spans: list[dict[str, Any]] = scope["spans"]
    assert len({span["spanId"] for span in spans}) == len(spans), "two spans have the same id"
    return spans


def _check_span(span: Mapping[str, Any]) -> None:
    # Both are taken as numbers by protobuf's parser too, but not by all of JavaScript.
    assert isinstance(span["startTimeUnixNano"], str)
    assert isinstance(span["endTimeUnixNano"], str)
    assert 0 < int(span["startTimeUnixNano"]) <= int(span["endTimeUnixNano"])
    assert span["name"]
    assert span["kind"] in range(1, 6)
    assert span.get("status", {}).get("code", 0) in (0, 1, 2)
    for attribute in span["attributes"]:
        assert attribute["key"]
        assert len(attribute["value"]) == 1, "one of a union"
        assert isinstance(attribute["value"].get("intValue", ""), str), "64 bits are text"
    names = [attribute["key"] for attribute in span["attributes"]]
    assert len(names) == len(set(names)), "an attribute occurs once"


def attributes_of(span: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes of a span as plain values."""
    return {each["key"]: _plain(each["value"]) for each in span["attributes"]}


def _plain(value: Mapping[str, Any]) -> Any:
    if "arrayValue" in value:
        return [_plain(each) for each in value["arrayValue"]["values"]]
    return int(value["intValue"]) if "intValue" in value else value["stringValue"]


def _message(name: str) -> Any:
    pool = descriptor_pool.DescriptorPool()
    file = descriptor_pb2.FileDescriptorProto(name="otlp.proto", package="otlp", syntax="proto3")
    for message, members in _MESSAGES.items():
        described = file.message_type.add(name=message)
        for number, (member, kind) in enumerate(members.items(), 1):
            field = described.field.add(name=member, number=number)
            field.label = field.LABEL_REPEATED if kind.startswith("*") else field.LABEL_OPTIONAL
            if kind in _TYPES:
                field.type = _TYPES[kind]
            else:
                field.type, field.type_name = field.TYPE_MESSAGE, f".otlp.{kind.removeprefix('*')}"
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"otlp.{name}"))()
