"""Evaluates groups of rules over time: what they record, and which alerts are pending or fire."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from attrs import define, field, frozen

from tests.monitoring.promql.evaluate import Ambiguous, Sample, Vector, evaluated
from tests.monitoring.promql.series import NAME, Labels, Store, dropped
from tests.monitoring.promql.syntax import Expr, NotKnown, milliseconds, parsed

_KNOWN: Final = {"alert", "record", "expr", "for", "labels", "annotations"}


@define
class Alert:
    """An alert of one set of labels: since which millisecond its expression holds, and whether it fires."""

    since: int
    firing: bool = False


@frozen
class Rule:
    """A rule, and what it remembers from one evaluation to the next."""

    name: str
    expr: Expr
    labels: Mapping[str, str]
    hold: int | None
    """For how many milliseconds its expression must hold before an alert fires; None: it records."""
    _alerts: dict[Labels, Alert] = field(factory=dict, init=False)
    _written: set[Labels] = field(factory=set, init=False)

    def evaluate(self, store: Store, time: int) -> None:
        """Add what the rule makes of the series at a time; a series that it no longer makes ends."""
        made = self._made(evaluated(self.expr, store, time), time)
        for sample in made:
            store.add(sample.labels, time, sample.value)
        labels = {sample.labels for sample in made}
        for gone in self._written - labels:
            store.end(gone, time)
        self._written.clear()
        self._written.update(labels)

    def _made(self, found: Vector, time: int) -> Vector:
        own = {NAME: self.name} if self.hold is None else {"alertname": self.name}
        named = [
            Sample(dropped(sample.labels, (NAME,)).having(**self.labels, **own), sample.value)
            for sample in found
        ]
        labels = {sample.labels for sample in named}
        if len(labels) < len(named):
            raise Ambiguous(f"{self.name}: series are the same after the labels of the rule were added")
        return named if self.hold is None else self._alerted(labels, self.hold, time)

    def _alerted(self, holds: Iterable[Labels], hold: int, time: int) -> Vector:
        """The series that tell which alerts there are, by those whose expression holds."""
        before = dict(self._alerts)
        self._alerts.clear()
        samples: list[Sample] = []
        for labels in holds:
            alert = self._alerts[labels] = before.get(labels) or Alert(time)
            alert.firing = alert.firing or time - alert.since >= hold
            state = "firing" if alert.firing else "pending"
            samples.append(Sample(labels.having(**{NAME: "ALERTS", "alertstate": state}), 1.0))
            since = float(alert.since // 1000)
            samples.append(Sample(labels.having(**{NAME: "ALERTS_FOR_STATE"}), since))
        return samples


def rules_of(groups: Iterable[Mapping[str, Any]]) -> Sequence[Rule]:
    """The rules of groups, such as those in a file of Prometheus, in their order. Raises NotKnown."""
    return [_rule(rule) for group in groups for rule in group["rules"]]


def _rule(rule: Mapping[str, Any]) -> Rule:
    if more := rule.keys() - _KNOWN:
        raise NotKnown(f"{', '.join(sorted(more))} of a rule, which this evaluator does not know")
    labels = rule.get("labels", {})
    if any("{{" in value for value in labels.values()):
        raise NotKnown(f"a template in the labels {labels}, which this evaluator does not know")
    expr = parsed(rule["expr"])
    if "record" in rule:
        return Rule(rule["record"], expr, labels, None)
    return Rule(rule["alert"], expr, labels, milliseconds(rule.get("for", "0s")))
