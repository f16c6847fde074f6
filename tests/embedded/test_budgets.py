"""Every request has a budget: no body, however it is made, holds the server or fills its memory."""

import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from informers.apimachinery.yaml_scalars import is_plain_text, loader_on
from reconcile.embedded.protocol import yaml_text
from reconcile.embedded.schema import compile_schema
from tests.embedded.api_client import (
    CONFIG_MAPS,
    DEFINITIONS,
    WIDGETS,
    Answer,
    Api,
    config_map,
    definition,
    widget,
)
from tests.helpers.processor_time import bounded

YAML = "application/yaml"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"
MEMORY = 120 * 1024 * 1024
SECONDS = 1.0


@contextmanager
def thrifty() -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < MEMORY
    finally:
        tracemalloc.stop()


@pytest.fixture
def api() -> Api:
    api = Api()
    api.ok("POST", CONFIG_MAPS, config_map("a", {"k": "v"}))
    api.ok("POST", WIDGETS, widget("a"))
    return api


def aliases(levels: int, each: int = 9) -> bytes:
    """A billion laughs: every line repeats the one before."""
    lines = [b"x0: &x0 [" + b",".join([b"lol"] * each) + b"]"]
    lines += [
        b"x%d: &x%d [%s]" % (level, level, b",".join([b"*x%d" % (level - 1)] * each))
        for level in range(1, levels)
    ]
    return b"\n".join(lines)


# --- bodies -----------------------------------------------------------------------------------


@pytest.mark.rule("api-142")
@pytest.mark.parametrize("operations", [40, 10_000])
def test_repeated_copies_in_a_patch_are_refused(api: Api, operations: int) -> None:
    ops = [{"op": "add", "path": "/data/k", "value": "x" * 1000}]
    ops += [{"op": "copy", "from": "/data", "path": f"/data/k{number}"} for number in range(operations - 1)]
    with bounded(SECONDS), thrifty():
        answer = api.send("PATCH", f"{CONFIG_MAPS}/a", ops, content_type=JSON_PATCH)
    assert answer.status == 422


@pytest.mark.rule("api-142")
def test_shifting_long_lists_in_a_patch_is_bounded(api: Api) -> None:
    ops: list[dict[str, Any]] = [{"op": "add", "path": "/spec/many", "value": [1] * 700_000}]
    ops += [{"op": "add", "path": "/spec/many/0", "value": 1}] * 9_000
    with bounded(SECONDS):
        assert api.send("PATCH", f"{WIDGETS}/a", ops, content_type=JSON_PATCH).status == 422


@pytest.mark.rule("api-142")
@pytest.mark.parametrize(
    "body",
    [
        aliases(10),
        aliases(30, 3),
        b"a: &a " + b"x" * 1_000_000 + b"\nb: [" + b"*a," * 100_000 + b"]",
        b"a: &a [*a]",
        b"a: &a {b: *a}",
        b"[" * 1_000_000,
        b"{a: " * 500_000,
        b"- " * 1_000_000,
        b"? " * 1_000_000,
        b"[" + b"1," * 1_000_000 + b"1]",
        b"\n".join(b"key: %d" % number for number in range(200_000)),
        b"a: " + b"1_" * 1_000_000 + b"1",
        b"a: 0x" + b"f" * 2_000_000,
        b"a: " + b"9" * 2_000_000,
        b"&a " * 900_000,
        b"%TAG ! x\n" * 300_000,
        b"<<: " * 700_000,
        b"[{<<: ["
        + b"{}," * 38_000
        + b"], "
        + b",".join(b"k%d: 1" % number for number in range(10_000))
        + b"}]",
    ],
    ids=lambda body: repr(body[:16]),
)
@pytest.mark.parametrize("kind", [YAML, APPLY])
def test_no_yaml_blocks_the_server(api: Api, body: bytes, kind: str) -> None:
    method, path = ("POST", CONFIG_MAPS) if kind == YAML else ("PATCH", f"{CONFIG_MAPS}/a")
    with bounded(SECONDS):
        answer = api.send(method, path, body, query={"fieldManager": "a"}, content_type=kind)
    assert answer.status in (400, 413, 422)
    assert len(answer.body["message"]) < 5000


def test_yaml_that_is_too_long_gets_an_error_with_advice(api: Api) -> None:
    body = b"- 1\n" * 100_000
    message = api.send("POST", CONFIG_MAPS, body, content_type=YAML).body["message"]
    assert message.endswith("YAML of more than 40000 values and keys; send it as JSON")


