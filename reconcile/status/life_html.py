"""An object's life as one HTML file to be shared: it needs no server, and loads nothing from anywhere."""

import datetime
from base64 import b64encode
from collections.abc import Iterator, Sequence
from hashlib import sha256
from importlib.resources import files
from typing import Final

from reconcile.status.life_form import (
    RUNNING,
    Difference,
    Life,
    LifeRun,
    Node,
    Read,
    SaidCondition,
    WokenBy,
    Written,
)
from reconcile.status.markup import Child, Markup, element, verbatim
from reconcile.status.why_not_now import after_tries, seconds_text

DEEPEST: Final = 20
"""Levels of owned objects; our own lives have fewer."""
_FOLDED_FROM: Final = 9
"""A list of fields or reads as long as this is folded."""

_COLOURS: Final = {
    "failing": "bad",
    "error": "bad",
    "missing": "bad",
    "back-off": "bad",
    "outage": "bad",
    "throttled": "bad",
    "progressing": "moving",
    "deleting": "moving",
    "differs": "moving",
    "running": "moving",
    "paused": "moving",
    "requeue": "moving",
    "healthy": "good",
    "same": "good",
    "success": "good",
    "requeue_after": "good",
}
_DESIRED: Final = {
    "same": "as it was applied",
    "differs": "differs from what was applied",
    "missing": "was applied, and is not there",
}


def html_of(life: Life) -> str:
    """The file. It is escaped whatever a life has in it, and its policy allows no other style or script."""
    style, script = (_source(name) for name in ("life_export.css", "life_export.js"))
    policy = (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="referrer", content="no-referrer"),
        element("title", f"{life.kind} {life.key}"),
        verbatim("style", style),
    )
    body = element("body", element("main", *_sections(life)), verbatim("script", script))
    return f"<!doctype html>\n{element('html', head, body, lang='en').text}\n"


def _sections(life: Life) -> Iterator[Markup]:
    yield _header(life)
    if life.conditions:
        yield element("h2", "Conditions")
        yield element("ul", *map(_condition, life.conditions), class_="tree")
    yield element("h2", "Runs, newest first")
    if life.runs:
        yield element("ol", *([_run(run, life), _gap(run)] for run in life.runs), class_="runs")
    else:
        yield element("p", "No run of it is remembered.", class_="faint")
    if life.tree is not None:
        yield element("h2", "What it owns")
        yield element("ul", _node(life.tree, 0), class_="tree")
    yield element(
        "footer",
        "As the manager knew it at ",
        _time(life.now),
        ". Values of Secrets and of fields that are declared secret are left out.",
    )


# --- what it is, and how it does ----------------------------------------------------------------------


def _header(life: Life) -> Markup:
    now = element(
        "div",
        element("strong", life.why.state),
        f": {life.why.sentence}" if life.why.sentence else None,
        [" (", _time(life.why.next_at), ")"] if life.why.next_at is not None else None,
        class_=f"now said {_colour(life.why.state)}",
    )
    return element(
        "header",
        element(
            "div",
            element(
                "h1", element("span", life.kind, class_="kind"), " ", element("span", life.key, class_="said")
            ),
            _badge(life.health),
            class_="top",
        ),
        element("p", life.reason, class_="said") if life.reason else None,
        element("ul", *_facts(life), class_="facts faint"),
        now,
    )


def _facts(life: Life) -> Iterator[Markup]:
    yield element("li", "controller ", element("code", life.controller))
    if life.cluster:
        yield element("li", "cluster ", element("code", life.cluster))
    if life.generation is not None:
        observed = "" if life.observed is None else f", {life.observed} observed"
        yield element("li", f"generation {life.generation}{observed}")
    if life.created is not None:
        yield element("li", "created ", _time(life.created))
    if life.deleting_since is not None:
        held = f", held by {', '.join(life.finalizers)}" if life.finalizers else ""
        yield element("li", "being deleted since ", _time(life.deleting_since), held)
    if not life.exists:
        yield element("li", "it is gone")


def _condition(condition: SaidCondition) -> Markup:
    return element(
        "li",
        element("code", f"{condition.type}={condition.status}"),
        f" {condition.reason}" if condition.reason else None,
        _moment(" since ", condition.since),
        element("div", condition.message, class_="said") if condition.message else None,
    )


# --- the runs -----------------------------------------------------------------------------------------


def _run(run: LifeRun, life: Life) -> Markup:
    took = (life.now if run.ended is None else run.ended) - run.started
    return element(
        "li",
        element(
            "div",
            element("h3", _time(run.started, exact=True)),
            _badge(run.result),
            element(
                "span",
                f"{_seconds(took)}, {_seconds(life.now - run.started)} before this file",
                class_="faint",
            ),
            class_="top",
        ),
        element("dl", *_chain(run, life), class_="chain"),
        id=_anchor(run.id),
        class_=f"run {_colour(run.result)}",
    )


def _gap(run: LifeRun) -> Markup | None:
    """What stands below a run where those just before it are not kept."""
    if not run.left_out:
        return None
    are = "run is" if run.left_out == 1 else "runs are"
    return element("li", f"{run.left_out} {are} not kept", class_="run gap faint")


def _chain(run: LifeRun, life: Life) -> Iterator[Markup]:
    yield from _link_of_chain("woken by", [_cause(cause, life) for cause in run.woken_by], "unknown")
    if run.result != RUNNING:
        yield from _link_of_chain("read", _folded("objects", [_read(read) for read in run.reads]), "nothing")
        yield from _link_of_chain("wrote", list(map(_written, run.writes)), "nothing")
    yield from _link_of_chain("result", [_result(run)])
    if run.next_at is not None:
        yield from _link_of_chain("next try", [element("li", _time(run.next_at))])


