"""Evaluates PromQL at one time over stored series, as Prometheus does an instant query."""

import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from attrs import frozen

from tests.monitoring.promql.functions import OVER_WINDOWS, divided, largest, quantile, smallest
from tests.monitoring.promql.series import NAME, Labels, Store, dropped, kept
from tests.monitoring.promql.syntax import (
    COMPARISONS,
    SETS,
    Aggregation,
    Binary,
    Call,
    Expr,
    Number,
    Selector,
    Text,
)


class Ambiguous(ValueError):
    """Series that cannot be told apart where Prometheus wants them to be: it refuses such an evaluation."""


@frozen
class Sample:
    labels: Labels
    value: float


Vector: TypeAlias = Sequence[Sample]


_ARITHMETIC: Final[Mapping[str, Callable[[float, float], float]]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": divided,
}
_COMPARED: Final[Mapping[str, Callable[[float, float], bool]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
    ">=": operator.ge,
    "<=": operator.le,
}
_AGGREGATED: Final[Mapping[str, Callable[[Sequence[float]], float]]] = {
    "sum": sum,
    "min": smallest,
    "max": largest,
    "count": len,
}


def evaluated(expr: Expr, store: Store, time: int) -> Vector:
    """The samples that an expression has at a time in milliseconds; a scalar is one without labels.

    Raises Ambiguous.
    """
    return _Evaluation(store, time).vector(expr)


@frozen
class _Evaluation:
    store: Store
    time: int

    def vector(self, expr: Expr) -> Vector:
        match expr:
            case Number():
                return [Sample(Labels(()), expr.value)]
            case Selector():
                return [*self._selected(expr)]
            case Call():
                return self._called(expr)
            case Aggregation():
                return _aggregated(expr, self.vector(expr.of))
            case Binary():
                return self._binary(expr)
            case Text():
                raise AssertionError(expr)

    def scalar(self, expr: Expr) -> float | None:
        """The number that an expression is; None for a vector."""
        match expr:
            case Number():
                return expr.value
            case Binary():
                left, right = self.scalar(expr.left), self.scalar(expr.right)
                return None if left is None or right is None else _result(expr, left, right)
        return None

    def _selected(self, selector: Selector) -> Iterator[Sample]:
        for series in self.store.chosen(selector):
            value = series.at(self.time - selector.offset)
            if value is not None:
                yield Sample(series.labels, value)

    def _called(self, call: Call) -> Vector:
        match call.function, call.args:
            case "vector", (value,):
                return self.vector(value)
            case "absent", (what,):
                return [] if self.vector(what) else [Sample(_labels_of_the_absent(what), 1.0)]
            case "histogram_quantile", (share, buckets):
                wanted = self.scalar(share)
                assert wanted is not None
                return _unique(_quantiles(wanted, self.vector(buckets)))
            case "label_replace", (what, Text(label), Text(new), Text(source), Text(pattern)):
                fits = re.compile(pattern, re.DOTALL)
                return _unique(
                    Sample(
                        _replaced(one.labels, label, new, fits.fullmatch(one.labels.get(source))), one.value
                    )
                    for one in self.vector(what)
                )
            case name, (Selector() as selector,):
                return _unique(self._over_windows(OVER_WINDOWS[name], selector))
        raise AssertionError(call)

    def _over_windows(self, compute: Callable[..., float | None], selector: Selector) -> Iterator[Sample]:
        assert selector.window is not None
        end = self.time - selector.offset
        for series in self.store.chosen(selector):
            value = compute(series.within(end - selector.window, end))
            if value is not None:
                yield Sample(dropped(series.labels, (NAME,)), value)

    def _binary(self, expr: Binary) -> Vector:
        left, right = self.scalar(expr.left), self.scalar(expr.right)
        if left is not None and right is not None:
            return [Sample(Labels(()), _result(expr, left, right))]
        if right is not None:
            return _unique(_with_scalar(expr, self.vector(expr.left), lambda value: (value, right)))
        if left is not None:
            return _unique(_with_scalar(expr, self.vector(expr.right), lambda value: (left, value)))
        if expr.operator in SETS:
            return _of_sets(expr, self.vector(expr.left), self.vector(expr.right))
        return _unique(_matched(expr, self.vector(expr.left), self.vector(expr.right)))


def _unique(samples: Iterable[Sample]) -> Vector:
    found = [*samples]
    if len({sample.labels for sample in found}) < len(found):
        raise Ambiguous("vector cannot contain metrics with the same labelset")
    return found


def _replaced(labels: Labels, label: str, new: str, found: re.Match[str] | None) -> Labels:
    """The labels with a new value of one, in which `$1` is what the first group of a pattern has found."""
    if found is None:
        return labels
    value = re.sub(r"\$(\d+)", lambda group: found[int(group[1])] or "", new)
    return labels.having(**{label: value})


def _labels_of_the_absent(expr: Expr) -> Labels:
    """What is known of a series that is not there: the labels that its selector asks for by one value."""
    if not isinstance(expr, Selector):
        return Labels(())
    asked = [matcher.label for matcher in expr.matchers]
    known = {one.label: one.value for one in expr.matchers if one.sign == "=" and asked.count(one.label) == 1}
    return Labels.of(known)


def _quantiles(share: float, samples: Vector) -> Iterator[Sample]:
    histograms: dict[Labels, list[tuple[float, float]]] = {}
    for sample in samples:
        try:
            bound = float(sample.labels.get("le"))
        except ValueError:
            continue
        histograms.setdefault(dropped(sample.labels, ("le", NAME)), []).append((bound, sample.value))
    for labels, buckets in histograms.items():
        yield Sample(labels, quantile(share, buckets))


def _aggregated(expr: Aggregation, samples: Vector) -> Vector:
    groups: dict[Labels, list[float]] = {}
    lost = (*expr.labels, NAME)
    for sample in samples:
        group = dropped(sample.labels, lost) if expr.without else kept(sample.labels, expr.labels)
        groups.setdefault(group, []).append(sample.value)
    compute = _AGGREGATED[expr.operator]
    return [Sample(group, float(compute(values))) for group, values in groups.items()]


def _result(expr: Binary, left: float, right: float) -> float:
    compute = _ARITHMETIC.get(expr.operator)
    return float(_COMPARED[expr.operator](left, right)) if compute is None else compute(left, right)


def _keeps_names(expr: Binary) -> bool:
    """Whether the result is a choice of the samples, and not new ones."""
    return expr.operator in COMPARISONS and not expr.to_bool


def _with_scalar(
    expr: Binary, samples: Vector, both: Callable[[float], tuple[float, float]]
) -> Iterator[Sample]:
    for sample in samples:
        result = _result(expr, *both(sample.value))
        if not _keeps_names(expr):
            yield Sample(dropped(sample.labels, (NAME,)), result)
        elif result:
            yield sample


def _signature(expr: Binary, labels: Labels) -> Labels:
    """By what a series is matched with one of the other side."""
    return kept(labels, expr.labels) if expr.on else dropped(labels, (*expr.labels, NAME))


def _of_sets(expr: Binary, left: Vector, right: Vector) -> Vector:
    if expr.operator == "or":
        there = {_signature(expr, sample.labels) for sample in left}
        return [*left, *(sample for sample in right if _signature(expr, sample.labels) not in there)]
    there = {_signature(expr, sample.labels) for sample in right}
    wanted = expr.operator == "and"
    return [sample for sample in left if (_signature(expr, sample.labels) in there) == wanted]


def _matched(expr: Binary, left: Vector, right: Vector) -> Iterator[Sample]:
    """Each sample of the left with its match of the right; those without one are left out."""
    if not left or not right:
        return
    others: dict[Labels, float] = {}
    for sample in right:
        signature = _signature(expr, sample.labels)
        if signature in others:
            raise Ambiguous(f"found duplicate series for the match group {signature} on the right hand-side")
        others[signature] = sample.value
    seen: set[Labels] = set()
    for sample in left:
        signature = _signature(expr, sample.labels)
        if signature not in others:
            continue
        result = _result(expr, sample.value, others[signature])
        if _keeps_names(expr):
            if not result:
                continue
            result = sample.value
        if signature in seen:
            raise Ambiguous(
                f"multiple matches for labels of {signature}: many-to-one matching must be explicit"
            )
        seen.add(signature)
        labels = sample.labels if _keeps_names(expr) else dropped(sample.labels, (NAME,))
        yield Sample(kept(labels, expr.labels) if expr.on else dropped(labels, expr.labels), result)
