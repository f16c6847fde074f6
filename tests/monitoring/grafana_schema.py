"""What Grafana takes as a dashboard: the parts that ours use, as `tests.helpers.chart_schema` reads schemas.

Facts from Grafana's kinds/dashboard/dashboard_kind.cue and the schemas of its panels, options and fields that
ours do not use are refused, so that a new one is looked up before it is used.
"""

from typing import Any, Final

Schema = dict[str, Any]

TEXT: Final[Schema] = {"type": "string"}
FILLED: Final[Schema] = {"type": "string", "minLength": 1}
SWITCH: Final[Schema] = {"type": "boolean"}
NUMBER: Final[Schema] = {"type": "number"}
ANY: Final[Schema] = {}
NAMES: Final[Schema] = {"type": "array", "items": FILLED}
COLOUR: Final[Schema] = {"enum": ["green", "orange", "red", "text"]}
UNITS: Final = ("short", "s", "d", "bytes", "Bps", "ops", "reqps", "percentunit", "bool_yes_no")
"""Of Grafana's getValueFormats."""
UNIT: Final[Schema] = {"enum": list(UNITS)}


def closed(**properties: Schema) -> Schema:
    """An object with all of these properties and no other."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def optional(schema: Schema, **properties: Schema) -> Schema:
    return {**schema, "properties": {**schema["properties"], **properties}}


def many(item: Schema) -> Schema:
    return {"type": "array", "items": item}


SOURCE: Final = closed(type={"enum": ["prometheus"]}, uid={"enum": ["${datasource}"]})
PLACE: Final = closed(
    x={"type": "integer", "minimum": 0, "maximum": 23},
    y={"type": "integer", "minimum": 0},
    w={"type": "integer", "minimum": 1, "maximum": 24},
    h={"type": "integer", "minimum": 1},
)
THRESHOLDS: Final = closed(mode={"enum": ["absolute"]}, steps=many(closed(color=COLOUR, value=ANY)))
MAPPING: Final = closed(
    type={"enum": ["value"]},
    options={"type": "object", "additionalProperties": closed(text=FILLED, color=COLOUR)},
)
DEFAULTS: Final = optional(
    closed(
        unit=UNIT,
        color=closed(mode={"enum": ["thresholds", "palette-classic"]}),
        thresholds=THRESHOLDS,
        mappings=many(MAPPING),
        noValue=FILLED,
        custom={"type": "object"},
    ),
    min=NUMBER,
    max=NUMBER,
)
OVERRIDE: Final = closed(
    matcher=closed(id={"enum": ["byName"]}, options=FILLED),
    properties=many(closed(id={"enum": ["unit", "thresholds", "custom.cellOptions"]}, value=ANY)),
)
TARGET: Final = closed(
    refId={"type": "string", "pattern": "^[A-Z]$"},
    datasource=SOURCE,
    expr=FILLED,
    legendFormat=FILLED,
    editorMode={"enum": ["code"]},
    instant=SWITCH,
    range=SWITCH,
    format={"enum": ["time_series", "table"]},
)
LEGEND: Final = closed(
    displayMode={"enum": ["list"]}, placement={"enum": ["bottom"]}, showLegend=SWITCH, calcs=NAMES
)
TOOLTIP: Final = closed(mode={"enum": ["multi", "single"]}, sort={"enum": ["desc", "none"]})
OPTIONS: Final = {
    "timeseries": closed(legend=LEGEND, tooltip=TOOLTIP),
    "state-timeline": closed(
        mergeValues=SWITCH,
        showValue={"enum": ["auto"]},
        rowHeight=NUMBER,
        legend=LEGEND,
        tooltip=TOOLTIP,
    ),
    "stat": closed(
        reduceOptions=closed(calcs={"enum": [["lastNotNull"]]}, fields=TEXT, values=SWITCH),
        colorMode={"enum": ["background"]},
        graphMode={"enum": ["none"]},
        justifyMode={"enum": ["center"]},
        textMode={"enum": ["value", "value_and_name"]},
        orientation={"enum": ["auto"]},
    ),
    "table": closed(
        showHeader=SWITCH, cellHeight={"enum": ["sm"]}, footer=closed(show=SWITCH, reducer=NAMES)
    ),
}
CUSTOM: Final = {
    "timeseries": closed(
        drawStyle={"enum": ["line"]},
        lineWidth={"type": "integer", "minimum": 0, "maximum": 10},
        fillOpacity={"type": "integer", "minimum": 0, "maximum": 100},
        showPoints={"enum": ["never"]},
        spanNulls=SWITCH,
        stacking=closed(mode={"enum": ["none", "normal"]}, group=FILLED),
        thresholdsStyle=closed(mode={"enum": ["off", "dashed"]}),
    ),
    "state-timeline": closed(
        fillOpacity={"type": "integer"}, lineWidth={"type": "integer"}, spanNulls=SWITCH
    ),
    "stat": closed(),
    "table": closed(align={"enum": ["auto"]}, cellOptions=closed(type={"enum": ["auto"]}), filterable=SWITCH),
}


def panel(kind: str) -> Schema:
    """The schema of a panel of that kind."""
    schema = closed(
        id={"type": "integer", "minimum": 1},
        type={"enum": [kind]},
        title=FILLED,
        description=FILLED,
        datasource=SOURCE,
        gridPos=PLACE,
        targets={"type": "array", "minItems": 1, "items": TARGET},
        fieldConfig=closed(
            defaults=optional(DEFAULTS, custom=CUSTOM[kind]),
            overrides=many(OVERRIDE),
        ),
        options=OPTIONS[kind],
    )
    if kind == "table":
        return optional(schema, transformations=many(closed(id=FILLED, options={"type": "object"})))
    return schema


ROW: Final = closed(
    id={"type": "integer", "minimum": 1},
    type={"enum": ["row"]},
    title=FILLED,
    collapsed=SWITCH,
    panels={"enum": [[]]},
    gridPos=PLACE,
)
LINK: Final = closed(
    title=FILLED,
    type={"enum": ["dashboards"]},
    tags=NAMES,
    asDropdown=SWITCH,
    includeVars=SWITCH,
    keepTime=SWITCH,
    targetBlank=SWITCH,
    icon=FILLED,
    tooltip=TEXT,
    url=TEXT,
)
ANNOTATION: Final = closed(
    name=FILLED,
    datasource=SOURCE,
    enable=SWITCH,
    hide=SWITCH,
    iconColor=FILLED,
    expr=FILLED,
    titleFormat=FILLED,
    textFormat=FILLED,
    step=FILLED,
)
VARIABLE: Final = {
    **optional(
        closed(
            name=FILLED,
            label=FILLED,
            type={"enum": ["datasource", "query"]},
            query=ANY,
            current={"type": "object"},
            hide={"enum": [0]},
            refresh={"enum": [1, 2]},
            regex=TEXT,
            options={"enum": [[]]},
        ),
        datasource=SOURCE,
        definition=FILLED,
        sort={"enum": [1]},
        multi=SWITCH,
        includeAll=SWITCH,
        allValue=FILLED,
    )
}
DASHBOARD: Final = closed(
    uid={"type": "string", "pattern": "^[a-zA-Z0-9_.-]{1,40}$"},
    title=FILLED,
    description=FILLED,
    tags=NAMES,
    schemaVersion={"type": "integer", "minimum": 36},
    editable=SWITCH,
    graphTooltip={"enum": [0, 1, 2]},
    refresh={"enum": ["30s"]},
    time=closed(**{"from": FILLED, "to": FILLED}),
    timezone={"enum": ["browser"]},
    links=many(LINK),
    annotations=closed(list=many(ANNOTATION)),
    templating=closed(list=many(VARIABLE)),
    panels=many({"type": "object"}),
)