def test_yaml_with_ordinary_aliases_is_accepted(api: Api) -> None:
    body = b"metadata: {name: b}\ndata: &d {k: v}\nbinaryData: {}\n"
    assert api.send("POST", CONFIG_MAPS, body, content_type=YAML).status == 201
    assert yaml_text.load(b"a: &x {k: [1]}\nb: *x\nc: {<<: *x, l: 2}") == {
        "a": {"k": [1]},
        "b": {"k": [1]},
        "c": {"k": [1], "l": 2},
    }


PLAIN = st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.text() | st.floats(-1e9, 1e9)
KEYS = st.text(max_size=5).map(lambda key: key if is_plain_text(key) else "")
DOCUMENTS = st.recursive(
    PLAIN,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)


@given(DOCUMENTS, st.booleans())
def test_yaml_is_parsed_as_a_client_parses_it(document: Any, flow: bool) -> None:
    text = yaml.safe_dump(document, default_flow_style=flow, allow_unicode=True, encoding="utf-8")
    assert yaml_text.load(text) == yaml.load(text, Loader=loader_on(yaml.CSafeLoader))


@given(st.binary(max_size=60) | st.text("[]{}&*a: -?!<|>'\"\n#%~0x.e", max_size=60).map(str.encode))
def test_any_bytes_are_parsed_as_yaml_or_refused(text: bytes) -> None:
    try:
        value = yaml_text.load(text)
    except (yaml_text.YamlError, yaml_text.TooDeep, yaml_text.TooLarge):
        return
    assert msgspec.json.decode(msgspec.json.encode(value)) == value


def nested(depth: int) -> bytes:
    head = b'{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a"},"more":'
    return head + b'{"a":' * depth + b"1" + b"}" * depth + b"}"


@pytest.mark.rule("api-142")
@pytest.mark.parametrize("depth", [199, 201, 900, 5_000, 500_000])
@pytest.mark.parametrize("kind", ["application/json", YAML, "application/merge-patch+json", APPLY])
def test_a_body_that_is_nested_too_deeply_is_refused(api: Api, depth: int, kind: str) -> None:
    method, path = ("PATCH", f"{WIDGETS}/a") if "patch" in kind else ("POST", WIDGETS)
    with bounded(SECONDS):
        answer = api.send(method, path, nested(depth), query={"fieldManager": "a"}, content_type=kind)
    assert (answer.status == 400) is (depth > 199)
    assert depth <= 199 or "max depth" in answer.body["message"]


def test_a_patch_cannot_nest_deeper_than_a_body(api: Api) -> None:
    ops: list[dict[str, Any]] = [{"op": "add", "path": "/spec/a", "value": {}}]
    ops += [{"op": "copy", "from": "/spec/a", "path": "/spec/a" + "/a" * (2**n)} for n in range(9)]
    chain = [{"op": "add", "path": "/spec/a" + "/a" * n, "value": {}} for n in range(300)]
    for patch in (ops, chain):
        answer = api.send("PATCH", f"{WIDGETS}/a", patch, content_type=JSON_PATCH)
        assert (answer.status, "max depth" in answer.body["message"]) == (400, True)


# --- schemas times objects --------------------------------------------------------------------


def of_items(items: dict[str, Any], **more: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"all": {"type": "array", "items": items, **more}}}
    return {"type": "object", "properties": {"spec": schema}}


def defined(api: Api, schema: dict[str, Any]) -> None:
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"kind": "Thing", "plural": "things"}
    api.ok("POST", DEFINITIONS, definition(group="other.io", names=names, versions=[version]))


def thing(api: Api, spec: Any) -> Answer:
    body = {"apiVersion": "other.io/v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": spec}
    return api.send("POST", "/apis/other.io/v1/namespaces/default/things", body)


MANY = [{"type": "integer", "minimum": number} for number in range(3000)]


