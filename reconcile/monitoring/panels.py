"""Panels and dashboards as values, and the JSON that Grafana loads (10.0 and later). Pure functions.

Expressions are written with two short forms: `@pods` is the labels of the operator's series, and
`@controllers` these and the chosen controllers. The person who looks at a dashboard chooses both.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

from attrs import frozen

Json: TypeAlias = dict[str, Any]
Kind: TypeAlias = Literal["stat", "timeseries", "table", "state-timeline"]

COLUMNS: Final = 24
"""How many columns the grid of a dashboard has."""
SCHEMA_VERSION: Final = 39
"""The version of Grafana's format that this is; later versions of Grafana migrate it when they load it."""
PODS: Final = 'namespace="$namespace",job="$job"'
CONTROLLERS: Final = f'{PODS},controller=~"$controller"'
_SHORT: Final = {"@controllers": CONTROLLERS, "@pods": PODS}
_SOURCE: Final[Json] = {"type": "prometheus", "uid": "${datasource}"}
_UID_LENGTH: Final = 40
"""Grafana takes no longer ones."""
_OF_EACH_OPERATOR: Final = "controller_runtime_max_concurrent_reconciles"
"""A metric that each operator has from its start on, so its labels name what can be chosen."""

GOOD, CAREFUL, BAD = "green", "orange", "red"
Steps: TypeAlias = Sequence[tuple[float, str]]
"""From which value on which colour."""


@frozen
class Query:
    expr: str
    legend: str = ""
    """With `{{label}}` for values of labels; in a table the head of the column."""
    unit: str = ""
    """In a table: that of the column."""
    steps: Steps = ()
    """In a table: the colours of the column."""

    @property
    def promql(self) -> str:
        text = self.expr
        for short, full in _SHORT.items():
            text = text.replace(short, full)
        return text


@frozen
class Panel:
    title: str
    about: str
    """What it shows, and what is unusual."""
    queries: Sequence[Query]
    kind: Kind = "timeseries"
    unit: str = "short"
    width: int = 8
    height: int = 7
    steps: Steps = ()
    lowest: str = GOOD
    """The colour below the first of `steps`."""
    stacked: bool = False
    least: float | None = 0
    most: float | None = None
    words: Sequence[tuple[int, str, str]] = ()
    """Values that are shown as a word in a colour."""
    by: Sequence[str] = ()
    """In a table: the labels by which the columns are joined, which are its first columns."""


@frozen
class Row:
    title: str
    panels: Sequence[Panel]


@frozen
class Dashboard:
    slug: str
    title: str
    about: str
    rows: Sequence[Row]

    def panels(self) -> Iterator[Panel]:
        for row in self.rows:
            yield from row.panels

    def uid(self, operator: str) -> str:
        """The same for the same operator and page, so links and stars stay; at most 40 characters."""
        plain = f"{operator}-{self.slug}"
        if len(plain) <= _UID_LENGTH:
            return plain
        digest = hashlib.sha256(plain.encode()).hexdigest()[:8]
        return f"{plain[: _UID_LENGTH - 9]}-{digest}"


def rendered(dashboard: Dashboard, operator: str, namespace: str) -> Json:
    """The JSON of a dashboard of that operator, which shows the one in that namespace at first."""
    return {
        "uid": dashboard.uid(operator),
        "title": f"{operator} / {dashboard.title}",
        "description": dashboard.about,
        "tags": ["reconcile-runtime", operator],
        "schemaVersion": SCHEMA_VERSION,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "timezone": "browser",
        "links": [_others(operator)],
        "annotations": {"list": list(_annotations())},
        "templating": {"list": list(_variables(operator, namespace))},
        "panels": list(_placed(dashboard.rows)),
    }


def _others(operator: str) -> Json:
    """The operator's other dashboards, with the same choices and times."""
    return {
        "title": operator,
        "type": "dashboards",
        "tags": ["reconcile-runtime", operator],
        "asDropdown": False,
        "includeVars": True,
        "keepTime": True,
        "targetBlank": False,
        "icon": "external link",
        "tooltip": "",
        "url": "",
    }