def _link_of_chain(name: str, items: Sequence[Markup], otherwise: str = "") -> Iterator[Markup]:
    yield element("dt", name)
    empty = element("li", otherwise, class_="faint")
    yield element("dd", element("ul", *(items or [empty])))


def _cause(cause: WokenBy, life: Life) -> Markup:
    return element(
        "li",
        element("span", cause.what, class_="said"),
        _moment(" at ", cause.at, exact=True),
        _origin(cause, life),
    )


def _origin(cause: WokenBy, life: Life) -> Markup | None:
    origin = cause.origin
    if origin is None:
        return None
    is_own = (origin.controller, origin.key) == (life.controller, life.key)
    if is_own and any(run.id == origin.run for run in life.runs):
        run: Child = element("a", f"run {origin.run}", href=f"#{_anchor(origin.run)}")
    elif is_own:
        run = f"run {origin.run}"
    else:
        run = f"run {origin.run} of {origin.controller} for {origin.key}"
    return element("span", ", from ", run, class_="faint")


def _read(read: Read) -> Markup:
    return element("li", element("code", f"{read.kind} {read.key or '(list)'}"))


def _written(write: Written) -> Markup:
    took = "" if write.seconds is None else f" in {_seconds(write.seconds)}"
    head = element("code", f"{write.verb} {write.kind} {write.key}")
    said = element("span", took, class_="faint")
    if write.secret:
        return element("li", head, said, element("div", "values of Secrets are not kept", class_="faint"))
    if write.fields is None:
        return element(
            "li", element("code", write.text), element("div", "its fields are not kept", class_="faint")
        )
    if not write.fields:
        return element("li", element("code", write.text), said)
    return element("li", head, said, _fields(write.fields, "before", "after"))


def _result(run: LifeRun) -> Markup:
    times = f", {after_tries(run.attempt)}" if run.attempt else ""
    return element(
        "li",
        f"{run.result}{times}",
        element("div", run.error, class_="said error") if run.error else None,
        element("div", "at ", element("code", run.at), class_="faint") if run.at else None,
        element("div", f"reconcile id {run.id}", class_="faint") if run.id else None,
    )


# --- what it owns -------------------------------------------------------------------------------------


def _node(node: Node, depth: int) -> Markup:
    below = [_node(child, depth + 1) for child in node.children] if depth < DEEPEST else []
    left_out = node.more + (0 if depth < DEEPEST else len(node.children))
    if left_out:
        below.append(element("li", f"and {left_out} more", class_="faint"))
    words = _DESIRED.get(node.desired)
    return element(
        "li",
        element("code", f"{node.kind} {node.key}"),
        " ",
        _badge(node.health) if node.health else None,
        " ",
        element("span", words, class_=_colour(node.desired)) if words else None,
        _fields(node.fields, "applied", "live") if node.fields else None,
        element("ul", *below) if below else None,
    )


# --- parts --------------------------------------------------------------------------------------------


def _fields(fields: Sequence[Difference], before: str, after: str) -> Markup:
    rows = [
        element(
            "tr",
            element("td", element("code", field.path)),
            _value(field.old or field.desired, before, "old"),
            _value(field.new or field.live, after, "new"),
        )
        for field in fields
    ]
    heads = element(
        "thead", element("tr", *(element("th", name, scope="col") for name in ("field", before, after)))
    )
    table = element("table", heads, element("tbody", *rows), class_="fields")
    return table if len(fields) < _FOLDED_FROM else _fold(f"{len(fields)} fields", table)


def _value(value: str, label: str, class_: str) -> Markup:
    """An absent value is said in words, so that it is told apart from an empty one."""
    if not value:
        return element("td", element("span", "absent", class_="faint"), data_label=label)
    return element("td", element("span", value, class_=f"value {class_}"), data_label=label)


def _folded(what: str, items: Sequence[Markup]) -> Sequence[Markup]:
    if len(items) < _FOLDED_FROM:
        return items
    return [element("li", _fold(f"{len(items)} {what}", element("ul", *items)))]


def _fold(summary: str, content: Markup) -> Markup:
    return element("details", element("summary", summary), content)


def _badge(word: str) -> Markup:
    return element("span", word, class_=f"badge {_colour(word)}")


def _colour(word: str) -> str:
    return _COLOURS.get(word, "calm")


def _time(seconds: float, *, exact: bool = False) -> Markup:
    """A time in UTC; if `exact`, with milliseconds, which tell runs that follow at once from each other."""
    moment = datetime.datetime.fromtimestamp(seconds, datetime.UTC)
    rest = f".{moment.microsecond // 1000:03}" if exact else ""
    return element(
        "time", f"{moment:%Y-%m-%d %H:%M:%S}{rest} UTC", datetime=f"{moment:%Y-%m-%dT%H:%M:%S.%f}Z"
    )


def _moment(before: str, seconds: float | None, *, exact: bool = False) -> Markup | None:
    if seconds is None:
        return None
    return element("span", before, _time(seconds, exact=exact), class_="faint")


def _seconds(seconds: float) -> str:
    if not 0 <= seconds < 0.1:
        return seconds_text(seconds)
    return f"{seconds * 1000:.{1 if seconds < 0.01 else 0}f} ms"


def _anchor(reconcile_id: str) -> str | None:
    """The anchor of a run in the file; None for one without an id."""
    return f"run-{reconcile_id}" if reconcile_id else None


def _source(name: str) -> str:
    return files("reconcile.status").joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """The hash by which a policy allows exactly this style or script."""
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"