@pytest.mark.rule("api-142")
@pytest.mark.parametrize(
    ("schema", "spec"),
    [
        (of_items({"type": "integer", "enum": list(range(20_000))}), {"all": [-1] * 200_000}),
        (of_items({"type": "integer", "enum": list(range(20_000))}), {"all": [19_999] * 200_000}),
        (of_items({"type": "string", "enum": ["x" * 100_000]}), {"all": ["y"] * 200_000}),
        (of_items({"type": "integer", "anyOf": [{"minimum": n} for n in range(3000)]}), {"all": [-1] * 5000}),
        (of_items({"type": "integer", "oneOf": [{"minimum": n} for n in range(3000)]}), {"all": [7] * 5000}),
        (of_items({"type": "string", "pattern": "^(a|b)*a(a|b){200}c$"}), {"all": ["ab" * 500] * 1000}),
        (of_items({"type": "object", "properties": {"d": {"type": "string", "default": "x" * 9000}}}), {"all": [{}] * 300_000}),  # noqa: E501
        (of_items({"type": "string", "nullable": False, "default": "x" * 9000}), {"all": [None] * 300_000}),
        (of_items({"type": "string"}, **{"x-kubernetes-list-type": "set"}), {"all": ["a"] * 300_000}),
        (of_items({"type": "object"}), {"all": [{"u": 1}] * 150_000}),
        (of_items({"type": "object"}), {"k" * 1_000_000: [[]] * 10, "all": [{"u": {}}] * 50_000}),
        (of_items({"type": "integer"}), {"all": ["x"] * 300_000}),
    ],
    ids=lambda value: repr(value)[:60],
)  # fmt: skip
def test_no_combination_of_schema_and_object_blocks_the_server(
    api: Api, schema: dict[str, Any], spec: dict[str, Any]
) -> None:
    defined(api, schema)
    with bounded(SECONDS):
        answer = thing(api, spec)
    assert answer.status in (201, 400, 413, 422, 500)
    if answer.status == 500:
        assert "etcdserver: request is too large" in answer.body["message"]
    assert len(msgspec.json.encode(answer.body)) < 2_000_000


def test_a_long_list_of_ordinary_items_is_accepted(api: Api) -> None:
    item = {
        "type": "object",
        "properties": {
            "name": {"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", "maxLength": 63},
            "size": {"type": "integer", "minimum": 0},
            "kind": {"type": "string", "enum": ["A", "B", "C"]},
        },
    }
    defined(api, of_items(item))
    spec = {"all": [{"name": f"item-{number}", "size": number, "kind": "A"} for number in range(20_000)]}
    with bounded(SECONDS):
        assert thing(api, spec).status == 201


@pytest.mark.parametrize("value", [True, 1, 1.0, "1", None, [1], {"a": 1}])
@pytest.mark.parametrize("option", [True, 1, 1.0, "1", None, [1], {"a": 1}])
def test_an_enum_accepts_values_that_are_equal_as_json(value: Any, option: Any) -> None:
    schema = compile_schema({"properties": {"a": {"enum": [option], "nullable": True}}})
    same = (type(value) is type(option) or {type(value), type(option)} == {int, float}) and value == option
    assert bool(schema.validate({"a": value})) is not (same or value is None)


def test_an_object_with_too_many_faults_names_the_first_of_them(api: Api) -> None:
    defined(api, of_items({"type": "integer"}))
    answer = thing(api, {"all": ["x"] * 5000})
    assert answer.status == 422
    assert answer.causes[0] == ("FieldValueTypeInvalid", "spec.all[0]")
    assert answer.causes[-1] == ("FieldValueTooMany", "<nil>")
    assert len(answer.causes) == 1001


# --- a reason for every refusal ---------------------------------------------------------------


@pytest.mark.rule("api-143")
@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b'{"metadata":{"name":"b"},"data":{"a":"\\ud800"}}', "application/json"),
        (b'{"metadata":{"name":"b"},"data":{"\\udfff":"a"}}', "application/json"),
        (b'{"metadata":{"name":"b"},"data":{"a":"\xed\xa0\x80"}}', "application/json"),
        (b'metadata: {name: b}\ndata: {a: "\\ud800"}', YAML),
        ('{"metadata":{"name":"b"}}'.encode("utf-16"), "application/json"),
        (b'{"metadata":{"name":"b"},"spec":1e400}', "application/json"),
        (b'{"metadata":{"name":"b"},"spec":' + b"9" * 5000 + b"}", "application/json"),
        (b"metadata: {name: b}\nspec: " + b"9" * 5000, YAML),
        (b"metadata: {name: b}\nspec: .nan", YAML),
        (b"metadata: {name: b}\n? [a, b]\n: c", YAML),
        (b"metadata: {name: b}\n~: c", YAML),
        (b"metadata: {name: b}\nspec: !!python/name:os.system x", YAML),
        (b"metadata: {name: b}\nspec: !!int x", YAML),
        (b"metadata: {name: b}\nspec: !!binary '=a'", YAML),
        (b"metadata: *nothing", YAML),
    ],
)
def test_a_value_that_json_cannot_represent_is_a_bad_request(api: Api, body: bytes, kind: str) -> None:
    answer = api.send("POST", CONFIG_MAPS, body, content_type=kind)
    assert (answer.status, answer.body["reason"]) == (400, "BadRequest")