def _annotations() -> Iterator[Json]:
    firing = f'ALERTS{{alertname=~"Reconcile.+",alertstate="firing",{PODS}}}'
    yield _annotation("Alerts", firing, "red", "{{alertname}}", "{{severity}} {{controller}}")
    began = f"changes(process_start_time_seconds{{{PODS}}}[$__interval]) > 0"
    yield _annotation("Restarts", began, "blue", "The process of a pod began anew", "{{pod}}")


def _annotation(name: str, expr: str, colour: str, title: str, text: str) -> Json:
    return {
        "name": name,
        "datasource": _SOURCE,
        "enable": True,
        "hide": False,
        "iconColor": colour,
        "expr": expr,
        "titleFormat": title,
        "textFormat": text,
        "step": "30s",
    }


def _variables(operator: str, namespace: str) -> Iterator[Json]:
    yield {
        "name": "datasource",
        "label": "Data source",
        "type": "datasource",
        "query": "prometheus",
        "current": {},
        "hide": 0,
        "refresh": 1,
        "regex": "",
        "options": [],
    }
    series = _OF_EACH_OPERATOR
    yield _variable("namespace", "Namespace", f"label_values({series}, namespace)", namespace)
    yield _variable("job", "Operator", f'label_values({series}{{namespace="$namespace"}}, job)', operator)
    chosen = _variable("controller", "Controller", f"label_values({series}{{{PODS}}}, controller)", "$__all")
    shown = {"selected": True, "text": ["All"], "value": ["$__all"]}
    yield {**chosen, "current": shown, "multi": True, "includeAll": True, "allValue": ".*"}


def _variable(name: str, label: str, query: str, value: str) -> Json:
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": _SOURCE,
        "query": {"query": query, "refId": name},
        "definition": query,
        "current": {"selected": True, "text": value, "value": value},
        "hide": 0,
        "refresh": 2,
        "regex": "",
        "sort": 1,
        "multi": False,
        "includeAll": False,
        "options": [],
    }


# --- panels -------------------------------------------------------------------------------------------


def _placed(rows: Sequence[Row]) -> Iterator[Json]:
    """The panels of all rows: each row has a head and below it panels from left to right."""
    number, top = 1, 0
    for row in rows:
        yield {
            "id": number,
            "type": "row",
            "title": row.title,
            "collapsed": False,
            "panels": [],
            "gridPos": _place(0, top, COLUMNS, 1),
        }
        number, top = number + 1, top + 1
        left, height = 0, 0
        for panel in row.panels:
            if left + panel.width > COLUMNS:
                left, top, height = 0, top + height, 0
            yield _panel(panel, number, _place(left, top, panel.width, panel.height))
            number, left, height = number + 1, left + panel.width, max(height, panel.height)
        top += height


def _place(left: int, top: int, width: int, height: int) -> Json:
    return {"x": left, "y": top, "w": width, "h": height}


def _panel(panel: Panel, number: int, place: Json) -> Json:
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.about,
        "datasource": _SOURCE,
        "gridPos": place,
        "targets": [_target(panel, query, place) for place, query in enumerate(panel.queries)],
        "fieldConfig": {"defaults": _defaults(panel), "overrides": list(_overrides(panel))},
        "options": _options(panel),
        **({"transformations": _joined(panel)} if panel.kind == "table" else {}),
    }


def _target(panel: Panel, query: Query, place: int) -> Json:
    now = panel.kind in ("stat", "table")
    return {
        "refId": _letter(place),
        "datasource": _SOURCE,
        "expr": query.promql,
        "legendFormat": query.legend or "__auto",
        "editorMode": "code",
        "instant": now,
        "range": not now,
        "format": "table" if panel.kind == "table" else "time_series",
    }


def _letter(place: int) -> str:
    return chr(ord("A") + place)


