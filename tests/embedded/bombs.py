"""Bodies that are small or well-formed, and ask for more than any server should do."""

import random
from collections.abc import Callable
from typing import Any

import msgspec

from reconcile.embedded import ApiRequest
from tests.embedded.api_client import CONFIG_MAPS, DEFINITIONS, WIDGETS, definition

JSON = "application/json"
YAML = "application/yaml"
JSON_PATCH = "application/json-patch+json"
PATTERNS = [
    r"^(a+)+$",
    r"(a|b)*a(a|b){500}c",
    r".{900}b",
    r"(x+x+)+y",
    r"\pL{60}",
    r"(?=a)",
    r"a{1001}",
    r"(a)\1",
    r"^.*.*.*$",
]
RULES = [
    "self.all.all(a, self.all.all(b, a != b))",
    "self.all.map(a, string(a) + self.text).join(',').size() > 1",
    "self.text.replace('a', self.text).size() > 1",
    "sets.contains(self.all, self.all)",
    "self.text.matches('(a|b)*a(a|b){500}c')",
    "self.all.distinct().size() > 0",
    "lists.range(10000).all(a, self.text.endsWith('b') || true)",
]
MANY = [10, 300, 20_000]


def bomb(chance: random.Random) -> ApiRequest:
    """One of them."""
    return chance.choice(_MAKERS)(chance)


def _post(path: str, body: bytes, kind: str = JSON) -> ApiRequest:
    return ApiRequest("POST", path, {"fieldManager": "fuzz"}, {"content-type": kind}, body)


def _patch(path: str, body: bytes, kind: str) -> ApiRequest:
    return ApiRequest("PATCH", path, {"fieldManager": "fuzz"}, {"content-type": kind}, body)


def _copies(chance: random.Random) -> ApiRequest:
    ops: list[dict[str, Any]] = [{"op": "add", "path": "/spec/a", "value": "x" * chance.choice(MANY)}]
    for number in range(chance.choice([20, 200, 5000])):
        path = f"/spec/b{number}" if chance.random() < 0.8 else "/spec/a/-"
        ops.append(
            {"op": chance.choice(["copy", "move"]), "from": chance.choice(["/spec", ""]), "path": path}
        )
    return _patch(f"{WIDGETS}/a", msgspec.json.encode(ops), JSON_PATCH)


def _shifts(chance: random.Random) -> ApiRequest:
    ops: list[dict[str, Any]] = [{"op": "add", "path": "/spec/a", "value": [1] * chance.choice([9, 500_000])}]
    ops += [{"op": chance.choice(["add", "replace"]), "path": "/spec/a/0", "value": 1}] * chance.choice(
        [9, 9000]
    )
    return _patch(f"{WIDGETS}/a", msgspec.json.encode(ops), JSON_PATCH)


def _aliases(chance: random.Random) -> ApiRequest:
    each, lines = chance.randint(1, 9), [b"a0: &a0 [x]"]
    for level in range(1, chance.randint(2, 40)):
        lines.append(b"a%d: &a%d [%s]" % (level, level, b",".join([b"*a%d" % (level - 1)] * each)))
    return _post(CONFIG_MAPS, b"\n".join(lines), YAML)


def _odd_yaml(chance: random.Random) -> ApiRequest:
    line = (b"a: b\n", b"1: 2\n", b"~: x\n", b"a:\n ", b"'", b"|\n")
    part = chance.choice((b"- ", b"[", b"{a: ", b"? ", b"&a ", b"!t ", b"<<: ", b"*a ", *line))
    return _post(CONFIG_MAPS, part * chance.choice([3, 300, 100_000]), YAML)


def _depth(chance: random.Random) -> ApiRequest:
    depth = chance.choice([150, 199, 201, 900, 20_000])
    opened, closed = chance.choice([(b'{"a":', b"}"), (b"[", b"]")])
    body = b'{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a"},"spec":%s1%s}'
    body %= (opened * depth, closed * depth)
    kind = chance.choice([JSON, YAML, "application/merge-patch+json", "application/apply-patch+yaml"])
    return _patch(f"{WIDGETS}/a", body, kind) if "patch" in kind else _post(WIDGETS, body, kind)


def _numbers(chance: random.Random) -> ApiRequest:
    number = chance.choice(
        [b"9" * 5000, b"1e400", b"-1e999", b"9" * 30, b"0.%s1" % (b"0" * 400), b"NaN", b'"\\ud800"']
    )
    body = b'{"metadata":{"name":"q"},"spec":{"hard":{"cpu":%s,"pods":"%s"}}}' % (
        number,
        number[:300].strip(b'"'),
    )
    return _post("/api/v1/namespaces/default/resourcequotas", body, chance.choice([JSON, YAML]))


def _definition(chance: random.Random) -> ApiRequest:
    """A definition whose schema makes much of little; `_thing` goes with it."""
    item: dict[str, Any] = chance.choice(
        [
            {"type": "integer", "enum": list(range(chance.choice(MANY)))},
            {"type": "integer", "anyOf": [{"minimum": n} for n in range(chance.choice([3, 3000]))]},
            {"type": "string", "pattern": chance.choice(PATTERNS)},
            {"type": "object", "properties": {"d": {"type": "string", "default": "x" * chance.choice(MANY)}}},
            {"type": "number", "multipleOf": chance.choice([3, 1e-300, 10**300])},
        ]
    )
    spec: dict[str, Any] = {
        "type": "object",
        "properties": {"all": {"type": "array", "items": item}, "text": {"type": "string"}},
    }
    if chance.random() < 0.5:
        spec["x-kubernetes-validations"] = [{"rule": chance.choice(RULES)}]
    made = definition(group="bombs.io", names={"kind": "Thing", "plural": "things"})
    schema = {"type": "object", "properties": {"spec": spec}}
    made["spec"]["versions"] = [
        {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    ]
    body = msgspec.json.encode(made)
    if chance.random() < 0.5:
        return _post(DEFINITIONS, body)
    kind = "application/merge-patch+json"
    return _patch(f"{DEFINITIONS}/things.bombs.io", body, kind)


def _thing(chance: random.Random) -> ApiRequest:
    item = chance.choice([1, -1, "ab" * 20, "a" * 5000, {}, None, 1e300, [[]]])
    count = chance.choice(MANY) if item != "a" * 5000 else 100
    spec = {"all": [item] * count, "text": "ab" * chance.choice(MANY)}
    body = {"apiVersion": "bombs.io/v1", "kind": "Thing", "metadata": {"generateName": "a-"}, "spec": spec}
    return _post("/apis/bombs.io/v1/namespaces/default/things", msgspec.json.encode(body))


def _queries(chance: random.Random) -> ApiRequest:
    digits = "9" * chance.choice([19, 20, 5000])
    query = chance.choice(
        [
            {"resourceVersion": digits}, {"limit": digits}, {"labelSelector": f"a>{digits}"},
            {"labelSelector": ",".join(["a=b"] * 5000)}, {"fieldSelector": "metadata.name=a," * 3000},
            {"timeoutSeconds": digits, "watch": "true"}, {"continue": digits}, {"gracePeriodSeconds": digits},
        ]
    )  # fmt: skip
    return ApiRequest(
        chance.choice(["GET", "DELETE"]), f"{CONFIG_MAPS}/none"[: chance.choice([42, 99])], query
    )


_MAKERS: tuple[Callable[[random.Random], ApiRequest], ...] = (
    _copies, _shifts, _aliases, _odd_yaml, _depth, _numbers, _definition, _thing, _thing, _queries
)  # fmt: skip