@pytest.mark.rule("api-143")
def test_yaml_keys_that_are_not_text_become_text(api: Api) -> None:
    body = b"metadata: {name: b}\ndata: {1: a, true: b, 1.5: c}"
    made = api.send("POST", CONFIG_MAPS, body, content_type=YAML)
    assert (made.status, made.body["data"]) == (201, {"1": "a", "true": "b", "1.5": "c"})


@pytest.mark.rule("api-143")
@pytest.mark.parametrize("text", ["9" * 5000, "9" * 3_000_000, "9" * 2_000_000 + "x", "." * 2_000_000])
def test_a_quantity_that_is_too_long_is_refused(api: Api, text: str) -> None:
    quota = {"metadata": {"name": "q"}, "spec": {"hard": {"cpu": text}}}
    with bounded(SECONDS):
        assert api.send("POST", "/api/v1/namespaces/default/resourcequotas", quota).status in (400, 413, 422)


@pytest.mark.rule("api-143")
@pytest.mark.parametrize("value", [10**300, 10**4000, -(10**300), 7, 1e308, 5e-324])
@pytest.mark.parametrize("factor", [3, 0.1, 10**300, 5e-324, 1e308])
def test_multiple_of_is_decided_for_any_two_numbers(value: float, factor: float) -> None:
    schema = compile_schema({"properties": {"a": {"type": "number", "multipleOf": factor}}})
    assert len(schema.validate({"a": value})) == (0 if _divides(factor, value) else 1)


def _divides(factor: float, value: float) -> bool:
    if isinstance(value, int):  # as in kube-openapi, which cuts the factor too
        return int(factor) != 0 and value % int(factor) == 0
    try:
        return (value / factor) % 1 == 0
    except OverflowError:
        return False


DIGITS = "9" * 5000
SHARD = f"shardRange(object.metadata.uid, '0x{'f' * 5000}', '0x1')"


@pytest.mark.rule("api-143")
@pytest.mark.parametrize(
    ("method", "path", "query", "body"),
    [
        ("GET", CONFIG_MAPS, {"resourceVersion": DIGITS}, None),
        ("GET", CONFIG_MAPS, {"limit": DIGITS}, None),
        ("GET", CONFIG_MAPS, {"watch": "1", "timeoutSeconds": DIGITS}, None),
        ("GET", CONFIG_MAPS, {"labelSelector": f"a>{DIGITS}"}, None),
        ("GET", CONFIG_MAPS, {"shardSelector": SHARD}, None),
        ("DELETE", f"{CONFIG_MAPS}/a", {"gracePeriodSeconds": DIGITS}, None),
        ("PUT", f"{CONFIG_MAPS}/a", {}, {"metadata": {"name": "a", "resourceVersion": DIGITS}}),
    ],
)  # fmt: skip
def test_a_number_of_any_length_is_refused_without_a_crash(
    api: Api, method: str, path: str, query: dict[str, str], body: Any
) -> None:
    answer = api.send(method, path, body, query=query)
    assert (
        400 <= answer.status < 500
        or "invalid syntax" in answer.body["message"]
        or "shard" in str(answer.body)
    )


def test_an_index_of_any_length_is_out_of_range(api: Api) -> None:
    ops = [
        {"op": "add", "path": "/spec/a", "value": []},
        {"op": "add", "path": f"/spec/a/{DIGITS}", "value": 1},
    ]
    assert api.send("PATCH", f"{WIDGETS}/a", ops, content_type=JSON_PATCH).status == 422


def test_a_percentage_of_any_length_in_a_budget_is_refused_or_evaluated(api: Api) -> None:
    path = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
    for name, text, status in (("a", f"{DIGITS}%", 422), ("b", f"{'0' * 5000}7%", 201)):
        body = {"metadata": {"name": name}, "spec": {"minAvailable": text, "selector": {}}}
        assert api.send("POST", path, body).status == status
    api.server.settle()