def _defaults(panel: Panel) -> Json:
    defaults: Json = {
        "unit": panel.unit,
        "color": {"mode": "thresholds" if panel.kind in ("stat", "table") else "palette-classic"},
        "thresholds": _thresholds(panel.steps, panel.lowest),
        "mappings": [_mapping(panel.words)] if panel.words else [],
        "noValue": "none",
        "custom": _custom(panel),
    }
    limits = {"min": panel.least, "max": panel.most}
    return {**defaults, **{name: limit for name, limit in limits.items() if limit is not None}}


def _custom(panel: Panel) -> Json:
    match panel.kind:
        case "timeseries":
            return {
                "drawStyle": "line",
                "lineWidth": 1,
                "fillOpacity": 30 if panel.stacked else 8,
                "showPoints": "never",
                "spanNulls": False,
                "stacking": {"mode": "normal" if panel.stacked else "none", "group": "A"},
                "thresholdsStyle": {"mode": "dashed" if panel.steps else "off"},
            }
        case "state-timeline":
            return {"fillOpacity": 70, "lineWidth": 0, "spanNulls": False}
        case "table":
            return {"align": "auto", "cellOptions": {"type": "auto"}, "filterable": False}
        case "stat":
            return {}


def _thresholds(steps: Steps, lowest: str = GOOD) -> Json:
    # The first step is that of all values below the others: Grafana wants null there.
    first: Json = {"color": lowest, "value": None}
    return {"mode": "absolute", "steps": [first, *({"color": c, "value": v} for v, c in steps)]}


def _mapping(words: Sequence[tuple[int, str, str]]) -> Json:
    results = {str(value): {"text": text, "color": colour} for value, text, colour in words}
    return {"type": "value", "options": results}


def _options(panel: Panel) -> Json:
    match panel.kind:
        case "timeseries":
            return {
                "legend": {
                    "displayMode": "list",
                    "placement": "bottom",
                    "showLegend": True,
                    "calcs": [],
                },
                "tooltip": {"mode": "multi", "sort": "desc"},
            }
        case "stat":
            return {
                "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
                "colorMode": "background",
                "graphMode": "none",
                "justifyMode": "center",
                "textMode": "value" if len(panel.queries) == 1 else "value_and_name",
                "orientation": "auto",
            }
        case "state-timeline":
            return {
                "mergeValues": True,
                "showValue": "auto",
                "rowHeight": 0.8,
                "legend": {"displayMode": "list", "placement": "bottom", "showLegend": False, "calcs": []},
                "tooltip": {"mode": "single", "sort": "none"},
            }
        case "table":
            return {"showHeader": True, "cellHeight": "sm", "footer": {"show": False, "reducer": ["sum"]}}


def _joined(panel: Panel) -> Sequence[Json]:
    """One line of a table for each set of labels, with a column for each query."""
    names = {f"Value #{_letter(place)}": query.legend for place, query in enumerate(panel.queries)}
    if len(panel.queries) == 1:  # then Grafana gives the column no letter
        names = {"Value": panel.queries[0].legend}
    order = {name: place for place, name in enumerate([*panel.by, *names])}
    titles: Mapping[str, str] = {**{label: label.capitalize() for label in panel.by}, **names}
    options = {"excludeByName": {"Time": True}, "indexByName": order, "renameByName": dict(titles)}
    return [{"id": "merge", "options": {}}, {"id": "organize", "options": options}]


def _overrides(panel: Panel) -> Iterator[Json]:
    if panel.kind != "table":
        return
    for query in panel.queries:
        properties: list[Json] = [{"id": "unit", "value": query.unit or panel.unit}]
        if query.steps:
            properties.append({"id": "thresholds", "value": _thresholds(query.steps)})
            properties.append(
                {"id": "custom.cellOptions", "value": {"type": "color-background", "mode": "basic"}}
            )
        yield {"matcher": {"id": "byName", "options": query.legend}, "properties": properties}
