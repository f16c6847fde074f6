"""How a run handles failures: report once, retry soon, or back a group off."""

import datetime
from typing import Any

import pytest
from attrs import define, field

from controllers.nodegroups.group_health import GroupState
from controllers.nodegroups.models import NodeAutoscaler, NodeAutoscalerStatus
from controllers.nodegroups.sizing_run import NodeGroupSettings, SizingRun
from reconcile.blocks import BackoffTerms, PoolBackoff
from reconcile.errors import ApiError, Forbidden, NotLeading, OutcomeUnknown, StaleVersion, TooManyRequests

NOW = datetime.datetime(2026, 1, 1, 12, 5, 9, tzinfo=datetime.UTC)


@define
class Heard:
    """A context that only keeps what it is told: Events and lines of the log."""

    object: NodeAutoscaler = field(factory=NodeAutoscaler)
    events: list[tuple[str, str, bool, str]] = field(factory=list)
    lines: list[tuple[str, dict[str, str]]] = field(factory=list)

    @property
    def log(self) -> "Heard":
        return self

    def event(self, reason: str, message: str, *, warning: bool, action: str) -> None:
        self.events.append((reason, message, warning, action))

    def info(self, text: str, **more: str) -> None:
        self.lines.append((text, more))


def a_pass(heard: Heard, settings: NodeGroupSettings | None = None) -> SizingRun:
    context: Any = heard
    client: Any = None
    return SizingRun(context, settings or NodeGroupSettings(), client, NOW)


@pytest.mark.rule("node-groups-bad-input")
def test_a_problem_is_in_the_condition_once_and_in_an_event_while_it_is_new() -> None:
    heard = Heard(NodeAutoscaler(status=NodeAutoscalerStatus(warned=("known",))))
    this = a_pass(heard)
    for text in ("new", "known", "new", "known"):
        this.trouble(text)
    assert this.warned == ["new", "known"]
    assert heard.events == [("NodeGroups", "new", True, "Size")]


@pytest.mark.rule("capi-2d-transient")
@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (StaleVersion(409, "Conflict", "changed"), "conflict"),
        (TooManyRequests(429, "TooManyRequests", "busy"), "throttled"),
        (OutcomeUnknown("lost"), "transient"),
    ],
)
def test_a_transient_failure_is_retried_soon_and_only_logged(error: ApiError, kind: str) -> None:
    heard = Heard()
    this = a_pass(heard)
    this.failed("sizing", error)
    assert (this.soon, this.warned, heard.events) == (True, [], [])
    assert heard.lines == [("will be tried again", {"what": "sizing", "kind": kind})]


@pytest.mark.rule("capi-2d-quota")
def test_a_lasting_failure_is_reported_and_not_retried_soon() -> None:
    heard = Heard()
    this = a_pass(heard)
    this.failed("sizing", Forbidden(403, "Forbidden", "no role says so"))
    assert (this.soon, this.warned, heard.lines) == (False, ["sizing: forbidden"], [])


def test_a_run_that_has_lost_its_leadership_ends() -> None:
    heard = Heard()
    with pytest.raises(NotLeading):
        a_pass(heard).failed("sizing", NotLeading("not now"))
    assert (heard.events, heard.lines) == ([], [])


@pytest.mark.rule("capi-2d-backoff", "capi-2d-quota")
def test_a_group_without_capacity_backs_off_by_the_managers_settings_and_is_reported() -> None:
    heard = Heard()
    this = a_pass(heard, NodeGroupSettings(terms=BackoffTerms(first=60.0)))
    this.states |= {"a": GroupState("a", 3), "b": GroupState("b")}
    this.lacks_capacity("a", "quota")
    assert this.states["a"].backoff == PoolBackoff(NOW + datetime.timedelta(seconds=60), 60.0, NOW, "quota")
    assert (this.states["a"].size, this.states["b"]) == (3, GroupState("b"))
    assert heard.events == [("NoCapacity", "a: quota", True, "Grow")]
    assert this.stamp == "2026-01-01T12:05:09Z"
