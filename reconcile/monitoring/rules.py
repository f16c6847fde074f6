"""The rules of Prometheus as the `spec.groups` of a PrometheusRule."""

import re
from typing import Any, Final

from reconcile.monitoring.alerts import ALERTS, Alert
from reconcile.monitoring.slos import recording_rules

_METRIC = re.compile(
    r"""(?x)
    "(?:[^"\\]|\\.)*"                                   # a string is left as it is
    | (?P<name>\b(?:controller_runtime|workqueue|rest_client|certwatcher|leader_election|reconcile)_\w+
      | \breconcile:[\w:]+ )
    (?P<matchers>\{(?:[^"}]|"(?:[^"\\]|\\.)*")*\})?
    """
)
_MATCHER = re.compile(r'\s*([A-Za-z_]\w*)\s*(?:=~|!~|!=|=)\s*"(?:[^"\\]|\\.)*"\s*')
_RECORDED_LABELS: Final = tuple(f"{label}{sign}" for label in ("namespace", "job") for sign in "=!")
"""How matchers begin of the labels of a target that recorded series keep."""


def rule_groups(selector: str = "", *, runbooks: str = "") -> list[dict[str, Any]]:
    """The groups of rules, for the series that `selector` chooses, such as `namespace="x",job="y"`.

    The runbook of an alert is `SLUG.md` below `runbooks`, a URL; without one, alerts have no link, as half a
    link in a message helps nobody. Raises ValueError for another selector than a list of label matchers.
    """
    matchers = matchers_in(selector)
    recorded = [_narrowed_rule(rule, matchers) for rule in recording_rules()]
    alerts = [_narrowed_rule(_rule_of(alert, runbooks), matchers) for alert in ALERTS]
    return [{"name": "reconcile.slos", "rules": recorded}, {"name": "reconcile.alerts", "rules": alerts}]


def matchers_in(selector: str) -> list[str]:
    """The label matchers of a selector. Raises ValueError for what is none."""
    matchers, at = [], 0
    while at < len(selector):
        found = _MATCHER.match(selector, at)
        end = -1 if found is None else found.end()
        if found is None or (end < len(selector) and selector[end] != ","):
            raise ValueError(f'expected label matchers such as namespace="x",job="y", got {selector!r}')
        matchers.append(re.sub(r"^(\w+)\s*(\S+?)\s*\"", r'\1\2"', found.group().strip()))
        at = end + 1
    return matchers


def narrowed(expr: str, matchers: list[str]) -> str:
    """PromQL in which each series has these matchers too, a recorded one those of labels that it keeps."""

    def narrow(found: re.Match[str]) -> str:
        name = found["name"]
        if name is None:
            return found.group()
        own = (found["matchers"] or "{}")[1:-1]
        more = [one for one in matchers if ":" not in name or one.startswith(_RECORDED_LABELS)]
        every = ",".join(filter(None, [own, *more]))
        return f"{name}{{{every}}}" if every else name

    return _METRIC.sub(narrow, expr)


def _narrowed_rule(rule: dict[str, Any], matchers: list[str]) -> dict[str, Any]:
    return {**rule, "expr": narrowed(rule["expr"], matchers)}


def _rule_of(alert: Alert, runbooks: str) -> dict[str, Any]:
    annotations = {
        "summary": alert.summary,
        "description": alert.description,
        **({"runbook_url": f"{runbooks.rstrip('/')}/{alert.slug}.md"} if runbooks else {}),
    }
    return {
        "alert": alert.name,
        "expr": alert.expr,
        "for": alert.for_,
        "labels": {"severity": alert.severity},
        "annotations": annotations,
    }
