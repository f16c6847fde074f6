"""The definitions of prometheus-operator, as far as our objects use them.

Facts from its definitions of version 0.93: groups, names, required fields, patterns and enumerations. Fields
that ours do not use are left out, so a strict write refuses them and they are looked up before they are used.
"""

from typing import Any, Final

Schema = dict[str, Any]

TEXT: Final[Schema] = {"type": "string"}
TEXTS: Final[Schema] = {"type": "object", "additionalProperties": TEXT}
DURATION: Final[Schema] = {
    "type": "string",
    "pattern": "^(0|(([0-9]+)y)?(([0-9]+)w)?(([0-9]+)d)?(([0-9]+)h)?(([0-9]+)m)?(([0-9]+)s)?(([0-9]+)ms)?)$",
}


def fields(*required: str, **properties: Schema) -> Schema:
    return {
        "type": "object",
        "properties": properties,
        **({"required": list(required)} if required else {}),
    }


def many(item: Schema) -> Schema:
    return {"type": "array", "items": item}


SECRET_KEY: Final = fields("key", name=TEXT, key=TEXT)
ENDPOINT: Final[Schema] = {
    "port": TEXT,
    "path": TEXT,
    "interval": DURATION,
    "scheme": {"type": "string", "enum": ["http", "https", "HTTP", "HTTPS"]},
    "tlsConfig": fields(ca=fields(secret=SECRET_KEY), serverName=TEXT),
    "authorization": fields(type=TEXT, credentials=SECRET_KEY),
    "relabelings": many(
        fields(
            targetLabel=TEXT,
            replacement=TEXT,
            action={"type": "string", "default": "replace", "enum": ["replace", "Replace", "keep", "drop"]},
        )
    ),
}
SELECTOR: Final = fields(matchLabels=TEXTS)
RULE: Final = fields(
    "expr",
    alert=TEXT,
    record=TEXT,
    annotations=TEXTS,
    labels=TEXTS,
    expr={"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
    **{"for": DURATION},
)
SPECS: Final[dict[str, Schema]] = {
    "ServiceMonitor": fields(
        *("endpoints", "selector"),
        selector=SELECTOR,
        endpoints=many(fields(**ENDPOINT, bearerTokenFile=TEXT)),
    ),
    "PodMonitor": fields(
        *("podMetricsEndpoints", "selector"), selector=SELECTOR, podMetricsEndpoints=many(fields(**ENDPOINT))
    ),
    "PrometheusRule": fields(
        groups={
            **many(fields("name", name={"type": "string", "minLength": 1}, rules=many(RULE))),
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
        }
    ),
}


def definition(kind: str) -> dict[str, Any]:
    """The CustomResourceDefinition of that kind."""
    plural = f"{kind.lower()}s"
    schema = {"type": "object", "required": ["spec"], "properties": {"spec": SPECS[kind]}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.monitoring.coreos.com"},
        "spec": {
            "group": "monitoring.coreos.com",
            "scope": "Namespaced",
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": plural,
                "singular": kind.lower(),
            },
            "versions": [
                {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
            ],
        },
    }
